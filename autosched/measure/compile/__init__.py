"""Compilation of candidates, with the versions and keys of stored results.

Begin with `compile_candidate`.
"""
