"""Every coefficient multiplies its quantity of Anderson's Appendix B, given here as plain arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

import numpy as np
import pytest
import torch

from autosched.featurize import schema
from autosched.model.architecture.components import COEFFICIENTS, COMPONENTS, StageFeatures, stage_cost

SMS = 132
Row = Mapping[str, float]


def threads(f: Row) -> float:
    return f["num_blocks"] * f["num_threads_per_block"]


def waste(f: Row) -> float:
    tasks = max(f["inner_parallelism"] * f["outer_parallelism"], 1) / SMS
    return ceil(tasks) / max(tasks, 1) / (1 - f["idle_lane_wastage"])


def realized(name: str) -> Callable[[Row], float]:
    return lambda f: f["num_realizations"] * f[f"unique_{name}_read_per_realization"]


def threaded(name: str) -> Callable[[Row], float]:
    return lambda f: threads(f) * f[f"unique_{name}_read_per_thread"]


def transactions(memory: str, way: str) -> Callable[[Row], float]:
    return lambda f: f["num_blocks"] * f[f"num_{memory}_mem_{way}s_per_block"] / f[f"{memory}_mem_{way}_efficiency"]


# Of a stage with loops of its own; c3 and c4 are those of inlined Funcs, c23 is not used.
TERMS: Mapping[int, Callable[[Row], float]] = {
    0: threaded("register_bytes"),
    1: lambda f: f["num_scalars"] * waste(f),
    2: threaded("register_lines"),
    5: realized("global_lines"),
    6: realized("global_bytes"),
    7: realized("register_bytes"),
    8: realized("register_lines"),
    9: lambda f: f["working_set"],
    10: lambda f: f["num_scalars"] * f["unique_bytes_read_per_point"],
    11: threaded("shared_bytes"),
    12: lambda f: f["num_scalars"] * f["unique_lines_read_per_point"],
    13: threaded("global_bytes"),
    14: lambda f: f["num_blocks"] * f["unique_bytes_read_per_task"],
    15: lambda f: f["num_blocks"] * f["unique_lines_read_per_task"],
    16: realized("shared_lines"),
    17: threaded("shared_lines"),
    18: threaded("global_lines"),
    19: lambda f: threads(f) * f["points_computed_per_thread"] * waste(f),
    20: realized("shared_bytes"),
    21: transactions("global", "store"),
    22: lambda f: f["num_scalars"] / max(f["global_innermost_bytes_at_task"], 1) * (f["inner_parallelism"] > 1),
    24: lambda f: f["num_realizations"],
    25: lambda f: f["num_productions"] * (f["inner_parallelism"] > 1),
    26: lambda f: f["num_productions"] * (f["inner_parallelism"] - 1),
    27: transactions("shared", "load"),
    28: transactions("global", "load"),
    29: transactions("shared", "store"),
}


def random_row(seed: int) -> dict[str, float]:
    """Return features of a stage computed at root, of plausible sizes."""
    rng = np.random.default_rng(seed)
    row = dict(zip(schema.NAMES, rng.integers(1, 300, schema.COUNT).tolist(), strict=True))
    ratios = [n for n in schema.NAMES if "efficiency" in n or n in ("idle_lane_wastage", "warp_lane_utilization")]
    return row | {n: float(rng.uniform(0.2, 0.8)) for n in ratios} | {"inlined_calls": 0.0}


def features_of(rows: list[dict[str, float]]) -> StageFeatures:
    return StageFeatures(torch.tensor([[r[n] for n in schema.NAMES] for r in rows], dtype=torch.float64), SMS)


def one_hot(k: int, rows: int) -> torch.Tensor:
    c = torch.zeros(rows, COEFFICIENTS, dtype=torch.float64)
    c[:, k] = 1
    return c


@pytest.mark.parametrize("k", sorted(TERMS))
def test_coefficient(k: int) -> None:
    rows = [random_row(seed) for seed in range(5)]
    rows[0]["inner_parallelism"] = 1.0  # a nested stage launches nothing
    found = stage_cost(features_of(rows), one_hot(k, 5))
    np.testing.assert_allclose(found, [TERMS[k](r) for r in rows], rtol=1e-12)


@pytest.mark.parametrize("k", [3, 4])
def test_coefficients_of_inlined_funcs(k: int) -> None:
    row = random_row(0) | {"inlined_calls": 70.0, "num_scalars": 0.0}
    tasks = row["inner_parallelism"] * row["outer_parallelism"] / SMS
    rounds = ceil(tasks) / max(tasks, 1)
    count = 70.0 if k == 3 else threads(row) * row["points_computed_per_thread"]
    np.testing.assert_allclose(stage_cost(features_of([row]), one_hot(k, 1)), [count * rounds], rtol=1e-12)


def test_coefficients_of_the_other_kind_do_not_count() -> None:
    own, inlined = random_row(0), random_row(0) | {"inlined_calls": 70.0}
    for k in (3, 4):
        assert stage_cost(features_of([own]), one_hot(k, 1)) == 0
    for k in (1, 19):
        assert stage_cost(features_of([inlined]), one_hot(k, 1)) == 0


def test_coefficients_that_occur() -> None:
    """Together the terms use every coefficient of the paper's listing, and c27 and c28, but not c23."""
    assert set(TERMS) | {3, 4, 23} == set(range(COEFFICIENTS))
    assert stage_cost(features_of([random_row(1)]), one_hot(23, 1)) == 0


def test_stage_cost_is_the_sum_of_its_components() -> None:
    f, c = features_of([random_row(s) for s in range(4)]), torch.rand(4, COEFFICIENTS, dtype=torch.float64)
    parts = [component(f, c) for component in COMPONENTS.values()]
    torch.testing.assert_close(stage_cost(f, c), sum(parts[1:], parts[0]))


def test_zero_efficiency_is_no_division_by_zero() -> None:
    row = dict.fromkeys(schema.NAMES, 0.0)  # efficiencies of 0, no blocks
    assert torch.isfinite(stage_cost(features_of([row]), torch.ones(1, COEFFICIENTS, dtype=torch.float64))).all()
