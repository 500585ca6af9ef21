"""Random legal schedules, for tests, fuzzing and training data.

Start with `random_schedule.sample_schedule`; the other modules propose one kind of kernel each.
"""
