"""Emitters of kernel IR: functions that turn one part of a kernel's plan into statements.

Each takes a `KernelContext` and an `EmitMode`. From the inside out: `point_loops` (loops over a thread's points,
guards), `stage_loops` (one stage), `register_blocking` and `warp_reduction` (stages on register tiles), `thread_nest`
(thread loops), `block_loops` with `mainloop`, `double_buffering`, `sliding_window` and `row_scans` (loops around thread
nests), and `kernel_body`, which picks one of these for each step of a plan.
"""
