"""Searches over rewrites of a pipeline: which are worth a search of their own.

Begin with `portfolio`; the other modules propose the rewrites of one kind.
"""
