"""Copies of sources in shared memory, where that makes the kernels of complete states faster.

A kernel whose threads read the same elements of an array in global memory again and again may copy a tile of it first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.analysis.staging import staged_name, with_staged
from autosched.featurize.structure import Spot, Structure
from autosched.schedule.types import Level
from autosched.search.align import alignments, with_alignment
from autosched.search.decide import Decider
from autosched.search.evaluate import Evaluator
from autosched.search.retile import Kernel, Retiler
from autosched.search.state import Params, Piece, State

PROMISING = 1.3
"""A kernel with a copy that is this near the one without may become better with other tiles."""
LEAST_READS = 2
"""Elements of a source that one point reads, from which on a copy is tried."""


@dataclass
class Stager:
    """Adds copies of sources to kernels.

    Args:
        evaluator: Costs kernels.
        decider: Knows which tile sizes there are.
        retiler: Finds tiles for kernels with copies.
    """

    evaluator: Evaluator
    decider: Decider
    retiler: Retiler

    def staged(self, state: State, most: float = 1.0) -> State:
        """Return a complete state in which kernels have the copies that pay.

        Args:
            state: A complete state.
            most: A copy pays where the kernel with it is predicted to take less than so many times as long.
        """
        pieces = tuple(self._staged(p, most) for p in state.pieces)
        costs = tuple(self.evaluator.known(p.structure, p.params).cost for p in pieces)
        return State(pieces, costs, state.levels, sum(costs), state.steps)

    def _staged(self, piece: Piece, most: float) -> Piece:
        best: Kernel = piece.structure, piece.params
        for source in self.sources(piece.structure):
            cost = self.evaluator.known(*best).cost
            found = self._cheapest(self.variants(best, source), PROMISING * most * cost)
            if found is not None:
                found = self.retiler.descend(*found)
                if self.evaluator.known(*found).cost < most * cost:
                    best = found
        return piece if best == (piece.structure, piece.params) else Piece(*best, tiled=True)

    def sources(self, structure: Structure) -> list[str]:
        """Return what a kernel reads from global memory several times at a point, what it reads most often first."""
        model = self.evaluator.kernel_model(structure)
        inside = {structure.func, *(s.func for s in structure.spots)}
        reads: dict[str, int] = {}
        for stage in model.rows:
            for group in model.accesses_of(stage).loads:
                if group.source not in inside and group.rows:
                    reads[group.source] = reads.get(group.source, 0) + len(group.offsets)
        often = [s for s, n in reads.items() if n >= LEAST_READS]
        return sorted(often, key=lambda s: (-reads[s], s))

    def variants(self, kernel: Kernel, source: str) -> list[Kernel]:
        """Return a kernel with a copy of a source, for all threads that may fill it, aligned or not."""
        structure = kernel[0]
        name = staged_name(source)
        order = list(with_staged(self.decider.bound, structure.staged | {source}).funcs)
        spots = (*structure.spots, Spot(name, Level.BLOCK, structure.stages[0]))
        plain = Structure(
            structure.stages, tuple(sorted(spots, key=lambda s: order.index(s.func))), structure.inlined
        )  # fmt: skip
        found: list[Kernel] = []
        for aligned in (None, *alignments(self.evaluator.kernel_model(plain), name)):
            other = self.decider.places.one(with_alignment(plain, name, aligned))
            model = self.evaluator.kernel_model(other)
            one = self._with_threads(kernel, other, name, (1,) * len(model.bound.funcs[name].dims))
            extents = model.member_extents(np.array([one], np.int64))[name][0].tolist()
            for threads in self.decider.member_tilings(name, extents):
                found.append((other, self._with_threads(kernel, other, name, threads)))
        return found

    def _with_threads(self, kernel: Kernel, structure: Structure, name: str, threads: Params) -> Params:
        return self.decider.with_threads(Piece(*kernel, tiled=True), structure, name, threads)

    def _cheapest(self, variants: list[Kernel], most: float) -> Kernel | None:
        """Return the cheapest of some kernels that is cheap enough and legal, if there is one."""
        self.evaluator.evaluate(variants)
        verdicts = [(self.evaluator.known(*v), v) for v in variants]
        near = [(f.cost, v[1], v) for f, v in verdicts if f.cost < most and not f.reason]
        near.sort(key=lambda found: found[:2])
        return next((v for _, _, v in near if self.retiler.is_legal(*v)), None)
