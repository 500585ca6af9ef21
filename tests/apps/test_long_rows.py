"""Long rows and many keys through the C backend against references in double precision."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

import autosched
from autosched.apps import get_app

ROWS = ("softmax", "cross_entropy", "rms_norm", "layer_norm", "layer_norm_softmax")
LONGEST: list[tuple[str, dict[str, int]]] = [
    *((name, {"R": 2, "C": 50_257}) for name in ROWS),
    ("group_norm", {"N": 1, "G": 2, "C": 29, "P": 1733}),
]
OTHERS: list[tuple[str, dict[str, int]]] = [
    *((name, {"R": 5, "C": columns}) for name in ROWS for columns in (64, 771, 8192)),
    *(("group_norm", {"N": 2, "G": 3, "C": c, "P": p}) for c, p in ((4, 16), (3, 257), (8, 1024))),
    *((f"{kind}attention", {"B": 1, "H": 2, "Q": 37, "K": keys, "D": size})
      for kind in ("", "masked_", "causal_") for keys in (257, 2048) for size in (32, 64)),
]  # fmt: skip


IN_ORDER = 4
"""Times the tolerance of an app for long sums in order, which round more than sums of parts."""


def assert_near_double_precision(name: str, sizes: Mapping[str, int], strategy: str, times: int = 1) -> None:
    """Compare a schedule's results with the app's reference within some times its tolerance."""
    app = get_app(name)
    own = app.tolerance
    tolerance = dataclasses.replace(own, rtol=times * own.rtol, atol=times * own.atol)
    inputs = app.make_inputs(sizes, seed=2)
    scheduled = autosched.schedule(app.build(), inputs=inputs, target="cpu", strategy=strategy, reuse=False)
    result = scheduled.compile("cpu")(inputs)
    got = [result] if isinstance(result, np.ndarray) else result
    for array, (output, expected) in zip(got, app.reference(inputs).items(), strict=True):
        problem = tolerance.mismatch(np.asarray(array), expected)
        assert problem is None, f"{output}: {problem}"


@pytest.mark.parametrize(("name", "sizes"), LONGEST)
def test_longest_rows(name: str, sizes: dict[str, int]) -> None:
    assert_near_double_precision(name, sizes, "roots", IN_ORDER)


@pytest.mark.fuzz
@pytest.mark.parametrize(("name", "sizes"), [*LONGEST, *OTHERS])
def test_default_schedules_of_long_rows(name: str, sizes: dict[str, int]) -> None:
    assert_near_double_precision(name, sizes, "beam")
