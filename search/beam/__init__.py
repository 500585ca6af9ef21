"""Beam search with hierarchical sampling.

Begin with `beam`; `state` is what it expands, `hierarchical_sampling` how it keeps a few of many.
"""
