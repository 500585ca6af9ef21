"""Consequences of one kernel's schedule, as pure functions that lowering, features and legality share.

Start with `memory_layout` (shared memory and barriers) and `thread_fusion` (stages in one thread nest). Most take the
plan of a kernel (`autosched.schedule.plan`).
"""
