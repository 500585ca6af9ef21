"""Processes that compile and time candidates, and the queues between them.

Begin with `pool`; a crash, a hang or a lost device ends one process and not the measurement.
"""
