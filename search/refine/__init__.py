"""Refinement of states and schedules: large-neighbourhood search, and changes outside the space of beam search.

Begin with `large_neighbourhood`.
"""
