"""Candidates for training data: random, searched and mutated schedules.

Begin with `candidate_mix`.
"""
