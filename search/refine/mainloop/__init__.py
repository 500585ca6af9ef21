"""Mainloops for kernels whose operands are reused: step lengths, tilings and transfer modes.

Begin with `mainloop_search`.
"""
