"""Updates with their stage, loops and buffers, ready to run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from autosched.lang.func import Func, Input
from autosched.reference.access import write
from autosched.reference.buffers import Loop, ReferenceBuffer, Value
from autosched.reference.program import Bindings, ReferenceProgram
from autosched.reference.stage import ReferenceStage


@dataclass(frozen=True)
class Update:
    """An update whose sources are computed.

    ``pure`` are the loops over the Func's Vars; ``buffer`` contains the Func's values and is updated in place.
    """

    stage: ReferenceStage
    pure: list[Loop]
    buffer: ReferenceBuffer
    bindings: Bindings
    sources: Mapping[Func | Input, ReferenceBuffer]

    def program(self, *roots: int) -> ReferenceProgram:
        """Return a program for expressions of the stage."""
        return ReferenceProgram(self.stage.numbering, roots, self.bindings, self.sources)

    def store(self, indices: list[Value], values: list[Value]) -> None:
        """Store all components at the indices, as computed before the first store."""
        if len(values) > 1:
            values = [v.copy() for v in values]  # a value may be a view of another component
        for array, value in zip(self.buffer.arrays, values, strict=True):
            write(array, self.buffer.origin, tuple(indices), value)
