"""The interface of a scheduled pipeline for reports and export."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.lower.program import Program
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.call.signature import CallSignature
from autosched.schedule.types import Schedule
from autosched.target import Target

if TYPE_CHECKING:
    from autosched.search.results import SearchResult
    from autosched.search.tune.provenance import Provenance


class Scheduled(Protocol):
    """A pipeline with concrete shapes and a legal schedule; `autosched.ScheduledPipeline` is one."""

    bound: BoundPipeline
    schedule: Schedule
    target: Target
    signature: CallSignature
    search_result: SearchResult | None
    provenance: Provenance | None

    @property
    def program(self) -> Program:
        """The lowered kernels."""
        ...

    def compile(self, backend: str | None = None, *, fast_math: bool = False) -> CompiledPipeline:
        """Compile the pipeline."""
        ...

    def text(self) -> str:
        """Return the schedule as an indented loop nest."""
        ...
