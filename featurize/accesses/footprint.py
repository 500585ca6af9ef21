"""Footprints: the part of an array that a group of accesses reads over a box of points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from autosched.featurize.tables.growable_table import TableRows

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Boxes:
    """Bounding boxes of groups of accesses, one row each; ``Q`` dimensions of sources, ``D`` of nests.

    Attributes:
        factors: ``int64[N, Q, D]``, absolute coefficients of the nest's dimensions.
        spread: ``int64[N, Q]``, largest less smallest constant of the group.
        quotient: ``int64[N, Q]``, floor divisors.
        affine: ``bool[N, Q]``, whether the index is affine.
        fastest: ``bool[N, Q]``, whether it is the source's last dimension.
        accesses: ``int64[N]``, distinct accesses of the group.
    """

    factors: Ints
    spread: Ints
    quotient: Ints
    affine: Bools
    fastest: Bools
    accesses: Ints

    @classmethod
    def of(cls, kinds: TableRows, dims: int) -> Boxes:
        """Return the boxes of rows of `DescriptorTables.access`."""
        factors = np.abs(kinds["coefficients"]).reshape(len(kinds["rank"]), -1, dims)
        rank = np.arange(factors.shape[1])
        fastest = rank == kinds["rank"][:, None] - 1
        return cls(factors, kinds["spread"], kinds["quotient"], kinds["affine_dims"] > 0, fastest, kinds["count"])

    def read(self, extents: Ints, reach: Ints | int, reductions: Ints | int) -> tuple[Ints, Ints]:
        """Return the elements and contiguous rows that are read, ``int64[N]`` each.

        These are the sizes of the bounding box, or the number of accesses if that is less.

        Args:
            extents: ``int64[N, D]``, points of the nest.
            reach: ``int64[N, Q]``, distance that reductions move each index.
            reductions: ``int64[N]``, terms of the reductions at each point.
        """
        exact, reads = self.sizes(extents, reach, reductions)
        elements = np.minimum(exact.prod(axis=1), reads).astype(np.int64)
        lines = np.minimum(np.where(self.fastest, 1.0, exact).prod(axis=1), elements).astype(np.int64)
        return elements, lines

    def sizes(self, extents: Ints, reach: Ints | int, reductions: Ints | int) -> tuple[Floats, Ints]:
        """Return the extents of the bounding box, ``float64[N, Q]``, and the number of accesses, ``int64[N]``.

        Boxes of data-dependent indices exceed 64-bit integers, hence floating point.
        """
        points = extents.prod(axis=1) * reductions
        length = self.spread + reach + np.matmul(self.factors, (extents - 1)[:, :, None])[:, :, 0]
        box = np.where(self.affine, length // self.quotient + 1, points[:, None])
        return box.astype(np.float64), points * self.accesses
