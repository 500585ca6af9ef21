"""Strategies: ways from a bound pipeline to a schedule. `protocol` is what all of them implement.

Begin with `compute_root`, the smallest.
"""
