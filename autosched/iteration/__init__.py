"""Repeated application of one time step: composition of fused steps, buffers in turn, any number of steps.

The main modules are `field_update` (a pipeline that computes fields from themselves), `step_unrolling` (a pipeline of
several steps), `deep_tuning` (schedules of 1, 2, 3, ... fused steps), `step_composition` (the dynamic program over the
number of steps), `launch_sequence` (versions and arrays of a call) and `scheduled_time_loop`.
"""
