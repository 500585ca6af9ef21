"""The registry, and properties of every application: shapes, inputs, parameters, element types."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import pytest

from autosched.apps import App, get_app, load_apps
from autosched.apps.app import argument_name
from autosched.errors import InputError
from autosched.lang.dtypes import float64
from autosched.lang.expr import Binary, Const, walk

APPS = list(load_apps().values())
each_app = pytest.mark.parametrize("app", APPS, ids=[a.name for a in APPS])

PAPERS = {"Anderson", "Sioutas", "Forma", "PolyMage-GPU", "Artemis"}
OWN_FUNCS = {
    # As the papers count them; a boundary condition is a Func, and unsharp's weights are constants.
    "blur": 2, "blur_forma": 3, "unsharp": 7, "unsharp_polymage": 4, "harris": 12, "harris_gray": 11,
    "stencil_chain": 34, "sgemm": 2, "camera_pipe": 24, "lens_blur": 61,
    "local_laplacian": 102, "interpolate": 50, "pyramid_blend": 52, "canny": 8,
    "max_filter": 6, "nl_means": 9, "bilateral_grid": 7, "hist": 9, "iir_blur": 4,
    "conv_layer": 2, "conv_layer_nchw": 2, "depthwise_separable_conv": 4, "learned_demosaic": 17, "bgu": 14,
    "smoother7pt": 24, "smoother27pt": 24, "helmholtz": 24, "denoise": 48, "miniflux": 25, "hypterm": 13,
    "diffterm": 17,
    "addsgd4": 16, "addsgd6": 16, "rhs4center": 32, "rhs4sgcurv": 41,
    "layer_norm": 5, "standardize": 10, "kernel_regression": 4,
    "softmax": 5, "cross_entropy": 6, "rms_norm": 4, "layer_norm_softmax": 10, "group_norm": 5, "attention": 7,
    "masked_attention": 7, "causal_attention": 7, "box": 4, "box_bytes": 4,
}  # fmt: skip

MANY_ELEMENTS = 1 << 22

OUTPUTS: dict[str, tuple[str, ...]] = {
    # Names of the outputs where there are several.
    "miniflux": tuple(f"output_{c}" for c in range(5)),
    "hypterm": tuple(f"output_{c}" for c in range(5)),
    "diffterm": tuple(f"output_{c}" for c in (1, 2, 3, 4)),
    "rms_norm": ("output", "hidden"),
    **{name: tuple(f"output_{c}" for c in range(3)) for name in ("addsgd4", "addsgd6", "rhs4center", "rhs4sgcurv")},
}


def test_names_are_the_apps_own() -> None:
    assert {name: app.name for name, app in load_apps().items()} == {name: name for name in load_apps()}
    assert set(OWN_FUNCS) == set(load_apps())
    assert get_app("harris") is load_apps()["harris"]


def test_unknown_app_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"no app 'haris': did you mean 'harris'\? .*unsharp"):
        get_app("haris")


@each_app
def test_pipeline(app: App) -> None:
    pipeline = app.build()
    assert pipeline.name == app.name
    assert pipeline.output_names == OUTPUTS.get(app.name, ("output",))
    assert len(pipeline.funcs) == OWN_FUNCS[app.name]
    assert {i.name: i.ndim for i in pipeline.inputs} == {k: len(s) for k, s in app.shapes().items()}
    assert set(app.papers) <= PAPERS
    assert pipeline.hash == app.build().hash, "building twice must give the same pipeline"


@each_app
def test_variants_are_of_an_app_that_is_none(app: App) -> None:
    assert get_app(app.family).family == app.family
    assert set(app.shapes()) >= set(get_app(app.family).shapes())


@each_app
def test_float64_appears_only_where_the_program_is_in_double(app: App) -> None:
    if "Artemis" in app.papers:
        return
    pipeline = app.build()
    used = {node.dtype for f in pipeline.funcs for d in f.definitions for e in d.values for node in walk(e)}
    assert float64 not in used | {i.dtype for i in pipeline.inputs} | {p.dtype for p in pipeline.params}


@each_app
def test_sums_do_not_begin_with_zero(app: App) -> None:
    """Python's ``sum`` starts at 0 and would leave an addition of 0 in every stage."""
    for f in app.build().funcs:
        for e in f.definitions[0].values:
            added = [n for n in walk(e) if isinstance(n, Binary) and n.op == "add" and not n.weak]
            assert not any(isinstance(side, Const) and side.value == 0 for n in added for side in (n.a, n.b))


@each_app
@pytest.mark.parametrize("sizes", ["small", "default"])
def test_inputs_fit_the_pipeline(app: App, sizes: str) -> None:
    chosen = dict(app.small_sizes if sizes == "small" else app.default_sizes)
    if sizes == "default" and sum(map(math.prod, app.shapes(chosen).values())) > MANY_ELEMENTS:
        pytest.skip("many random numbers; the small size shows the same")
    inputs = app.make_inputs(chosen)
    assert {k: a.shape for k, a in inputs.items()} == app.shapes(chosen)
    assert app.sizes_of({k: a.shape for k, a in inputs.items()}) == chosen
    for declared in app.build().inputs:
        array = inputs[declared.name]
        assert array.dtype == declared.dtype.numpy
        assert array.flags.c_contiguous
        assert array.std() > 0, "an even image would hide wrong indices"


@each_app
def test_seeds(app: App) -> None:
    first, again, other = (app.make_inputs(app.small_sizes, seed) for seed in (3, 3, 4))
    for name in first:
        assert np.array_equal(first[name], again[name])
        assert not np.array_equal(first[name], other[name])


@each_app
def test_reference_takes_the_inputs_and_every_parameter(app: App) -> None:
    arguments = inspect.signature(app.compute).parameters
    inputs = {argument_name(name) for name in app.extents}
    assert set(arguments) == inputs | set(app.params)
    defaults = {name: a.default for name, a in arguments.items() if name not in inputs}
    assert defaults == app.params


def test_parameters_reach_structure_and_params() -> None:
    chain, scalars = get_app("stencil_chain").configure({"stages": "3"})
    assert (len(chain.funcs), scalars) == (5, {})
    mask, scalars = get_app("unsharp_polymage").configure({"weight": "2.5"})
    assert scalars == {"weight": 2.5}
    assert {p.name for p in mask.params} == {"weight", "threshold"}
    narrow, wide = (get_app("unsharp").configure({"sigma": s})[0] for s in ("1.0", "1.5"))
    assert narrow.hash != wide.hash
    assert wide.hash == get_app("unsharp").build().hash


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("unsharp", {"sigm": "1"}, r"unsharp has no parameter 'sigm': did you mean 'sigma'\?"),
        ("harris", {"sigma": "1"}, r"harris has no parameter 'sigma': there are none"),
        ("blur", {"boundary": "reflected"}, r"boundary is 'reflected': give none, clamped, mirrored, mirrored_without"),
        ("blur", {"boundary": 2}, r"boundary is '2': give none"),
        ("unsharp", {"sigma": "wide"}, r"sigma of unsharp is 'wide': give a number"),
        ("unsharp", {"sigma": "0"}, r"sigma is 0\.0: give a number of at least"),
        ("unsharp", {"sigma": "nan"}, r"sigma is nan"),
        ("unsharp", {"sigma": "-inf"}, r"sigma is -inf"),
        ("stencil_chain", {"stages": "2.5"}, r"stages of stencil_chain is '2\.5': give a whole number"),
        ("stencil_chain", {"stages": 2.5}, r"stages of stencil_chain is 2\.5: give a whole number"),
        ("stencil_chain", {"stages": float("inf")}, r"stages of stencil_chain is inf: give a whole number"),
        ("stencil_chain", {"stages": 0}, r"stages is 0: give 1 to 1000"),
        ("bgu", {"lam": 0}, r"lam is 0\.0: give a positive number"),
        ("bgu", {"r_sigma": 2}, r"r_sigma is 2\.0: give a number from .* to 1"),
        ("bgu", {"upsample": -1}, r"upsample is -1: give 1 to 65536, or 0"),
        ("local_laplacian", {"levels": 1}, r"levels is 1: give 2 to 256"),
        ("local_laplacian", {"pyramid_levels": 0}, r"pyramid_levels is 0: give 1 to 12"),
        ("interpolate", {"levels": 13}, r"levels is 13: give 1 to 12"),
        ("interpolate", {"clamp_before_level": 0}, r"clamp_before_level is 0: give at least 1"),
        ("max_filter", {"radius": 0}, r"radius is 0: give 1 to 127 pixels"),
        ("nl_means", {"patch_size": 0}, r"patch_size is 0: give 1 to 99 pixels"),
        ("nl_means", {"search_area": 100}, r"search_area is 100: give 1 to 99 pixels"),
        ("bilateral_grid", {"s_sigma": 0}, r"s_sigma is 0: give 1 to 256 pixels"),
        ("bilateral_grid", {"r_sigma": "0"}, r"r_sigma is 0\.0: give a number of at least 0\.0009"),
        ("bilateral_grid", {"r_sigma": "nan"}, r"r_sigma is nan"),
        ("smoother7pt", {"T": 0}, r"T is 0: give 1 to 1000"),
        ("denoise", {"T": 1001}, r"T is 1001: give 1 to 1000"),
        ("hypterm", {"dxinv": "1,2"}, r"dxinv of hypterm is '1,2': give 3 numbers, as in dxinv=0\.01,0\.02,0\.03"),
        ("hypterm", {"dxinv": 0.5}, r"dxinv of hypterm is 0\.5: give 3 numbers"),
        ("diffterm", {"dxinv": "1,2,far"}, r"dxinv of diffterm is 'far': give a number"),
        ("diffterm", {"eta": (1.0, 2.0)}, r"eta of diffterm is \(1\.0, 2\.0\): give a number"),
        ("lens_blur", {"slices": 0}, r"slices is 0: give 1 to 256"),
        ("lens_blur", {"focus_depth": 33}, r"focus_depth is 33: give 0 to 32"),
        ("lens_blur", {"blur_radius_scale": -1}, r"blur_radius_scale is -1\.0: give 0 to 6\.68"),
        ("lens_blur", {"aperture_samples": 0}, r"aperture_samples is 0: give 1 to 1024"),
    ],
)
def test_wrong_parameters(name: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_app(name).configure(params)


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("harris", {}, r"input 'input' of shape \[3, H, W\] is missing"),
        ("harris", {"input": (128, 192)}, r"has shape \[128, 192\], not \[3, H, W\]: give it 3 dimensions"),
        ("harris", {"input": (4, 128, 192)}, r"dimension 0 must be 3"),
        ("blur", {"input": (2, 192)}, r"not \[H\+2, W\+2\]: dimension 0 must be at least 3"),
        ("sgemm", {"A": (5, 6), "B": (7, 8)}, r"'B' .* K is 7 here, but 6 by input 'A'"),
    ],
)
def test_wrong_shapes(name: str, shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_app(name).sizes_of(shapes)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [({"w": 5}, r"harris has no size 'w': .*there is H, W"), ({"W": 0}, r"size W of harris is 0: give at least 1")],
)
def test_wrong_sizes(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        get_app("harris").shapes(sizes)
