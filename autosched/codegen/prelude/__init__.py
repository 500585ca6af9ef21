"""Texts that generated kernels start with."""

from autosched.codegen.prelude.literals import float_literal, int_literal
from autosched.codegen.prelude.scalar import (
    called_scalar_functions,
    loop_carried,
    scalar_functions,
    scalar_prelude,
    scalar_signatures,
    vector_math,
)

__all__ = [
    "called_scalar_functions",
    "float_literal",
    "int_literal",
    "loop_carried",
    "scalar_functions",
    "scalar_prelude",
    "scalar_signatures",
    "vector_math",
]
