"""Emitters of kernel IR: each turns one part of a kernel's plan into statements.

Begin with `thread_nest`, the loops over threads and points; the others emit what stands around or inside of these loops
(mainloops, sliding windows, register tiles, warp reductions, row scans).
"""
