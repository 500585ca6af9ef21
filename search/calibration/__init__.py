"""Scale of the processor at hand: measured over predicted time of microbenchmarks.

Begin with `processor_scale`.
"""
