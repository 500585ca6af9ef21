"""Comparison of schedules by interleaved timing.

Begin with `interleaved_comparison`.
"""
