"""Legality of schedules: one function per rule, which yields the reasons why a schedule breaks it.

Start with `validate`, which applies all rules.
"""
