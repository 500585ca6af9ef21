"""Random complete states: uniform over kinds of compute locations, then over options of a kind.

Each decision is random among the options of a search, so fuzzing and feature checks cover the search space. Slow
options (idle lanes, recomputation) are included. Options without a legal schedule, or with register tiles too large to
unroll, are rejected. Both depend on the layout of a kernel alone, so nothing is costed.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace

import numpy as np

from autosched.featurize.sketch.kernel_from_sketch import planned_kernel
from autosched.featurize.sketch.sketch import KernelSketch
from autosched.schedule.legality.validate import kernel_violations, violations
from autosched.schedule.types import Level, Schedule, TileAlignment
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.beam.to_schedule import schedule_of
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.cache_reads import CacheReadSearch
from autosched.search.refine.retile import Retiler
from autosched.search.refine.tile_alignment import with_alignment
from autosched.search.space.decisions import Option, TileOptions
from autosched.search.space.option_enumeration import OptionEnumerator

TRIES = 12
"""Options of the chosen kind to try before the Func is computed at root."""
CHECKED = ("inline", "block", "warp", "thread")
"""Kinds of options whose kernels need the exact checks: register tiles must be read at constant indices."""
VARIED = 0.5
"""Share of aligned tiles, and of kernels with a cache read."""
LINEAR_PERIOD = 4
"""Period of the varied kernels that get linear threads, chosen by their tile sizes."""


@dataclass
class RandomStates:
    """Draws complete states of one search space.

    Args:
        evaluator: Evaluator of the pipeline's kernels.
        varied: Whether tile alignments, cache reads and linear threads are random as well.
        enumerator: Enumerator of a search with the same evaluator; a new one if left out.

    Attributes:
        chosen: Chosen options by kind.
        offered: Decisions with an option of a kind, by kind.
        rejected: Rejected options and illegal states, by reason.
    """

    evaluator: KernelEvaluator
    varied: bool = False
    enumerator: InitVar[OptionEnumerator | None] = None
    chosen: Counter[str] = field(default_factory=Counter)
    offered: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    _enumerator: OptionEnumerator = field(init=False)
    _reasons: dict[tuple[KernelSketch, Params], str] = field(init=False, default_factory=dict)

    def __post_init__(self, enumerator: OptionEnumerator | None) -> None:
        self._enumerator = enumerator or OptionEnumerator(self.evaluator)

    def draw(self, rng: np.random.Generator) -> State:
        """Return a complete state with cost NaN; the exact checks of whole schedules may still reject it."""
        state = self._enumerator.start_state()
        for decision in self._enumerator.decisions():
            self._enumerator.prefetch([state], decision)
            options = self._enumerator.options(state, decision)
            if len(options):
                state = self._enumerator.apply_option(state, decision, self._choose(options, rng), costed=False)
        return state

    def draw_legal(self, rng: np.random.Generator, tries: int = TRIES) -> tuple[State, Schedule] | None:
        """Return a complete state and its legal schedule; None if none of ``tries`` states is legal."""
        for _ in range(tries):
            state = self.draw(rng)
            if self.varied:
                state = self._with_other_tiles(state, rng)
            schedule = schedule_of(self.evaluator, state)
            reasons = violations(self.evaluator.bound, schedule, self.evaluator.target)
            if not reasons:
                return state, schedule
            self.rejected[f"illegal: {reasons[0]}"] += 1
        return None

    def _with_other_tiles(self, state: State, rng: np.random.Generator) -> State:
        """Return a complete state with random tile alignments and cache reads, where these are legal."""
        cache_reads = CacheReadSearch(self.evaluator, self._enumerator, Retiler(self.evaluator, self._enumerator))
        pieces = []
        for piece in state.pieces:
            sketch, params = piece.sketch, piece.params
            for location in sketch.locations:
                if (
                    location.level is Level.BLOCK
                    and self.evaluator.bound.funcs[location.func].dims
                    and rng.random() < VARIED
                ):
                    multiple = int(rng.choice((2, 4, 8)))
                    aligned = TileAlignment(multiple, int(rng.integers(multiple)))
                    sketch = self._enumerator.compute_locations.one(with_alignment(sketch, location.func, aligned))
            sources = cache_reads.sources(sketch)
            if sources and rng.random() < VARIED:
                variants = cache_reads.variants((sketch, params), sources[int(rng.integers(len(sources)))])
                if variants:
                    sketch, params = variants[int(rng.integers(len(variants)))]
            other = PartialKernel(sketch, params, tiled=True)
            other = piece if self._illegal(other) else other
            if zlib.crc32(repr(other.params).encode()) % LINEAR_PERIOD == 0:
                linear = replace(other, sketch=replace(other.sketch, linear_threads=True))
                other = other if self._illegal(linear) else linear
            pieces.append(other)
        return replace(state, pieces=tuple(pieces))

    def _choose(self, options: Sequence[Option], rng: np.random.Generator) -> Option:
        """Draw a kind of option, then one of its options; all tilings are one kind."""
        if isinstance(options, TileOptions):
            of_kind = {"tile": list(range(len(options)))}
        else:
            of_kind = {}
            for k, o in enumerate(options):
                of_kind.setdefault(o.kind, []).append(k)
        kinds = sorted(of_kind)
        for kind in kinds:
            self.offered[kind] += 1
        kind = kinds[int(rng.integers(len(kinds)))]
        among = of_kind[kind]
        for k in rng.permutation(len(among))[:TRIES]:
            option = options[among[int(k)]]
            verdict = self._verdict(option)
            if not verdict:
                self.chosen[kind] += 1
                return option
            self.rejected[verdict] += 1
        fallback = options[of_kind["tile" if "tile" in of_kind else "root"][0]]
        self.chosen[fallback.kind] += 1
        return fallback

    def _verdict(self, option: Option) -> str:
        """Return the reason to reject an option, empty if there is none."""
        for rule in (self._early, self._illegal) if option.kind in CHECKED else (self._early,):
            for piece in option.added:
                if reason := rule(piece):
                    return reason
        return ""

    def _early(self, piece: PartialKernel) -> str:
        """Return the early pruning reason of a kernel, empty if there is none."""
        key = piece.sketch, piece.params
        if key not in self._reasons:
            self._reasons[key] = self.evaluator.early_reason(*key)
        return self._reasons[key]

    def _illegal(self, piece: PartialKernel) -> str:
        """Return the first legality rule that a kernel breaks so far, empty if it breaks none."""
        kernel, plan = planned_kernel(self.evaluator.kernel_model(piece.sketch), np.array(piece.params, np.int64))
        reasons = kernel_violations(self.evaluator.bound, kernel, self.evaluator.target, plan)
        return f"illegal: {reasons[0]}" if reasons else ""
