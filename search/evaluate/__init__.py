"""Costs of many partial schedules at once, each distinct kernel costed once.

Begin with `evaluator`.
"""
