"""Loops inside a thread, and which of them compiled code unrolls."""

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
"""Operations up to which LLVM, the base of NVRTC, unrolls a loop without a pragma (its ``UnrollThreshold``)."""

BATCHED_ITERATIONS = 4
"""Iterations of a rolled innermost loop whose loads compilers issue together."""


@dataclass(frozen=True)
class Loops:
    """Loops inside a thread around the points of nests, outermost first.

    There are ``K`` of them: enclosing loops, the nest's reductions, then its points, independent of their order in the
    nest. Automatic unrolling depends on the code size of a nest and of the thread-level producers inside it.

    Attributes:
        extents: ``float64[R, K]``, iterations.
        runs: ``float64[R, K]``, executions of each loop's body by a thread.
        rolled: ``bool[R, K]``, whether the loop is rolled in compiled code.
        innermost: ``bool[R, K]``, whether it is the innermost rolled loop.
        has_rolled_loop: ``bool[R]``, whether one of a nest's own loops is rolled, so that unrolled enclosing loops
            share no values.
    """

    extents: Floats
    runs: Floats
    rolled: Bools
    innermost: Bools
    has_rolled_loop: Bools

    @classmethod
    def of(cls, geometry: Geometry, hosts: Ints, reduces: Bools, counts: Ints) -> Loops:
        """Return the loops of all nests.

        Args:
            geometry: The nests.
            hosts: ``int64[R]``, the nest that encloses each.
            reduces: ``bool[R, L]``, which enclosing loops are reductions.
            counts: ``int64[R]``, number of enclosing loops.
        """
        nests, kinds = geometry.nests, geometry.nests.kinds
        tile, terms = nests.serial.prod(axis=1), kinds["terms"]
        unrolled = np.asarray(is_unrolled(tile, kinds["register_blocked"])) | (kinds["level"] == THREAD)
        unrolled |= kinds["indexes_registers"] > 0
        around = nests.loops[:, :, 0] + 1
        sizes = np.concatenate([terms, nests.serial], axis=1)
        pragma = np.repeat(unrolled[:, None], sizes.shape[1], axis=1)
        reduced = np.asarray(unrolls_reduction(tile, terms.astype(np.float64).prod(axis=1), kinds["register_blocked"]))
        pragma[:, : terms.shape[1]] &= reduced[:, None]
        code = kinds["code_size"].astype(np.float64) * tile
        nested = np.flatnonzero(hosts != np.arange(len(hosts)))
        within = np.where(reduces, 1, around).astype(np.float64).prod(axis=1) * code
        np.add.at(code, hosts[nested], within[nested])
        order = _Order.of(kinds["loop_order"])
        ordered, pragma = order.apply(sizes), order.apply(pragma)
        holding = np.zeros(ordered.shape, bool)
        rolled, size, blocked = _rolled(ordered, pragma, code / tile, holding)
        nothing = np.zeros(around.shape, bool)
        owners = _owners(hosts, counts, around.shape[1])
        if blocked[nested].any():
            enclosing = _innermost_enclosing(owners, hosts, reduces, counts, terms.shape[1])
            for _ in range(int(counts.max())):  # producers may be nested
                rows = np.flatnonzero(blocked & (enclosing >= 0) & (hosts != np.arange(len(hosts))))
                holding[hosts[rows], enclosing[rows]] = True
                rolled, size, blocked = _rolled(ordered, pragma, code / tile, holding)
        by_host = np.where(reduces, reduced[owners], unrolled[owners])
        outside, _, _ = _rolled(around, by_host, np.where(blocked, np.inf, size + code[hosts]), nothing)
        rolled = np.concatenate([outside, rolled], axis=1)
        has_loop = np.concatenate([nothing, holding], axis=1)
        innermost = rolled & (np.cumsum((rolled | has_loop)[:, ::-1], axis=1)[:, ::-1] == 1) & ~has_loop
        extents = np.concatenate([around, ordered], axis=1).astype(np.float64)
        runs = extents.cumprod(axis=1)
        return cls(order.undo(extents), order.undo(runs), order.undo(rolled), order.undo(innermost), blocked)

    def over_points(self, reduces: Bools, terms: int) -> Bools:
        """Return which rolled loops are not reductions, ``bool[R, K]``.

        Args:
            reduces: ``bool[R, L]``, which enclosing loops are reductions.
            terms: Columns of a nest's reductions between these and its points.
        """
        around = reduces.shape[1]
        rolled = self.rolled.copy()
        rolled[:, :around] &= ~reduces
        rolled[:, around : around + terms] = False
        return rolled

    @property
    def groups(self) -> Floats:
        """Iterations of a thread's rolled loops, the innermost one in groups, ``float64[R]``."""
        group = np.where(self.innermost, np.minimum(self.extents, BATCHED_ITERATIONS), 1.0)
        groups: Floats = (np.where(self.rolled, self.extents, 1.0) / group).prod(axis=1)
        return groups

    def moving(self, accesses: BatchAccesses) -> Bools:
        """Return which rolled loops move an address, ``bool[A, K]``."""
        nests, reader, dims = accesses.nests, accesses.batch.readers, accesses.point_bytes != 0
        d = nests.low.shape[1]
        moving: Bools = self.rolled[reader]
        around = moving.shape[1] - d - accesses.kinds["moving_reductions"].shape[1]
        moving[:, -d:] &= dims
        moving[:, around:-d] &= accesses.kinds["moving_reductions"] > 0
        if around:
            moves = np.abs(nests.loops[:, :, 1 : 1 + d])[reader]
            moving[:, :around] &= np.matmul(moves, dims[:, :, None].astype(np.int64))[:, :, 0] != 0
        return moving

    def again(self, accesses: BatchAccesses, terms: Bools) -> Floats:
        """Return the accesses of a thread over the distinct elements of them, ``float64[A]``.

        A producer that is computed per reduction step in a rolled loop loads elements that all steps share in every
        step.

        Args:
            accesses: The accesses.
            terms: ``bool[R, L]``, which enclosing loops are reductions.
        """
        reader, around = accesses.batch.readers, terms.shape[1]
        d = accesses.nests.low.shape[1]
        moves = np.abs(accesses.nests.loops[:, :, 1 : 1 + d])[reader]
        moved = np.matmul(moves, (accesses.point_bytes != 0)[:, :, None].astype(np.int64))[:, :, 0]
        inside = np.asarray(self.moving(accesses)[:, around:].any(axis=1))
        repeated = terms[reader] & np.equal(moved, 0) & inside[:, None]
        factor: Floats = np.where(repeated, self.extents[reader, :around], 1.0).prod(axis=1)
        return factor


@dataclass(frozen=True)
class _Order:
    """Permutation between columns of loops (reductions, then dimensions) and their order in the nest.

    Attributes:
        there: ``int64[R, J]``, columns of the loops, outermost first; None for the identity.
    """

    there: Ints | None

    @classmethod
    def of(cls, nested: Ints) -> _Order:
        return cls(None if (nested == np.arange(nested.shape[1])).all() else nested)

    def apply(self, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Return values ``[R, J]`` by column in the order of the nest."""
        return values if self.there is None else np.take_along_axis(values, self.there, axis=1)

    def undo(self, values: NDArray[_Scalar]) -> NDArray[_Scalar]:
        """Return values ``[R, L + J]``, of which the last ``J`` are in the order of the nest, by column."""
        if self.there is None:
            return values
        by_column = values.copy()
        j = self.there.shape[1]
        np.put_along_axis(by_column[:, -j:], self.there, values[:, -j:], axis=1)
        return by_column


def _owners(hosts: Ints, counts: Ints, loops: int) -> Ints:
    """Return the nest that each enclosing loop belongs to, ``int64[R, L]``: the host, or a host of it."""
    owners = np.repeat(hosts[:, None], loops, axis=1)
    inherited = np.arange(loops) < counts[hosts][:, None]
    while inherited.any():
        outer = np.where(inherited, owners[hosts], owners)
        if (outer == owners).all():
            break
        owners = outer
    return owners


def _innermost_enclosing(owners: Ints, hosts: Ints, reduces: Bools, counts: Ints, terms: int) -> Ints:
    """Return the column of the host's innermost loop that encloses each nest, ``int64[R]``; -1 if there is none.

    Columns of the host are ``terms`` reductions, then its points.
    """
    of_host = (np.arange(owners.shape[1]) < counts[:, None]) & (owners == hosts[:, None])
    points: Ints = (of_host & ~reduces).sum(axis=1)
    return np.where(of_host.any(axis=1), terms - 1 + points, -1)


def _rolled(extents: Ints, pragma: Bools, size: Floats, holding: Bools) -> tuple[Bools, Floats, Bools]:
    """Return which loops are rolled, the operations inside all loops, and whether any loop is rolled.

    Args:
        extents: ``int64[R, K]``, outermost first.
        pragma: ``bool[R, K]``, whether generated code unrolls the loop.
        size: ``float64[R]``, operations inside the innermost loop.
        holding: ``bool[R, K]``, whether the loop contains a rolled loop of a producer.
    """
    rolled = np.zeros(extents.shape, bool)
    blocked = np.zeros(len(extents), bool)
    for k in reversed(range(extents.shape[1])):
        size = size * extents[:, k]
        blocked |= holding[:, k]
        rolled[:, k] = (extents[:, k] > 1) & ~pragma[:, k] & (blocked | (size > COMPILER_UNROLLS))
        blocked |= rolled[:, k]
    return rolled, size, blocked
