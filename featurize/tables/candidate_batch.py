"""Candidates of many structures side by side: which rows of nests and accesses belong to which."""

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
    """Items of all candidates, candidate by candidate, where each structure has a list of them.

    Attributes:
        candidate: ``int64[X]``, whose item each is.
        flat: ``int64[X]``, its position among the items of all structures one after the other.
        start: ``int64[M]``, first item of each candidate.
        count: ``int64[M]``, items of each candidate.
    """

    candidate: Ints
    flat: Ints
    start: Ints
    count: Ints

    @classmethod
    def of(cls, counts: Sequence[int], structure: Ints) -> RaggedRows:
        """Return the items of candidates ``int64[M]`` of structures that have so many."""
        each = np.array(counts, np.int64)
        count = each[structure]
        start = np.cumsum(count) - count
        candidate = np.repeat(np.arange(len(structure)), count)
        first = np.cumsum(each) - each
        flat = np.arange(len(candidate)) - (start - first[structure])[candidate]
        return cls(candidate, flat, start, count)

    def take(self, lists: Sequence[Ints]) -> Ints:
        """Return a value of each item from the lists of the structures."""
        found: Ints = (lists[0] if len(lists) == 1 else np.concatenate(lists))[self.flat]
        return found


class Batch:
    """Candidates of some structures.

    Args:
        plans: The structures.
        params: Tile sizes of each one's candidates, ``int64[N, columns]``; further columns may follow that say how many
            points the threads of BLOCK Members compute at least (see `described_points`).
        dims: Dimensions of nests, the largest number of them.

    Attributes:
        structure: ``int64[M]``, which structure each candidate has.
        bounds: First candidate of each structure, and their number at the end.
        params: ``int64[M, columns]``, filled up with ones.
        nests: Nests of all candidates: rows ``R``.
        hosts: ``int64[R]``, row of the nest around each.
        accesses: Their accesses: rows ``A``.
        readers: ``int64[A]``, row of the nest.
        sources: ``int64[A]``, row of the nest that computes what is accessed, or -1.
        loops: The most loops around a nest inside a thread.
    """

    def __init__(self, plans: Sequence[KernelTables], params: Sequence[Ints], dims: int) -> None:
        self.plans = plans
        self.dims = dims
        sizes = [len(p) for p in params]
        self.bounds: list[int] = [0, *np.cumsum(sizes).tolist()]
        self.structure = np.repeat(np.arange(len(plans)), sizes)
        width = (
            max(2 * dims, *(p.shape[1] for p in params), *(p.width for p in plans)) + dims
        )  # rows are read a whole number of dimensions wide
        self.params = np.ones((self.bounds[-1], width), np.int64)
        for k, p in enumerate(params):
            self.params[self.bounds[k] : self.bounds[k + 1], : p.shape[1]] = p
        self.nests = RaggedRows.of([len(p.nests) for p in plans], self.structure)
        self.accesses = RaggedRows.of([len(p.accesses) for p in plans], self.structure)
        row_start, access_candidate = self.nests.start, self.accesses.candidate
        self.hosts = self.nests.take([p.hosts for p in plans]) + row_start[self.nests.candidate]
        self.readers = self.accesses.take([p.readers for p in plans]) + row_start[access_candidate]
        source = self.accesses.take([p.sources for p in plans])
        self.sources = np.where(source >= 0, source + row_start[access_candidate], -1)
        self.loops = max(p.loops for p in plans)

    def take(self, chosen: Bools) -> tuple[Batch, Ints]:
        """Return some of the candidates, ``bool[M]``, and the positions of the structures that have any of them."""
        counts = np.bincount(self.structure[chosen], minlength=len(self.plans))
        present = np.flatnonzero(counts)
        parts = np.split(self.params[chosen, : -self.dims], np.cumsum(counts[present])[:-1])
        return Batch([self.plans[k] for k in present.tolist()], parts, self.dims), present

    @property
    def count(self) -> int:
        """Candidates."""
        return self.bounds[-1]
