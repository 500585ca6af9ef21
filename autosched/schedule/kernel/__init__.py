"""Exact consequences of one kernel's schedule, as pure functions that lowering, features and legality share.

Begin with `memory_layout` (shared memory and barriers) and `thread_fusion` (stages of one thread loop nest); the plan
of a kernel, `autosched.schedule.plan`, is what these read.
"""
