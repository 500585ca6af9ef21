"""Memory accesses of stages: affine maps, dependences, required regions, and checks of reads and writes.

Begin with `regions`, the bounds inference of binding, lowering and search, and `dependence`, the basis of legality.
"""
