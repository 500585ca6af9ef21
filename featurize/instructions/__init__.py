"""Instruction counts of many candidates at once.

Begin with `arithmetic_work`.
"""
