"""From a pipeline to the schedule that a user gets: one-shot, top-k, and autotuning.

Begin with `one_shot`; `autotune` holds the tuning loop.
"""
