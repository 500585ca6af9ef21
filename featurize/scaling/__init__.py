"""Kernels with steps, described by the features of one step and the number of steps.

Begin with `step_scaling.scaling_for`, which chooses by kind of kernel.
"""
