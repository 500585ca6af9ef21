"""Analyses of value expressions: hash consing, constant folding, and counts of operations.

Begin with `hash_consing`, which gives equal expressions equal keys.
"""
