"""Symbolic integer indices: coordinates, shapes and literals of a bound pipeline.

Begin with `index`, whose functions build and inspect index expressions. `to_index` converts expressions of the
language; the other modules prove properties such as ranges, equality and overflow.
"""
