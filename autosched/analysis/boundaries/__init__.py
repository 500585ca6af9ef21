"""Boundary conditions over known regions: mirrors without remainders, and periodic extensions of wrapped Funcs.

Both replace definitions of a bound pipeline by equal ones; begin with `simplification`.
"""
