"""Devices to measure on: a GPU, the CPU, or the simulated GPU.

Begin with `selection`, which chooses one; `autosched.measure.backend` holds their common protocol.
"""
