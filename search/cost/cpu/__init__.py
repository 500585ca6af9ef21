"""The analytical cost model of CPUs.

Begin with `analytical`, which combines the components of the other modules.
"""
