"""Pipelines as vectors of their workload, the picture of them, and distances."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from drawings import pipeline_space as space_module
from drawings import random_pipelines as script
from drawings.pipeline_space import AFTER, BEFORE, SUITE, PipelineSpace, distance_table, user_pipelines

import autosched as a
from autosched.analysis.bind import bind
from autosched.errors import InputError
from autosched.random_pipelines import random_pipeline
from autosched.random_pipelines.settings import SMALL
from autosched.random_pipelines.settings import USERS as USERS_SETTINGS
from autosched.random_pipelines.workload_vector import WORKLOAD_FEATURES, workload_vector

Y, X = a.Var("y"), a.Var("x")

CASES = """
from dataclasses import dataclass, field
import numpy as np
CASES = []
@dataclass
class Case:
    name: str
    build: object
    inputs: dict
    params: dict = field(default_factory=dict)
"""
CASE = """
import autosched as a
from common import CASES, Case, np
def build():
    image, k, f = a.Input("image", a.float32, 1), a.Param("k", a.float32), a.Func("f")
    f[a.Var("x")] = image[a.Var("x")] * k
    return a.Pipeline([f.over(x=(0, 40))])
CASES.append(Case("scaled row", build, {"image": np.zeros(40, np.float32)}, {"k": 2.0}))
"""


def features(pipeline: a.Pipeline, **shapes: tuple[int, ...]) -> dict[str, float]:
    return dict(zip(WORKLOAD_FEATURES, workload_vector(bind(pipeline, shapes)).tolist(), strict=True))


def test_features_of_a_table_and_a_window() -> None:
    image, table = a.Input("image", a.uint8, 2), a.Input("table", a.uint8, 1)
    padded, r = image.clamped(), a.RDom("r", x=4)
    toned, largest = a.Func("toned"), a.Func("largest")
    toned[Y, X] = table[a.cast(a.int32, image[Y, X])]
    largest[Y, X] = a.cast(a.uint8, 0)
    largest[Y, X] = a.max(largest[Y, X], padded[Y, X + r.x])
    pipeline = a.Pipeline([toned.over(y=(0, 8), x=(0, 16)), largest.over(y=(0, 8), x=(0, 16))])
    found = features(pipeline, image=(8, 16), table=(256,))
    assert found["log2 of outputs"] == 1.0
    assert found["log2 of the longest reduction"] == 2.0
    assert found["log2 of the largest window"] == 2.0
    # points evaluated: 128 of the table, 128 of zeros and 512 of the maximum
    assert found["share of evaluations in reductions"] == pytest.approx(512 / 768)
    assert found["share of operations that are minima or maxima"] == 1.0
    assert found["share of accesses at indices read from data"] == pytest.approx(128 / (2 * 128 + 2 * 512))
    assert found["share of evaluations of integers"] == 1.0
    assert found["mean log2 of bits of an element"] == 3.0
    assert found["log2 of stages"] == pytest.approx(np.log2(3))
    assert found["boundary conditions per Func"] == 0.5
    assert found["share of evaluations that carry a dependence"] == 0.0


def test_scans_carry_a_dependence() -> None:
    row, r, f = a.Input("row", a.float64, 1), a.RDom("r", x=(1, 100)), a.Func("f")
    f[X] = row[X]
    f[r.x] = a.sqrt(f[r.x - 1]) + f[r.x]
    found = features(a.Pipeline([f.over(x=(0, 100))]), row=(100,))
    assert found["share of evaluations that carry a dependence"] == pytest.approx(99 / 199)
    assert found["mean log2 of bits of an element"] == 6.0
    assert found["share of operations in function calls"] == pytest.approx(10 / 11)


def test_vectors_of_random_pipelines_are_finite() -> None:
    for settings in (SMALL, USERS_SETTINGS):
        vectors = np.array([workload_vector(random_pipeline(seed, settings).bind()) for seed in range(12)])
        assert np.isfinite(vectors).all()
        assert len(np.unique(vectors, axis=0)) == 12


def test_distances_and_components() -> None:
    rng = np.random.default_rng(0)
    random = {f"r{k}": v for k, v in enumerate(rng.standard_normal((40, 3)))}
    near = {f"n{k}": v + np.array([5.0, 0.0, 0.0]) for k, v in enumerate(random.values())}
    app = {"app": near["n3"]}
    space = PipelineSpace.of({BEFORE: random, AFTER: near, SUITE: app})
    points, shares = space.components()
    assert points[SUITE].shape == (1, 2)
    assert shares[0] > shares[1] > 0
    assert space.distances(SUITE, space.vectors[AFTER])[0] == pytest.approx(0.0)
    assert space.distances(SUITE, space.vectors[BEFORE])[0] > 0.5
    table = distance_table(space)
    assert "| suite, median |" in table
    assert re.search(r"\| app \| \d\.\d\d \| 0\.00 \|", table)
    assert "nearest of 40 random pipelines" in table


def test_script_draws_a_folder_of_pipelines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    folder, picture = tmp_path / "programs", tmp_path / "out" / "space.png"
    folder.mkdir()
    (folder / "common.py").write_text(CASES)
    (folder / "p1.py").write_text(CASE)
    monkeypatch.setattr(space_module, "NAMES", ("blur", "softmax"))
    assert script.main(["--picture", str(picture), "--seeds", "3", "--users", str(folder)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "| users, worst |" in printed
    assert "| scaled row |" in printed
    assert "| softmax |" in printed


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no common\.py with a list CASES"):
        list(user_pipelines(tmp_path))
