"""Memory accesses of stages: affine maps, dependences, required regions, and checks on what is read and written.

Begin with `regions`, the bounds inference that everything above relies on, and `dependence`, on which legality rests.
"""
