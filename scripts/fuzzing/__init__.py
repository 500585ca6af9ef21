"""Random programs of the language, checked under random and searched schedules on all backends.

A program is Python text, so that a failing one can be shrunk through its syntax tree and printed as a script.
"""
