"""Fusion by dynamic programming: the cheapest partition of a pipeline's Funcs into kernels.

Begin with `partition_search`; `group_graph` has the groups that one kernel can compute, `group_search` their kernels.
"""
