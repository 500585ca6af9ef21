"""The analytical cost model of CPUs.

Begin with `analytical`, which adds up the components that the other modules work out.
"""
