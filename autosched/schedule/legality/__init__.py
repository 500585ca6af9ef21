"""Legality of schedules: one small function a rule, each of which yields reasons.

Begin with `validate`, which applies all of them.
"""
