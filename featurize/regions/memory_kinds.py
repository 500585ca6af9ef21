"""Memories of Funcs."""

GLOBAL, SHARED, REGISTER = range(3)
