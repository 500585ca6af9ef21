"""Every application against golden data, and against an independent reference on other sizes and parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.apps import get_app, load_apps
from autosched.lang.boundary import KINDS
from autosched.lang.pipeline import Pipeline

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
    ("denoise", "", {"T": 1}),
    ("denoise", "_T4", {"T": 4}),
    ("miniflux", "", {}),
    ("hypterm", "", {}),
    ("diffterm", "", {}),
    ("addsgd4", "", {}),
    ("addsgd6", "", {}),
    ("rhs4center", "", {}),
    ("rhs4sgcurv", "", {}),
    *((name, suffix, {}) for name in ("softmax", "cross_entropy", "rms_norm", "layer_norm_softmax", "group_norm")
      for suffix in ("", "_771")),
    *((name, suffix, {}) for name in ("attention", "masked_attention", "causal_attention") for suffix in ("", "_257")),
]  # fmt: skip
GOLDEN_SETS = [s for s in GOLDEN_SETS if s[0] in load_apps()]
LONG_SUFFIXES = ("_T4", "_771", "_257")
"""Of sets that take witnesses longest; references are compared with all."""
OTHER_FORMS = {("smoother7pt", "_artifact_T1")}
"""Outputs of a program with an error, for comparison; no app computes them."""

OTHER_PARAMETERS = [
    ("unsharp", {"sigma": 0.7}),
    ("unsharp_polymage", {"threshold": 0.05, "weight": 1.5}),
    ("stencil_chain", {"stages": 1}),
    ("stencil_chain", {"stages": 5}),
    ("bgu", {"s_sigma": 5, "r_sigma": 0.2, "lam": 0.5, "upsample": 4}),
    ("max_filter", {"radius": 1}),
    ("max_filter", {"radius": 32}),
    ("nl_means", {"patch_size": 4, "search_area": 2, "sigma": 0.3}),
    ("bilateral_grid", {"s_sigma": 5, "r_sigma": 0.07}),
    ("iir_blur", {"alpha": 0.03}),
    ("camera_pipe", {"color_temp": 5000.0, "gamma": 2.7, "contrast": -20.0, "blackLevel": 100, "whiteLevel": 900}),
    ("camera_pipe", {"sharpen_strength": 6.0}),
    ("lens_blur", {"slices": 1, "focus_depth": 1, "blur_radius_scale": 0.0, "aperture_samples": 1}),
    ("local_laplacian", {"levels": 4, "pyramid_levels": 3, "beta": 0.5}),
    ("local_laplacian", {"pyramid_levels": 1, "alpha": 1.0}),
    ("interpolate", {"levels": 5, "clamp_before_level": 2}),
    ("interpolate", {"levels": 1}),
    ("pyramid_blend", {"levels": 1}),
    ("canny", {"low": 0.05, "high": 0.1}),
    *((name, {"boundary": kind}) for name in ("blur", "harris_gray", "canny") for kind in KINDS),
    ("smoother7pt", {"T": 3, "a": 0.9, "b": -0.2, "h2inv": 0.4}),
    ("smoother27pt", {"T": 2, "a": 0.9, "b": -0.2, "h2inv": 0.4}),
    ("helmholtz", {"T": 2, "a": 0.12, "b": 0.1, "h2inv": 0.4}),
    ("denoise", {"T": 3}),
    ("hypterm", {"dxinv": (0.5, -0.7, 1.1)}),
    ("box", {"radius": 31}),
    ("box_bytes", {"radius": 7}),
    ("box_bytes", {"radius": 31}),
    ("box_bytes", {"radius": 56}),
    ("diffterm", {"dxinv": (0.5, 0.7, -1.1), "eta": 0.2, "alam": 1.3}),
]
LONG = [
    *((name, {}) for name in load_apps()),  # `apps --check` covers all (tests/test_cli_apps.py)
    ("lens_blur", {"slices": 20, "focus_depth": 3, "blur_radius_scale": 0.3, "aperture_samples": 7}),
    ("pyramid_blend", {"levels": 6}),
]


def _assert_same(got: Mapping[str, Any], expected: Mapping[str, Any], tolerance: Callable[[str], Any]) -> None:
    assert list(got) == list(expected)
    for name, array in expected.items():
        problem = tolerance(name).mismatch(np.asarray(got[name]), array)
        assert problem is None, f"{name}: {problem}"


@pytest.mark.parametrize(
    ("name", "suffix", "others"),
    [pytest.param(*s, marks=[pytest.mark.fuzz] * (s[1] in LONG_SUFFIXES)) for s in GOLDEN_SETS],
)
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
        if not (GOLDEN / f"{name}.npz").exists():
            assert not app.papers  # ours, of which there is no other program
            continue
        outputs = app.build().output_names
        with np.load(GOLDEN / f"{name}.npz") as file:
            for key in (k.removeprefix("out_") for k in file.files if k.startswith("out_")):
                first = next(o for o in sorted(outputs, key=len, reverse=True) if key.startswith(o))
                stored.add((name, key.removeprefix(first)))
    assert stored - OTHER_FORMS == {(name, suffix) for name, suffix, _ in GOLDEN_SETS}


@pytest.mark.parametrize(
    ("name", "params"),
    [*OTHER_PARAMETERS, *(pytest.param(*given, marks=pytest.mark.fuzz) for given in LONG)],
    ids=lambda v: str(v),
)
def test_reference_at_sizes_no_tile_divides(name: str, params: dict[str, Any], witness: Any) -> None:
    app = get_app(name)
    inputs = app.make_inputs(app.small_sizes, seed=1)
    pipeline, scalars = app.configure(params)
    _assert_same(witness(pipeline, inputs, scalars), app.reference(inputs, params), lambda _: app.tolerance)


def test_stage_of_the_stencil_chain(witness: Any, golden: Any) -> None:
    """One stage gives the intermediate array of the golden data."""
    case = golden("stencil_chain", "")
    with np.load(GOLDEN / "stencil_chain.npz") as file:
        stage = file["aux_stage1"]
    pipeline, _ = get_app("stencil_chain").configure({"stages": 1})
    assert np.array_equal(np.asarray(witness(pipeline, case.inputs, {})["output"]), stage)


def test_histogram_of_luma(witness: Any, golden: Any) -> None:
    """The output may round differently, the histogram must not: no pixel's luma lies on the edge of a bin."""
    case = golden("hist", "")
    with np.load(GOLDEN / "hist.npz") as file:
        expected = file["aux_hist"]
    histogram = get_app("hist").build().func("histogram")
    found = witness(Pipeline(histogram.over(b=(0, 256))), case.inputs, {})["histogram"]
    assert np.array_equal(np.asarray(found), expected)
