"""Executables of a program on one kind of device: a GPU, a CPU, the emulator of GPUs.

Begin with `factory`, which chooses among them.
"""
