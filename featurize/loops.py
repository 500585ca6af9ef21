"""Loops inside a thread, and which of them are still loops in compiled code."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.featurize.entries import Accesses
from autosched.featurize.geometry import Geometry
from autosched.featurize.kinds import THREAD
from autosched.featurize.memory import Floats
from autosched.featurize.rows import Bools, Ints
from autosched.schedule.derived import is_unrolled, reduction_is_unrolled

COMPILER_UNROLLS = 300
"""Operations up to which LLVM, on which NVRTC is built, unrolls a loop by itself (its ``UnrollThreshold``)."""

TOGETHER = 4
"""Iterations of an innermost loop that is kept whose loads compilers bring together."""


@dataclass(frozen=True)
class Loops:
    """Loops inside a thread around the points of nests, outermost first.

    There are ``K`` of them: those around the nest, its reductions, its points. What a compiler unrolls by itself is
    judged by the code of a nest and of the THREAD Members in it.

    Attributes:
        extents: ``float64[R, K]``, iterations.
        runs: ``float64[R, K]``, how often a thread runs the body of each.
        kept: ``bool[R, K]``, whether it is a loop in compiled code, not unrolled.
        own: ``bool[R]``, whether one of a nest's own loops is, so that unrolled loops around it share nothing.
    """

    extents: Floats
    runs: Floats
    kept: Bools
    own: Bools

    @classmethod
    def of(cls, geometry: Geometry, hosts: Ints, reduces: Bools) -> Loops:
        """Return the loops of all nests.

        Args:
            geometry: The nests.
            hosts: ``int64[R]``, the nest around each.
            reduces: ``bool[R, L]``, which of the loops around a nest are reductions.
        """
        nests, kinds = geometry.nests, geometry.nests.kinds
        tile, terms = nests.serial.prod(axis=1), kinds["terms"]
        written = np.asarray(is_unrolled(tile, kinds["held"])) | (kinds["level"] == THREAD)
        around = nests.loops[:, :, 0] + 1
        own = np.concatenate([terms, nests.serial], axis=1)
        told = np.repeat(written[:, None], own.shape[1], axis=1)
        reduced = np.asarray(reduction_is_unrolled(tile, terms.astype(np.float64).prod(axis=1), kinds["held"]))
        told[:, : terms.shape[1]] &= reduced[:, None]
        code = kinds["size"].astype(np.float64) * tile
        nested = np.flatnonzero(hosts != np.arange(len(hosts)))
        within = np.where(reduces, 1, around).astype(np.float64).prod(axis=1) * code
        np.add.at(code, hosts[nested], within[nested])
        kept, size, blocked = _kept(own, told, code / tile)
        outside, _, _ = _kept(around, ~reduces & written[hosts][:, None], np.where(blocked, np.inf, size + code[hosts]))
        extents = np.concatenate([around, own], axis=1).astype(np.float64)
        return cls(extents, extents.cumprod(axis=1), np.concatenate([outside, kept], axis=1), blocked)

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
        inside = np.cumsum(self.kept[:, ::-1], axis=1)[:, ::-1]
        together = np.where(self.kept & (inside == 1), np.minimum(self.extents, TOGETHER), 1.0)
        found: Floats = (np.where(self.kept, self.extents, 1.0) / together).prod(axis=1)
        return found

    def moving(self, accesses: Accesses) -> Bools:
        """Return which of the loops that are kept move an address, ``bool[A, K]``."""
        nests, reader, dims = accesses.nests, accesses.batch.readers, accesses.point_bytes != 0
        d = nests.low.shape[1]
        found: Bools = self.kept[reader]
        around = found.shape[1] - d - accesses.kinds["summed"].shape[1]
        found[:, -d:] &= dims
        found[:, around:-d] &= accesses.kinds["summed"] > 0
        if around:
            moves = np.abs(nests.loops[:, :, 1 : 1 + d])[reader]
            found[:, :around] &= np.matmul(moves, dims[:, :, None].astype(np.int64))[:, :, 0] != 0
        return found


def _kept(extents: Ints, told: Bools, size: Floats) -> tuple[Bools, Floats, Bools]:
    """Return which loops, outermost first, stay loops in compiled code; its operations; and whether there is one.

    Args:
        extents: ``int64[R, K]``.
        told: ``bool[R, K]``, whether code says to unroll it.
        size: ``float64[R]``, operations inside the innermost loop.
    """
    found = np.zeros(extents.shape, bool)
    blocked = np.zeros(len(extents), bool)
    for k in reversed(range(extents.shape[1])):
        size = size * extents[:, k]
        found[:, k] = (extents[:, k] > 1) & ~told[:, k] & (blocked | (size > COMPILER_UNROLLS))
        blocked |= found[:, k]
    return found, size, blocked
