"""Scaling of the features of one step to those of a kernel with steps.

Begin with `step_scaling.scaling_for`, which chooses by kind of kernel.
"""
