"""A GPU that is simulated from the generated code: labels for tests and for machines without one.

It does not use features, so that a model trained on its times cannot merely copy the featurizer's formulas.
"""

from autosched.measure.simulated.simulate import KernelBreakdown, Simulated, simulate

__all__ = ["KernelBreakdown", "Simulated", "simulate"]
