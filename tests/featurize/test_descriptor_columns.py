"""Columns of the descriptor tables have unique names and descriptions, and all have values."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.featurize.instructions.reduction_loops import MOST_REDUCTIONS
from autosched.featurize.tables.descriptor_columns import ACCESS_COLUMNS, NEST_COLUMNS, DescriptorColumn, column_widths
from autosched.featurize.tables.padding import pad_columns, pad_row
from tests.featurize.random_kernels import drawn_kernels


@pytest.mark.parametrize("columns", [NEST_COLUMNS, ACCESS_COLUMNS])
def test_names_are_distinct_and_described(columns: tuple[DescriptorColumn, ...]) -> None:
    assert len({c.name for c in columns}) == len(columns)
    assert all(c.meaning.endswith(".") and "\n" not in c.meaning for c in columns)


def test_widths_follow_dimensions_and_ranks() -> None:
    widths = column_widths(ACCESS_COLUMNS, dims=3, ranks=2)
    assert (widths["itemsize"], widths["quotient"], widths["coefficients"]) == (0, 2, 6)
    assert column_widths(NEST_COLUMNS, dims=3, ranks=2)["loop_order"] == MOST_REDUCTIONS + 3


def test_every_row_has_every_column() -> None:
    for drawn in drawn_kernels("harris", 1):
        tables, model = drawn.featurizer.tables.kinds, drawn.featurizer.model(drawn.piece.sketch)
        nests, accesses = tables.nests.of(model.plan.nests), tables.access.of(model.plan.accesses)
        assert all(len(nests[c.name]) == len(model.rows) for c in NEST_COLUMNS)
        assert all(len(accesses[c.name]) == len(model.plan.groups) for c in ACCESS_COLUMNS)


def test_padding() -> None:
    assert pad_row([1, 2], 4, -1) == [1, 2, -1, -1]
    padded = pad_columns(np.arange(4).reshape(2, 2), (3,), 9)
    assert padded.tolist() == [[0, 1, 9], [2, 3, 9]]
    assert pad_columns(np.ones((1, 1, 2), np.int64), (2, 3)).tolist() == [[[1, 1, 0], [0, 0, 0]]]
