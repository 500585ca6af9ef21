"""Regions and loop extents of many candidates at once: what blocks and threads compute and read.

Begin with `required_regions`, the batched form of bounds inference.
"""
