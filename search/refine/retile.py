"""Retiling with fixed compute locations: tiles of the root, then threads and alignment of each fused producer.

Beam search tiles a root before its fused producers are chosen; here all of them are fixed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch import KernelSketch, TileColumns
from autosched.schedule.legality.validate import kernel_violations
from autosched.search.beam.state import Params, PartialKernel, State
from autosched.search.cost.protocol import rounded_cost
from autosched.search.evaluate.batched import EvaluationCoroutine, Kernel, run_batched
from autosched.search.evaluate.evaluator import KernelEvaluator
from autosched.search.refine.tile_alignment import alignments, with_alignment
from autosched.search.space.option_enumeration import OptionEnumerator

SWEEPS = 3
"""Most sweeps of coordinate descent over root and fused producers."""
SIZES_AT_ONCE = 2
"""Most tile sizes of the root (threads and serial points, by dimension) that change in one step."""


@dataclass
class Retiler:
    """Refines the tile sizes of kernels by coordinate descent; results are cached by kernel.

    Args:
        evaluator: Costs kernels.
        enumerator: Enumerates tile sizes.
        late: Returns whether the time budget has ended; the search then returns its best result so far.
        aligns: Whether tile alignments are tried; kernels of one step cannot have any.
        legality: Returns whether a kernel is legal; `kernel_violations` of the kernel by default.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    late: Callable[[], bool] = lambda: False
    aligns: bool = True
    legality: Callable[[KernelSketch, Params], bool] | None = None
    _best: dict[Kernel, Kernel] = field(init=False, default_factory=dict)

    def retiled(self, state: State) -> State:
        """Return a complete state with retiled kernels, at most as slow and legal where the state is."""
        return self.all_retiled([state])[0]

    def all_retiled(self, states: Sequence[State]) -> list[State]:
        """Return complete states with retiled kernels; the searches of all kernels share evaluation batches."""
        kernels = dict.fromkeys((p.sketch, p.params) for state in states for p in state.pieces)
        fresh = [k for k in kernels if k not in self._best]
        for kernel, best in zip(fresh, run_batched(self.evaluator, [self.descend(*k) for k in fresh]), strict=True):
            self._best[kernel] = self._best[best] = best
        return [self._with_best(state) for state in states]

    def _with_best(self, state: State) -> State:
        """Return a state with the cached best tile sizes of its kernels."""
        best = [self._best[p.sketch, p.params] for p in state.pieces]
        pieces = tuple(
            p if kernel == (p.sketch, p.params) else PartialKernel(*kernel, tiled=True)
            for p, kernel in zip(state.pieces, best, strict=True)
        )
        costs = tuple(self.evaluator.verdict(*kernel).cost for kernel in best)
        return State(pieces, costs, state.levels, sum(costs), state.steps)

    def descend(
        self, sketch: KernelSketch, params: Params, *, vectors: bool = False, far: bool = False, root: bool = True
    ) -> EvaluationCoroutine[Kernel]:  # fmt: skip
        """Return a locally optimal kernel: no small change of the root's tile or of one fused producer is cheaper.

        Args:
            sketch: The kernel.
            params: Tile sizes to start from.
            vectors: Whether fused producers also try one thread per vector of a row.
            far: Whether all tiles of the root are tried first, for tile sizes that were chosen for another kernel.
            root: Whether tiles of the root are tried at all.
        """
        start = sketch, params
        best = yield from self._descent(start, vectors=vectors, far=far, root=root)
        if best == start or self.is_legal(*best):
            return best
        return (yield from self._descent(start, vectors=vectors, far=far, root=root, legal_only=True))

    def _descent(
        self, now: Kernel, *, vectors: bool, far: bool, root: bool, legal_only: bool = False
    ) -> EvaluationCoroutine[Kernel]:  # fmt: skip
        """As `descend`; intermediate kernels pass all legality checks only with ``legal_only``, as most do anyway."""
        layout = self.enumerator.compute_locations.layout(now[0])
        for sweep in range(SWEEPS):
            if self.late():
                break
            before = now
            if root:
                now = yield from self._cheapest(now, self._root_variants(*now, layout, far and not sweep), legal_only)
            for func, where in layout.members:
                variants = self._member_variants(now[0], func, where, now[1], vectors)
                now = yield from self._cheapest(now, variants, legal_only)
            if now == before:
                break
        return now

    def _cheapest(self, now: Kernel, variants: list[Kernel], legal_only: bool) -> EvaluationCoroutine[Kernel]:
        """Return the cheapest variant that is cheaper than a kernel, else the kernel."""
        yield now, *variants
        verdicts = [(self.evaluator.verdicts(v[0])[v[1]], v) for v in variants]
        cost = self.evaluator.verdict(*now).cost
        cheaper = [(rounded_cost(f.cost), v) for f, v in verdicts if f.cost < cost and not f.reason]
        if not legal_only:
            return min(cheaper, key=lambda entry: (entry[0], entry[1][1]), default=(cost, now))[1]
        cheaper.sort(key=lambda entry: (entry[0], entry[1][1]))
        return next((v for _, v in cheaper if self.is_legal(*v)), now)

    def is_legal(self, sketch: KernelSketch, params: Params) -> bool:
        """Return whether a kernel passes all legality checks, the expensive ones included."""
        if self.legality is not None:
            return self.legality(sketch, params)
        kernel = build_kernel(self.evaluator.kernel_model(sketch), np.array(params, np.int64))
        return not kernel_violations(self.evaluator.bound, kernel, self.evaluator.target)

    def _root_variants(self, sketch: KernelSketch, params: Params, layout: TileColumns, far: bool) -> list[Kernel]:
        """Return the kernel with tiles of the root near the current one, or with all tiles if ``far`` or none is near.

        Fused producers keep their threads, as far as their regions allow.
        """
        width = layout.root_serial.stop
        tilings = self.enumerator.tilings(sketch)
        tried = np.array([t[:width] for t in tilings], np.int64).reshape(len(tilings), width)
        near = (tried != np.array(params[:width], np.int64)).sum(axis=1) <= SIZES_AT_ONCE
        chosen = tried if far or not near.any() else tried[near]
        rows = np.concatenate([chosen, np.tile(np.array(params[width:], np.int64), (len(chosen), 1))], axis=1)
        extents = self.evaluator.kernel_model(sketch).member_extents(rows) if layout.members else {}
        for func, where in layout.members:
            rows[:, where] = np.minimum(rows[:, where], extents[func])
        return [(sketch, tuple(r)) for r in rows.tolist()]

    def _member_variants(
        self, sketch: KernelSketch, func: str, where: slice, params: Params, vectors: bool
    ) -> list[Kernel]:
        """Return the kernel with all thread counts and tile alignments of a fused producer."""
        variants: list[Kernel] = []
        aligned = self._alignments(sketch, func)
        for variant in aligned:
            extents = self.evaluator.kernel_model(variant).member_extents(np.array([params], np.int64))
            whole = vectors and len(aligned) > 1  # the producer loads whole vectors with some alignment
            tilings = self.enumerator.member_tilings(func, tuple(extents[func][0].tolist()), vectors=whole)
            variants += [(variant, (*params[: where.start], *t, *params[where.stop :])) for t in tilings]
        return variants

    def _alignments(self, sketch: KernelSketch, func: str) -> list[KernelSketch]:
        """Return a kernel with all tile alignments of a fused producer to try, the current one first."""
        location = sketch.location(func)
        if not self.aligns or location is None or self.evaluator.target.kind == "cpu":
            return [sketch]
        model = self.evaluator.kernel_model(self.enumerator.compute_locations.bare(sketch))
        chosen = [location.aligned, *(a for a in (None, *alignments(model, func)) if a != location.aligned)]
        return [self.enumerator.compute_locations.one(with_alignment(sketch, func, a)) for a in chosen]
