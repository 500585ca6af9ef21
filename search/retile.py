"""Better tiles for kernels whose places stay: those of the root, then the threads and alignment of each Member.

A search chooses the tiles of a root before it knows what is computed inside; here everything is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autosched.featurize.build import build_kernel
from autosched.featurize.structure import Columns, Structure
from autosched.schedule.validate import kernel_reasons
from autosched.search.align import alignments, with_alignment
from autosched.search.cost import comparable
from autosched.search.decide import Decider
from autosched.search.evaluate import Evaluator
from autosched.search.state import Params, Piece, State

Kernel = tuple[Structure, Params]

SWEEPS = 3
"""How often root and Members are gone through at most."""


@dataclass
class Retiler:
    """Finds tile sizes for the kernels of complete states, each kernel once.

    Args:
        evaluator: Costs kernels.
        decider: Knows which tile sizes there are.
    """

    evaluator: Evaluator
    decider: Decider
    _found: dict[Kernel, Kernel] = field(init=False, default_factory=dict)

    def retiled(self, state: State) -> State:
        """Return a complete state with the best tiles found for its kernels: never dearer, and as legal."""
        pieces = tuple(self._retiled(p) for p in state.pieces)
        costs = tuple(self.evaluator.known(p.structure, p.params).cost for p in pieces)
        return State(pieces, costs, state.levels, sum(costs), state.steps)

    def _retiled(self, piece: Piece) -> Piece:
        key = piece.structure, piece.params
        if key not in self._found:
            best = self.descend(*key)
            self._found[key] = self._found[best] = best
        best = self._found[key]
        return piece if best == key else Piece(*best, tiled=True)

    def descend(self, structure: Structure, params: Params) -> Kernel:
        """Return the kernel that no change of the root's tiles alone or of one Member's makes cheaper."""
        layout = self.decider.places.layout(structure)
        for _ in range(SWEEPS):
            before = structure, params
            params = self._cheapest((structure, params), self._root_variants(structure, layout, params))[1]
            for func, where in layout.members:
                variants = self._member_variants(structure, func, where, params)
                structure, params = self._cheapest((structure, params), variants)
            if (structure, params) == before:
                break
        return structure, params

    def _cheapest(self, now: Kernel, variants: list[Kernel]) -> Kernel:
        self.evaluator.evaluate((now, *variants))
        verdicts = [(self.evaluator.known(*v), v) for v in variants]
        cost = self.evaluator.known(*now).cost
        cheaper = [(comparable(f.cost), v) for f, v in verdicts if f.cost < cost and not f.reason]
        cheaper.sort(key=lambda found: (found[0], found[1][1]))
        return next((v for _, v in cheaper if self.is_legal(*v)), now)

    def is_legal(self, structure: Structure, params: Params) -> bool:
        """Return whether a kernel passes all checks, the dear ones too."""
        kernel = build_kernel(self.evaluator.kernel_model(structure), np.array(params, np.int64))
        return not kernel_reasons(self.evaluator.bound, kernel, self.evaluator.target)

    def _root_variants(self, structure: Structure, layout: Columns, params: Params) -> list[Kernel]:
        """Return all tiles of the root, each with the threads that Members have now, as far as their regions allow."""
        members = params[layout.root_serial.stop :]
        tilings = [(*t[: layout.root_serial.stop], *members) for t in self.decider.tilings(structure)]
        rows = np.array(tilings, np.int64).reshape(len(tilings), -1)
        extents = self.evaluator.kernel_model(structure).member_extents(rows) if layout.members else {}
        for func, where in layout.members:
            rows[:, where] = np.minimum(rows[:, where], extents[func])
        return [(structure, tuple(r)) for r in rows.tolist()]

    def _member_variants(self, structure: Structure, func: str, where: slice, params: Params) -> list[Kernel]:
        """Return all threads of a Member, with its tile as it is and with one that begins at other columns."""
        found: list[Kernel] = []
        for other in self._alignments(structure, func):
            extents = self.evaluator.kernel_model(other).member_extents(np.array([params], np.int64))
            tilings = self.decider.member_tilings(func, tuple(extents[func][0].tolist()))
            found += [(other, (*params[: where.start], *t, *params[where.stop :])) for t in tilings]
        return found

    def _alignments(self, structure: Structure, func: str) -> list[Structure]:
        spot = structure.spot(func)
        if spot is None or self.evaluator.target.kind == "cpu":
            return [structure]
        model = self.evaluator.kernel_model(self.decider.places.bare(structure))
        chosen = [spot.aligned, *(a for a in (None, *alignments(model, func)) if a != spot.aligned)]
        return [self.decider.places.one(with_alignment(structure, func, a)) for a in chosen]
