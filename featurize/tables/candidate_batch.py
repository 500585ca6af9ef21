"""Batches of candidates of several sketches: their rows of nests and accesses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.tables.kernel_tables import KernelTables

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class RaggedRows:
    """Ragged lists of items: those of each candidate's sketch, candidate by candidate.

    Attributes:
        candidate: ``int64[X]``, the candidate of each item.
        flat: ``int64[X]``, position of the item in the concatenated lists of all sketches.
        start: ``int64[M]``, first item of each candidate.
        count: ``int64[M]``, items of each candidate.
    """

    candidate: Ints
    flat: Ints
    start: Ints
    count: Ints

    @classmethod
    def of(cls, counts: Sequence[int], sketch: Ints) -> RaggedRows:
        """Return the items of candidates.

        Args:
            counts: Items of each sketch.
            sketch: ``int64[M]``, the sketch of each candidate.
        """
        each = np.array(counts, np.int64)
        count = each[sketch]
        start = np.cumsum(count) - count
        candidate = np.repeat(np.arange(len(sketch)), count)
        first = np.cumsum(each) - each
        flat = np.arange(len(candidate)) - (start - first[sketch])[candidate]
        return cls(candidate, flat, start, count)

    def take(self, lists: Sequence[Ints]) -> Ints:
        """Return the value of each item, ``int64[X, ...]``, from the lists of the sketches."""
        values: Ints = (lists[0] if len(lists) == 1 else np.concatenate(lists))[self.flat]
        return values


class Batch:
    """Candidates of several sketches.

    Args:
        plans: The sketches.
        params: Tile sizes of each one's candidates, ``int64[N, columns]``. Further columns may follow: least points of
            the threads of block-level producers (see `described_points`).
        dims: Most dimensions of any nest.

    Attributes:
        sketch: ``int64[M]``, the sketch of each candidate.
        bounds: First candidate of each sketch, and their total number.
        params: ``int64[M, columns]``, padded with ones.
        nests: Nests of all candidates: rows ``R``.
        hosts: ``int64[R]``, row of the nest that encloses each.
        accesses: Groups of accesses of all candidates: rows ``A``.
        readers: ``int64[A]``, row of the nest.
        sources: ``int64[A]``, row of the nest that computes the accessed array, or -1.
        loops: Most loops that enclose a nest inside a thread.
        tiles: ``int64[M]``, tiles of a block: its warps if each has one of its own, otherwise 1.
    """

    def __init__(self, plans: Sequence[KernelTables], params: Sequence[Ints], dims: int) -> None:
        self.plans = plans
        self.dims = dims
        sizes = [len(p) for p in params]
        self.bounds: list[int] = [0, *np.cumsum(sizes).tolist()]
        self.sketch = np.repeat(np.arange(len(plans)), sizes)
        width = (
            max(2 * dims, *(p.shape[1] for p in params), *(p.width for p in plans)) + dims
        )  # readers index `dims` columns from any start
        self.params = np.ones((self.bounds[-1], width), np.int64)
        for k, p in enumerate(params):
            self.params[self.bounds[k] : self.bounds[k + 1], : p.shape[1]] = p
        self.nests = RaggedRows.of([len(p.nests) for p in plans], self.sketch)
        self.accesses = RaggedRows.of([len(p.accesses) for p in plans], self.sketch)
        row_start, access_candidate = self.nests.start, self.accesses.candidate
        self.hosts = self.nests.take([p.hosts for p in plans]) + row_start[self.nests.candidate]
        self.readers = self.accesses.take([p.readers for p in plans]) + row_start[access_candidate]
        source = self.accesses.take([p.sources for p in plans])
        self.sources = np.where(source >= 0, source + row_start[access_candidate], -1)
        self.loops = max(p.loops for p in plans)
        self.tiles = np.array([max(p.warps, 1) for p in plans], np.int64)[self.sketch]

    def take(self, chosen: Bools) -> tuple[Batch, Ints]:
        """Return some of the candidates, ``bool[M]``, and the positions of the sketches that have any of them."""
        counts = np.bincount(self.sketch[chosen], minlength=len(self.plans))
        present = np.flatnonzero(counts)
        parts = np.split(self.params[chosen, : -self.dims], np.cumsum(counts[present])[:-1])
        return Batch([self.plans[k] for k in present.tolist()], parts, self.dims), present

    @property
    def count(self) -> int:
        """Number of candidates."""
        return self.bounds[-1]
