"""The oracle: a NumPy interpreter of the language, one Func at a time over its whole domain, without a schedule.

It shares no code with lowering, code generation or region inference: domains, dependences and arithmetic follow rules
of its own, so that agreement with a compiled schedule means something.
"""

from __future__ import annotations

from autosched.reference.buffers import ReferenceBuffer
from autosched.reference.interpreter import interpret, interpret_funcs

__all__ = ["ReferenceBuffer", "interpret", "interpret_funcs"]
