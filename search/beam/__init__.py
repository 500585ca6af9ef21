"""Beam search with hierarchical sampling.

Begin with `beam`; `state` has its partial schedules, and `hierarchical_sampling` selects the options to cost.
"""
