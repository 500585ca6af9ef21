"""Transactions of kernels with global memory, over those that would do: what copies in shared memory save."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize.schema import INDEX
from autosched.featurize.structure import Structure
from autosched.search.evaluate import Evaluator
from autosched.search.state import Params


@dataclass(frozen=True, slots=True)
class Transactions:
    """Sectors that the requests of a whole kernel move, those that its blocks load again among them.

    Attributes:
        moved: Sectors of all requests.
        distinct: The sum over blocks of the different sectors that each touches, on average over where in a sector its
            rows begin.
    """

    moved: float
    distinct: float

    @property
    def ratio(self) -> float:
        """How often a sector is moved; 1 for kernels that touch none."""
        return self.moved / self.distinct if self.distinct else 1.0


def transactions(evaluator: Evaluator, structure: Structure, params: Params) -> Transactions:
    """Return the transactions of a kernel, by its features."""
    model = evaluator.kernel_model(structure)
    (rows,) = model.f.evaluate([model], [np.array([params], np.int64)]).features
    loads, stores, distinct = (
        float(rows[:, INDEX[name]].sum())
        for name in ("num_global_mem_loads_per_block", "num_global_mem_stores_per_block", "global_sectors_of_block")
    )
    blocks = float(rows[0, INDEX["num_blocks"]])
    return Transactions(blocks * (loads + stores), blocks * (distinct + stores))
