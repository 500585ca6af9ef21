"""Arrays of many kernels: static descriptors, and rows for each candidate.

Begin with `descriptor_tables` (one row a stage, loop or access) and `candidate_batch` (one row a candidate).
"""
