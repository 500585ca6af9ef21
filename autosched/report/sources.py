"""Generated text and user definitions of each kernel."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath

from autosched.analysis.bound_pipeline import BoundPipeline, BoundStage
from autosched.codegen.c import host_prelude
from autosched.codegen.c import kernel_text as print_c_kernel
from autosched.codegen.cuda import cuda_prelude, print_cuda
from autosched.lang.source_location import SourceLocation
from autosched.lower.program import Program
from autosched.schedule.types import Kernel
from autosched.target import Target

MOST_COMMENT_LINES = 12
"""Most lines of a comment above a definition."""


@dataclass(frozen=True, slots=True)
class UserLines:
    """The user's line of code that defines one or more stages.

    Attributes:
        stages: The stages.
        place: Name of the file, without its directory, and line.
        text: The line and the comment above it; empty when the file cannot be read.
    """

    stages: tuple[str, ...]
    place: str
    text: str


def kernel_sources(program: Program, target: Target) -> list[str]:
    """Return the generated text of every kernel, without macros."""
    if target.kind == "cpu":
        return [print_c_kernel(kernel) for kernel in program.kernels]
    return [print_cuda(kernel).body for kernel in program.kernels]


def macros(target: Target) -> str:
    """Return the macros of generated kernels."""
    return host_prelude() if target.kind == "cpu" else cuda_prelude()


def user_lines(bound: BoundPipeline, kernel: Kernel) -> list[UserLines]:
    """Return the user's definitions of all stages of a kernel, inlined ones included, producers first."""
    stages_at: dict[SourceLocation, list[str]] = {}
    for stage in _stages(bound, kernel):
        if stage.location is not None:
            name = stage.func if stage.number == 0 else f"{stage.func}.{stage.number}"
            stages_at.setdefault(stage.location, []).append(name)
    return [
        UserLines(tuple(names), f"{PurePath(at.file).name}:{at.line}", _text(at)) for at, names in stages_at.items()
    ]


def _stages(bound: BoundPipeline, kernel: Kernel) -> Iterator[BoundStage]:
    computed = {t.stage for t in kernel.tilings()}
    inlined = {i.func for i in kernel.inlined}
    for func in bound.funcs.values():
        for stage in func.stages:
            if func.name in inlined or (func.name, stage.number) in computed:
                yield stage


def _text(at: SourceLocation) -> str:
    first = at.line
    while at.line - first < MOST_COMMENT_LINES and linecache.getline(at.file, first - 1).lstrip().startswith("#"):
        first -= 1
    lines = [linecache.getline(at.file, n).strip() for n in range(first, at.line + 1)]
    return "\n".join(lines)
