"""Preludes: definitions at the beginning of generated code, helper functions in C, literals.

Begin with `scalar`, the functions of scalar values that all backends share.
"""

from autosched.codegen.prelude.literals import float_literal, int_literal
from autosched.codegen.prelude.scalar import (
    HALF_VECTORS,
    LOOKUP,
    NO_SLP,
    WORKAROUNDS,
    called_scalar_functions,
    helpers,
    scalar_functions,
    scalar_prelude,
    scalar_signatures,
    vector_math,
    workarounds,
)

__all__ = [
    "HALF_VECTORS",
    "LOOKUP",
    "NO_SLP",
    "WORKAROUNDS",
    "called_scalar_functions",
    "float_literal",
    "helpers",
    "int_literal",
    "scalar_functions",
    "scalar_prelude",
    "scalar_signatures",
    "vector_math",
    "workarounds",
]
