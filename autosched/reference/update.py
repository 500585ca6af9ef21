"""An update about to be run: its stage, its loops and where its values lie."""

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
    """An update with everything it reads computed already.

    ``pure`` are the loops over the Func's Vars; ``buffer`` holds the Func's values and is changed in place.
    """

    stage: ReferenceStage
    pure: list[Loop]
    buffer: ReferenceBuffer
    bindings: Bindings
    sources: Mapping[Func | Input, ReferenceBuffer]

    def program(self, *roots: int) -> ReferenceProgram:
        """Return a program for some of the stage's expressions."""
        return ReferenceProgram(self.stage.numbering, roots, self.bindings, self.sources)

    def store(self, indices: list[Value], values: list[Value]) -> None:
        """Store all components at the indices; all were computed before the first is stored."""
        if len(values) > 1:
            values = [v.copy() for v in values]  # a value may be a view of a component stored before it
        for array, value in zip(self.buffer.arrays, values, strict=True):
            write(array, self.buffer.origin, tuple(indices), value)
