"""Regions and loop extents of blocks and threads, for batches of candidates.

Begin with `required_regions`, the batched form of bounds inference.
"""
