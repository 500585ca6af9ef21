"""Better tiles for kernels whose places stay: those of the root, then the threads and alignment of each Member.

A search chooses the tiles of a root before it knows what is computed inside; here everything is known.
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
"""How often root and Members are gone through at most."""
SIZES_AT_ONCE = 2
"""Sizes of a root's tile (threads and points of a thread, by dimension) that change at most from step to step."""


@dataclass
class Retiler:
    """Finds tile sizes for the kernels of complete states, each kernel once.

    Args:
        evaluator: Costs kernels.
        enumerator: Knows which tile sizes there are.
        late: Whether the time budget has ended, so that what was found until now is taken.
        aligns: Whether the tile of a Member may begin at other columns; in kernels of one step it may not.
        legality: Decides whether a kernel is legal; the checks of the kernel itself if left out.
    """

    evaluator: KernelEvaluator
    enumerator: OptionEnumerator
    late: Callable[[], bool] = lambda: False
    aligns: bool = True
    legality: Callable[[KernelSketch, Params], bool] | None = None
    _found: dict[Kernel, Kernel] = field(init=False, default_factory=dict)

    def retiled(self, state: State) -> State:
        """Return a complete state with the best tiles found for its kernels: never dearer, and as legal."""
        return self.all_retiled([state])[0]

    def all_retiled(self, states: Sequence[State]) -> list[State]:
        """Return complete states with the best tiles found for their kernels, all of which are looked at together."""
        kernels = dict.fromkeys((p.structure, p.params) for state in states for p in state.pieces)
        fresh = [k for k in kernels if k not in self._found]
        for kernel, best in zip(fresh, run_batched(self.evaluator, [self.descend(*k) for k in fresh]), strict=True):
            self._found[kernel] = self._found[best] = best
        return [self._with_found(state) for state in states]

    def _with_found(self, state: State) -> State:
        best = [self._found[p.structure, p.params] for p in state.pieces]
        pieces = tuple(
            p if kernel == (p.structure, p.params) else PartialKernel(*kernel, tiled=True)
            for p, kernel in zip(state.pieces, best, strict=True)
        )
        costs = tuple(self.evaluator.known(*kernel).cost for kernel in best)
        return State(pieces, costs, state.levels, sum(costs), state.steps)

    def descend(
        self, structure: KernelSketch, params: Params, *, vectors: bool = False, far: bool = False
    ) -> EvaluationCoroutine[Kernel]:
        """Return the kernel that no small change of the root's tiles alone and no change of one Member's makes cheaper.

        With ``vectors``, Members that read rows of arrays may have as many threads as there are whole vectors. With
        ``far``, all tiles of the root are tried at once: those that it starts from were chosen for another kernel.
        """
        start = structure, params
        found = yield from self._descended(start, vectors=vectors, far=far)
        if found == start or self.is_legal(*found):
            return found
        return (yield from self._descended(start, vectors=vectors, far=far, checked=True))

    def _descended(
        self, now: Kernel, *, vectors: bool, far: bool, checked: bool = False
    ) -> EvaluationCoroutine[Kernel]:
        """Do the same; kernels on the way pass all checks only with ``checked``, which few do not."""
        layout = self.enumerator.places.layout(now[0])
        for _ in range(SWEEPS):
            if self.late():
                break
            before = now
            now = yield from self._cheapest(now, self._root_variants(*now, layout, far), checked)
            for func, where in layout.members:
                variants = self._member_variants(now[0], func, where, now[1], vectors)
                now = yield from self._cheapest(now, variants, checked)
            if now == before:
                break
        return now

    def _cheapest(self, now: Kernel, variants: list[Kernel], checked: bool) -> EvaluationCoroutine[Kernel]:
        yield now, *variants
        verdicts = [(self.evaluator.verdicts(v[0])[v[1]], v) for v in variants]
        cost = self.evaluator.known(*now).cost
        cheaper = [(rounded_cost(f.cost), v) for f, v in verdicts if f.cost < cost and not f.reason]
        if not checked:
            return min(cheaper, key=lambda found: (found[0], found[1][1]), default=(cost, now))[1]
        cheaper.sort(key=lambda found: (found[0], found[1][1]))
        return next((v for _, v in cheaper if self.is_legal(*v)), now)

    def is_legal(self, structure: KernelSketch, params: Params) -> bool:
        """Return whether a kernel passes all legality checks, the expensive ones included."""
        if self.legality is not None:
            return self.legality(structure, params)
        kernel = build_kernel(self.evaluator.kernel_model(structure), np.array(params, np.int64))
        return not kernel_violations(self.evaluator.bound, kernel, self.evaluator.target)

    def _root_variants(self, structure: KernelSketch, params: Params, layout: TileColumns, far: bool) -> list[Kernel]:
        """Return tiles of the root near its own, with the threads that Members have now, as far as regions allow.

        If none is near, as the root has tiles that no search tries, they are all tiles that are tried.
        """
        own = layout.root_serial.stop
        tilings = self.enumerator.tilings(structure)
        tried = np.array([t[:own] for t in tilings], np.int64).reshape(len(tilings), own)
        near = (tried != np.array(params[:own], np.int64)).sum(axis=1) <= SIZES_AT_ONCE
        chosen = tried if far or not near.any() else tried[near]
        rows = np.concatenate([chosen, np.tile(np.array(params[own:], np.int64), (len(chosen), 1))], axis=1)
        extents = self.evaluator.kernel_model(structure).member_extents(rows) if layout.members else {}
        for func, where in layout.members:
            rows[:, where] = np.minimum(rows[:, where], extents[func])
        return [(structure, tuple(r)) for r in rows.tolist()]

    def _member_variants(
        self, structure: KernelSketch, func: str, where: slice, params: Params, vectors: bool
    ) -> list[Kernel]:
        """Return all threads of a Member, with its tile as it is and with one that begins at other columns."""
        found: list[Kernel] = []
        others = self._alignments(structure, func)
        for other in others:
            extents = self.evaluator.kernel_model(other).member_extents(np.array([params], np.int64))
            whole = vectors and len(others) > 1  # where there is an alignment that suits what it reads
            tilings = self.enumerator.member_tilings(func, tuple(extents[func][0].tolist()), vectors=whole)
            found += [(other, (*params[: where.start], *t, *params[where.stop :])) for t in tilings]
        return found

    def _alignments(self, structure: KernelSketch, func: str) -> list[KernelSketch]:
        spot = structure.spot(func)
        if not self.aligns or spot is None or self.evaluator.target.kind == "cpu":
            return [structure]
        model = self.evaluator.kernel_model(self.enumerator.places.bare(structure))
        chosen = [spot.aligned, *(a for a in (None, *alignments(model, func)) if a != spot.aligned)]
        return [self.enumerator.places.one(with_alignment(structure, func, a)) for a in chosen]
