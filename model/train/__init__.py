"""Training runs, fine-tuning, and their logs.

Begin with `training`.
"""
