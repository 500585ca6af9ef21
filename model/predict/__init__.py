"""Predicted times from trained weights.

Begin with `learned`, the cost model that searches use.
"""
