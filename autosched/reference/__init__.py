"""The reference interpreter in NumPy: one Func at a time over its whole domain, without a schedule.

It shares no code with lowering, code generation or region inference. Its own rules for domains, dependences and
arithmetic make it an independent oracle for compiled schedules.
"""

from __future__ import annotations

from autosched.reference.buffers import ReferenceBuffer
from autosched.reference.interpreter import interpret, interpret_funcs

__all__ = ["ReferenceBuffer", "interpret", "interpret_funcs"]
