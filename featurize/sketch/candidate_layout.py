"""Layout of candidates: regions, threads and shared memory, computed before their accesses."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.candidate_batch import Batch


@dataclass(frozen=True)
class CandidateLayout:
    """Laid-out candidates of several sketches.

    Attributes:
        sketches: Positions of the sketches among those given to `PipelineTables.lay_out`.
        batch: The candidates of each sketch.
        geometry: Regions and threads.
        strides: ``int64[R, D]``, elements between neighbours in each nest's buffer in shared memory.
        shared_bytes: ``int64[M]``, shared memory of a block.
    """

    sketches: tuple[int, ...]
    batch: Batch
    geometry: Geometry
    strides: Ints
    shared_bytes: Ints

    def take(self, chosen: Bools) -> CandidateLayout:
        """Return some of the candidates, ``bool[M]``; sketches without any are left out."""
        if chosen.all():
            return self
        batch, present = self.batch.take(chosen)
        rows = chosen[self.batch.nests.candidate]
        return CandidateLayout(
            tuple(np.array(self.sketches)[present].tolist()),
            batch,
            self.geometry.take(chosen, rows),
            self.strides[rows],
            self.shared_bytes[chosen],
        )
