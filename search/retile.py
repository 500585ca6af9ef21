"""Better tile sizes for kernels whose structure stays: those of the root, then the threads of each Member.

A search chooses the tiles of a root before it knows what is computed inside; here everything is known.
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
    """Finds tile sizes for the kernels of complete states, each kernel once.

    Args:
        evaluator: Costs kernels.
        decider: Knows which tile sizes there are.
    """

    evaluator: Evaluator
    decider: Decider
    _found: dict[tuple[Structure, Params], Params] = field(init=False, default_factory=dict)

    def retiled(self, state: State) -> State:
        """Return a complete state with the best tile sizes found for its kernels: never dearer, and as legal."""
        pieces = tuple(self._retiled(p) for p in state.pieces)
        costs = tuple(self.evaluator.known(p.structure, p.params).cost for p in pieces)
        return State(pieces, costs, state.levels, sum(costs), state.steps)

    def _retiled(self, piece: Piece) -> Piece:
        key = piece.structure, piece.params
        if key not in self._found:
            params = self._descend(*key)
            self._found[key] = self._found[piece.structure, params] = params
        best = self._found[key]
        return piece if best == piece.params else Piece(piece.structure, best, tiled=True)

    def _descend(self, structure: Structure, params: Params) -> Params:
        """Return the parameters that no change of the root's tiles alone or of one Member's threads makes cheaper."""
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
        self.evaluator.evaluate((structure, v) for v in (params, *variants))
        verdicts = {v: self.evaluator.known(structure, v) for v in variants}
        now = self.evaluator.known(structure, params).cost
        cheaper = sorted((comparable(f.cost), v) for v, f in verdicts.items() if f.cost < now and not f.reason)
        return next((v for _, v in cheaper if self._is_legal(structure, v)), params)

    def _is_legal(self, structure: Structure, params: Params) -> bool:
        kernel = build_kernel(self.evaluator.kernel_model(structure), np.array(params, np.int64))
        return not kernel_reasons(self.evaluator.bound, kernel, self.evaluator.target)

    def _root_variants(self, structure: Structure, layout: Columns, params: Params) -> list[Params]:
        """Return all tiles of the root, each with the threads that Members have now, as far as their regions allow."""
        members = params[layout.root_serial.stop :]
        tilings = [(*t[: layout.root_serial.stop], *members) for t in self.decider.tilings(structure)]
        rows = np.array(tilings, np.int64).reshape(len(tilings), -1)
        extents = self.evaluator.kernel_model(structure).member_extents(rows) if layout.members else {}
        for func, where in layout.members:
            rows[:, where] = np.minimum(rows[:, where], extents[func])
        return [tuple(r) for r in rows.tolist()]

    def _member_variants(self, structure: Structure, func: str, where: slice, params: Params) -> list[Params]:
        extents = self.evaluator.kernel_model(structure).member_extents(np.array([params], np.int64))
        tilings = self.decider.member_tilings(func, tuple(extents[func][0].tolist()))
        return [(*params[: where.start], *t, *params[where.stop :]) for t in tilings]
