"""Better tile sizes for a kernel whose structure stays: all tiles of its root at once, then each Member's threads.

A search chooses the tiles of a root before it knows what is computed inside it; here everything is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from autosched.featurize.build import build_kernel
from autosched.featurize.structure import Columns, Structure
from autosched.schedule.validate import kernel_reasons
from autosched.search.cost import comparable
from autosched.search.decide import Decider
from autosched.search.evaluate import Evaluator
from autosched.search.state import Params, Piece, State

SWEEPS = 3
"""How often root and Members are gone through at most."""


@dataclass
class Retiler:
    """Finds tile sizes for kernels of one search.

    Args:
        evaluator: Costs kernels.
        decider: Knows which tile sizes there are.
    """

    evaluator: Evaluator
    decider: Decider
    _best: dict[tuple[Structure, Params], Params] = field(init=False, default_factory=dict)

    def improved(self, state: State, kept: int = 0) -> State:
        """Return a complete state with the best tile sizes that are found for its kernels.

        Args:
            state: The state.
            kept: Kernels at the front that are left alone.
        """
        pieces = (*state.pieces[:kept], *(self._retiled(p) for p in state.pieces[kept:]))
        costs = tuple(self.evaluator.known(p.structure, p.params).cost for p in pieces)
        return State(pieces, costs, state.levels, sum(costs), state.steps, state.parent)

    def _retiled(self, piece: Piece) -> Piece:
        key = piece.structure, piece.params
        if key not in self._best:
            params = self._descend(*key)
            self._best[key] = self._best[piece.structure, params] = params
        best = self._best[key]
        return piece if best == piece.params else Piece(piece.structure, best, tiled=True)

    def _descend(self, structure: Structure, params: Params) -> Params:
        layout = self.decider.places.layout(structure)
        for _ in range(SWEEPS):
            before = params
            params = self._cheapest(structure, params, self._root_variants(structure, layout, params))
            for func, where in layout.members:
                params = self._cheapest(structure, params, self._member_variants(structure, func, where, params))
            if params == before:
                break
        return params

    def _cheapest(self, structure: Structure, params: Params, variants: list[Params]) -> Params:
        rows = [params, *variants]
        self.evaluator.evaluate((structure, r) for r in rows)
        verdicts = [self.evaluator.known(structure, r) for r in rows]
        now = comparable(verdicts[0].cost)
        better = [k for k, v in enumerate(verdicts) if comparable(v.cost) < now and not v.reason]
        better.sort(key=lambda k: comparable(verdicts[k].cost))
        return next((rows[k] for k in better if self._legal(structure, rows[k])), params)

    def _legal(self, structure: Structure, params: Params) -> bool:
        kernel = build_kernel(self.evaluator.kernel_model(structure), np.array(params, np.int64))
        return not kernel_reasons(self.evaluator.bound, kernel, self.evaluator.target)

    def _root_variants(self, structure: Structure, layout: Columns, params: Params) -> list[Params]:
        """Return all tiles of the root, each with the threads that Members have, as far as their regions allow."""
        tilings = self.decider.tilings(structure)
        members = params[layout.root_serial.stop :]
        rows = np.array([(*t[: layout.root_serial.stop], *members) for t in tilings], np.int64)
        extents = self.evaluator.kernel_model(structure).member_extents(rows)
        for func, where in layout.members:
            rows[:, where] = np.minimum(rows[:, where], extents[func])
        return [tuple(r) for r in rows.tolist()]

    def _member_variants(self, structure: Structure, func: str, where: slice, params: Params) -> list[Params]:
        extents = self.evaluator.kernel_model(structure).member_extents(np.array([params], np.int64))
        tilings = self.decider.member_tilings(func, tuple(extents[func][0].tolist()))
        return [(*params[: where.start], *t, *params[where.stop :]) for t in tilings]


