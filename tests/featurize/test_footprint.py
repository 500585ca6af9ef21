"""Footprints: bounding boxes, or the number of reads if that is less."""

from __future__ import annotations

import numpy as np

from autosched.featurize.accesses.accesses import AccessGroup, AccessRow
from autosched.featurize.accesses.footprint import Boxes
from autosched.featurize.regions.nest_geometry import Ints


def row(*coefficients: tuple[str, int], quotient: int = 1) -> AccessRow:
    return AccessRow(coefficients, 0, quotient, exact=True)


def footprint(group: AccessGroup, extents: Ints, dims: dict[str, int], reductions: dict[str, int]) -> tuple[Ints, Ints]:
    """Return elements and lines that a group reads over boxes ``int64[N, dims]``."""
    n, d = extents.shape
    factors = np.zeros((n, len(group.rows), d), np.int64)
    reach = np.zeros((n, len(group.rows)), np.int64)
    for k, r in enumerate(group.rows):
        for name, c in r.coefficients if r is not None else ():
            if name in dims:
                factors[:, k, dims[name]] = abs(c)
            else:
                reach[:, k] += abs(c) * (reductions[name] - 1)
    constants = np.array(group.offsets)
    boxes = Boxes(
        factors=factors,
        spread=np.tile(constants.max(axis=0) - constants.min(axis=0), (n, 1)),
        quotient=np.array([[1 if r is None else r.quotient for r in group.rows]] * n),
        affine=np.array([[r is not None for r in group.rows]] * n),
        fastest=np.array([[k == len(group.rows) - 1 for k in range(len(group.rows))]] * n),
        accesses=np.full(n, len(group.offsets)),
    )
    return boxes.read(extents, reach, int(np.prod(list(reductions.values()), dtype=int)))


def test_a_stencil_reads_a_box() -> None:
    offsets = tuple((dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1))
    group = AccessGroup("f", 0, (row(("y", 1)), row(("x", 1))), offsets)
    elements, lines = footprint(group, np.array([[8, 32], [1, 1]]), {"y": 0, "x": 1}, {})
    assert elements.tolist() == [10 * 34, 9]
    assert lines.tolist() == [10, 3]


def test_half_resolution_and_reductions() -> None:
    group = AccessGroup("f", 0, (row(("y", 1), quotient=2), row(("r.k", 1))), ((0, 0),))
    elements, _ = footprint(group, np.array([[16]]), {"y": 0}, {"r.k": 5})
    assert elements.tolist() == [8 * 5]


def test_distant_reads_count_one_by_one() -> None:
    group = AccessGroup("f", 0, (row(("x", 1)),), ((0,), (1000,)))
    elements, _ = footprint(group, np.array([[4]]), {"x": 0}, {})
    assert elements.tolist() == [8]


def test_gathers_in_many_dimensions_do_not_overflow() -> None:
    """A data-dependent index may have as many values as there are points; their product exceeds 64 bits."""
    group = AccessGroup("f", 0, (None, None, None, None), ((0, 0, 0, 0),))
    elements, lines = footprint(group, np.array([[3, 2560, 1536]]), {"c": 0, "y": 1, "x": 2}, {})
    assert elements.tolist() == lines.tolist() == [3 * 2560 * 1536]
