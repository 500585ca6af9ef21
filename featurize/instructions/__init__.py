"""Instruction counts of batches of candidates.

Begin with `arithmetic_work`.
"""
