"""Compilation of candidates, with the versions and keys under which results are kept.

Begin with `compile_candidate`.
"""
