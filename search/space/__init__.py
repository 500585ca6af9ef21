"""The space of schedules: decisions, their options, and tile sizes.

Begin with `decisions` and `option_enumeration`.
"""
