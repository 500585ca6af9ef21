"""Strategies, which map a bound pipeline to a schedule; `protocol` is their common interface.

Begin with `compute_root`, the smallest.
"""
