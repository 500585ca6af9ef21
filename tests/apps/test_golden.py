"""Every application against golden data, and against an independent reference on other sizes and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.apps import get_app, load_apps

GOLDEN = Path(__file__).parents[1] / "data" / "golden"

GOLDEN_SETS: list[tuple[str, str, dict[str, Any]]] = [
    # app, suffix of its arrays, parameters beside those stored with the arrays
    ("blur", "", {}),
    ("blur", "_wrap", {}),
    ("blur_forma", "", {}),
    ("unsharp", "", {}),
    ("unsharp_polymage", "", {}),
    ("harris", "", {}),
    ("harris_gray", "", {}),
    ("stencil_chain", "", {}),
    ("max_filter", "", {}),
    ("nl_means", "", {}),
    ("nl_means", "_exact_exp", {}),
    ("bilateral_grid", "", {}),
    ("local_laplacian", "", {}),
    ("interpolate", "", {}),
    ("hist", "", {}),
    ("iir_blur", "", {}),
    ("iir_blur", "_alpha01", {"alpha": 0.1}),
    ("camera_pipe", "", {}),
    ("lens_blur", "", {}),
    ("bgu", "", {}),
    ("bgu", "_exact", {}),
    ("conv_layer", "", {}),
    ("conv_layer_nchw", "", {}),
    ("depthwise_separable_conv", "", {}),
    ("sgemm", "", {}),
    ("sgemm", "_rand", {}),
    ("learned_demosaic", "", {}),
    ("canny", "", {}),
    ("pyramid_blend", "", {}),
    *((name, suffix, params) for name in ("smoother7pt", "smoother27pt", "helmholtz")
      for suffix, params in (("", {}), ("_T1", {"T": 1}), ("_T4", {"T": 4}))),
    ("denoise", "", {}),
    ("denoise", "_T4", {"T": 4}),
    ("miniflux", "", {}),
    ("hypterm", "", {}),
    ("diffterm", "", {}),
    ("addsgd4", "", {}),
    ("addsgd6", "", {}),
    ("rhs4center", "", {}),
    ("rhs4sgcurv", "", {}),
]  # fmt: skip
GOLDEN_SETS = [s for s in GOLDEN_SETS if s[0] in load_apps()]
OTHER_FORMS = {("smoother7pt", "_artifact_T1")}
"""Stored outputs of a program with a slip, kept to show the difference: no app computes them."""

OTHER_PARAMETERS = [
    ("unsharp", {"sigma": 0.7}),
    ("unsharp_polymage", {"threshold": 0.05, "weight": 1.5}),
    ("stencil_chain", {"stages": 1}),
    ("stencil_chain", {"stages": 5}),
]


def _assert_same(got: Mapping[str, Any], expected: Mapping[str, Any], tolerance: Callable[[str], Any]) -> None:
    assert list(got) == list(expected)
    for name, array in expected.items():
        problem = tolerance(name).mismatch(np.asarray(got[name]), array)
        assert problem is None, f"{name}: {problem}"


@pytest.mark.parametrize(("name", "suffix", "others"), GOLDEN_SETS)
def test_golden(name: str, suffix: str, others: dict[str, Any], witness: Any, golden: Any) -> None:
    app, case = get_app(name), golden(name, suffix)
    sizes = app.sizes_of({k: a.shape for k, a in case.inputs.items()})
    assert {k: n for k, n in sizes.items() if k in case.params} == {
        k: case.params[k] for k in sizes if k in case.params
    }
    pipeline, scalars = app.configure({k: v for k, v in case.params.items() if k in app.params} | others)
    _assert_same(witness(pipeline, case.inputs, scalars), case.outputs, case.tolerance.__getitem__)


@pytest.mark.parametrize(("name", "suffix", "others"), GOLDEN_SETS)
def test_reference_agrees_with_golden(name: str, suffix: str, others: dict[str, Any], golden: Any) -> None:
    app, case = get_app(name), golden(name, suffix)
    params = {k: v for k, v in case.params.items() if k in app.params} | others
    _assert_same(app.reference(case.inputs, params), case.outputs, case.tolerance.__getitem__)


def test_every_golden_output_is_compared() -> None:
    stored = set()
    for name, app in load_apps().items():
        outputs = app.build().output_names
        with np.load(GOLDEN / f"{name}.npz") as file:
            for key in (k.removeprefix("out_") for k in file.files if k.startswith("out_")):
                first = next(o for o in sorted(outputs, key=len, reverse=True) if key.startswith(o))
                stored.add((name, key.removeprefix(first)))
    assert stored - OTHER_FORMS == {(name, suffix) for name, suffix, _ in GOLDEN_SETS}


@pytest.mark.parametrize(
    ("name", "params"), [*((name, {}) for name in load_apps()), *OTHER_PARAMETERS], ids=lambda v: str(v)
)
def test_reference_at_sizes_no_tile_divides(name: str, params: dict[str, Any], witness: Any) -> None:
    app = get_app(name)
    inputs = app.make_inputs(app.small_sizes, seed=1)
    pipeline, scalars = app.configure(params)
    _assert_same(witness(pipeline, inputs, scalars), app.reference(inputs, params), lambda _: app.tolerance)


def test_stage_of_the_stencil_chain(witness: Any, golden: Any) -> None:
    """One stage alone gives the intermediate array that is stored beside the output of 32."""
    case = golden("stencil_chain", "")
    with np.load(GOLDEN / "stencil_chain.npz") as file:
        stage = file["aux_stage1"]
    pipeline, _ = get_app("stencil_chain").configure({"stages": 1})
    assert np.array_equal(np.asarray(witness(pipeline, case.inputs, {})["output"]), stage)
