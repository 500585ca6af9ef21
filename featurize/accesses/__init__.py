"""Memory accesses of many candidates at once: addresses, transactions, footprints.

Begin with `thread_accesses` (the accesses of one thread) and `memory_traffic` (transactions of all warps).
"""
