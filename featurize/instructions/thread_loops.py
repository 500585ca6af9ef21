"""Loops inside a thread, and which of them are still loops in compiled code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.accesses.batch_accesses import BatchAccesses
from autosched.featurize.accesses.memory_traffic import Floats
from autosched.featurize.regions.geometry import Geometry
from autosched.featurize.regions.nest_arrays import Bools, Ints
from autosched.featurize.tables.descriptor_tables import THREAD
from autosched.schedule.policy import is_unrolled, unrolls_reduction

_Scalar = TypeVar("_Scalar", bound=np.generic)

COMPILER_UNROLLS = 300
"""Operations up to which LLVM, on which NVRTC is built, unrolls a loop by itself (its ``UnrollThreshold``)."""

TOGETHER = 4
"""Iterations of an innermost loop that is kept whose loads compilers bring together."""


@dataclass(frozen=True)
class Loops:
    """Loops inside a thread around the points of nests, outermost first.

    There are ``K`` of them: those around the nest, its reductions, its points, whatever the order of these. What a
    compiler unrolls by itself is judged by the code of a nest and of the THREAD Members in it.

    Attributes:
        extents: ``float64[R, K]``, iterations.
        runs: ``float64[R, K]``, how often a thread runs the body of each.
        kept: ``bool[R, K]``, whether it is a loop in compiled code, not unrolled.
        innermost: ``bool[R, K]``, whether it is the innermost one of these.
        own: ``bool[R]``, whether one of a nest's own loops is, so that unrolled loops around it share nothing.
    """

    extents: Floats
    runs: Floats
    kept: Bools
    innermost: Bools
    own: Bools

    @classmethod
    def of(cls, geometry: Geometry, hosts: Ints, reduces: Bools, counts: Ints) -> Loops:
        """Return the loops of all nests.

        Args:
            geometry: The nests.
            hosts: ``int64[R]``, the nest around each.
            reduces: ``bool[R, L]``, which of the loops around a nest are reductions.
            counts: ``int64[R]``, how many loops there are around it.
        """
        nests, kinds = geometry.nests, geometry.nests.kinds
        tile, terms = nests.serial.prod(axis=1), kinds["terms"]
        written = np.asarray(is_unrolled(tile, kinds["register_blocked"])) | (kinds["level"] == THREAD)
        around = nests.loops[:, :, 0] + 1
        own = np.concatenate([terms, nests.serial], axis=1)
        told = np.repeat(written[:, None], own.shape[1], axis=1)
        reduced = np.asarray(unrolls_reduction(tile, terms.astype(np.float64).prod(axis=1), kinds["register_blocked"]))
        told[:, : terms.shape[1]] &= reduced[:, None]
        code = kinds["code_size"].astype(np.float64) * tile
        nested = np.flatnonzero(hosts != np.arange(len(hosts)))
        within = np.where(reduces, 1, around).astype(np.float64).prod(axis=1) * code
        np.add.at(code, hosts[nested], within[nested])
        inner = _Order.of(kinds["loop_order"])
        ordered, told = inner.apply(own), inner.apply(told)
        holding = np.zeros(ordered.shape, bool)
        kept, size, blocked = _kept(ordered, told, code / tile, holding)
        nothing = np.zeros(around.shape, bool)
        owners = _owners(hosts, counts, around.shape[1])
        if blocked[nested].any():
            around_it = _around_it(owners, hosts, reduces, counts, terms.shape[1])
            for _ in range(int(counts.max())):  # a Member that holds another one, and so on
                rows = np.flatnonzero(blocked & (around_it >= 0) & (hosts != np.arange(len(hosts))))
                holding[hosts[rows], around_it[rows]] = True
                kept, size, blocked = _kept(ordered, told, code / tile, holding)
        by_host = np.where(reduces, reduced[owners], written[owners])
        outside, _, _ = _kept(around, by_host, np.where(blocked, np.inf, size + code[hosts]), nothing)
        kept = np.concatenate([outside, kept], axis=1)
        held = np.concatenate([nothing, holding], axis=1)
        innermost = kept & (np.cumsum((kept | held)[:, ::-1], axis=1)[:, ::-1] == 1) & ~held
        extents = np.concatenate([around, ordered], axis=1).astype(np.float64)
        runs = extents.cumprod(axis=1)
        return cls(inner.undo(extents), inner.undo(runs), inner.undo(kept), inner.undo(innermost), blocked)

    def over_points(self, reduces: Bools, terms: int) -> Bools:
        """Return which of the loops that are kept are not reductions, ``bool[R, K]``.

        Args:
            reduces: ``bool[R, L]``, which of the loops around a nest are reductions.
            terms: How many reductions of a nest there are between these and its points.
        """
        around = reduces.shape[1]
        found = self.kept.copy()
        found[:, :around] &= ~reduces
        found[:, around : around + terms] = False
        return found

    @property
    def groups(self) -> Floats:
        """How often a thread runs loops that are kept, the innermost one in groups of iterations, ``float64[R]``."""
        together = np.where(self.innermost, np.minimum(self.extents, TOGETHER), 1.0)
        found: Floats = (np.where(self.kept, self.extents, 1.0) / together).prod(axis=1)
        return found

    def moving(self, accesses: BatchAccesses) -> Bools:
        """Return which of the loops that are kept move an address, ``bool[A, K]``."""
        nests, reader, dims = accesses.nests, accesses.batch.readers, accesses.point_bytes != 0
        d = nests.low.shape[1]
        found: Bools = self.kept[reader]
        around = found.shape[1] - d - accesses.kinds["moving_reductions"].shape[1]
        found[:, -d:] &= dims
        found[:, around:-d] &= accesses.kinds["moving_reductions"] > 0
        if around:
            moves = np.abs(nests.loops[:, :, 1 : 1 + d])[reader]
            found[:, :around] &= np.matmul(moves, dims[:, :, None].astype(np.int64))[:, :, 0] != 0
        return found

    def again(self, accesses: BatchAccesses, terms: Bools) -> Floats:
        """Return how many times as often a thread makes accesses, ``float64[A]``, as it touches other elements.

        What is computed for each term, in a loop of its own that stays one, loads again in every term what is the
        same for all.

        Args:
            accesses: The accesses.
            terms: ``bool[R, L]``, which of the loops around a nest are over terms.
        """
        reader, around = accesses.batch.readers, terms.shape[1]
        d = accesses.nests.low.shape[1]
        moves = np.abs(accesses.nests.loops[:, :, 1 : 1 + d])[reader]
        moved = np.matmul(moves, (accesses.point_bytes != 0)[:, :, None].astype(np.int64))[:, :, 0]
        inside = np.asarray(self.moving(accesses)[:, around:].any(axis=1))
        repeated = terms[reader] & np.equal(moved, 0) & inside[:, None]
        found: Floats = np.where(repeated, self.extents[reader, :around], 1.0).prod(axis=1)
        return found


@dataclass(frozen=True)
class _Order:
    """From loops of nests as `reduction_extents` and dimensions list them to the order that they are in, and back.

    Attributes:
        there: ``int64[R, J]``, positions of the loops from the outermost on; none if all are listed in their order.
    """

    there: Ints | None

    @classmethod
    def of(cls, nested: Ints) -> _Order:
        return cls(None if (nested == np.arange(nested.shape[1])).all() else nested)

    def apply(self, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Return values ``[R, J]`` of loops in their order."""
        return values if self.there is None else np.take_along_axis(values, self.there, axis=1)

    def undo(self, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Return values ``[R, L + J]`` of loops around and those in their order, the latter as they are listed."""
        if self.there is None:
            return values
        found = values.copy()
        np.put_along_axis(found[:, -self.there.shape[1] :], self.there, values[:, -self.there.shape[1] :], axis=1)
        return found


def _owners(hosts: Ints, counts: Ints, loops: int) -> Ints:
    """Return whose loops those around nests are, ``int64[R, L]``: of the nest around, or of one around that."""
    found = np.repeat(hosts[:, None], loops, axis=1)
    inherited = np.arange(loops) < counts[hosts][:, None]
    while inherited.any():
        further = np.where(inherited, found[hosts], found)
        if (further == found).all():
            break
        found = further
    return found


def _around_it(owners: Ints, hosts: Ints, reduces: Bools, counts: Ints, terms: int) -> Ints:
    """Return which of its host's own loops is the innermost around each nest, ``int64[R]``; -1 if none is.

    The host's loops are its reductions, ``terms`` of them, then those over its points.
    """
    own = (np.arange(owners.shape[1]) < counts[:, None]) & (owners == hosts[:, None])
    points: Ints = (own & ~reduces).sum(axis=1)
    return np.where(own.any(axis=1), terms - 1 + points, -1)


def _kept(extents: Ints, told: Bools, size: Floats, holding: Bools) -> tuple[Bools, Floats, Bools]:
    """Return which loops, outermost first, stay loops in compiled code; its operations; and whether there is one.

    Args:
        extents: ``int64[R, K]``.
        told: ``bool[R, K]``, whether code says to unroll it.
        size: ``float64[R]``, operations inside the innermost loop.
        holding: ``bool[R, K]``, whether loops of a Member that are kept stand in it.
    """
    found = np.zeros(extents.shape, bool)
    blocked = np.zeros(len(extents), bool)
    for k in reversed(range(extents.shape[1])):
        size = size * extents[:, k]
        blocked |= holding[:, k]
        found[:, k] = (extents[:, k] > 1) & ~told[:, k] & (blocked | (size > COMPILER_UNROLLS))
        blocked |= found[:, k]
    return found, size, blocked
