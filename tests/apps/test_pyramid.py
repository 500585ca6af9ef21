"""Pyramid samplers on ramps and constants, and the reference with unlimited repetition of edges."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.apps import get_app
from autosched.apps.pyramid import (
    BINOMIAL_3,
    BINOMIAL_4,
    BINOMIAL_5,
    Interpolation,
    between_pixels,
    binomial,
    downsampled,
    on_pixels,
    upsampled,
)
from autosched.apps.pyramid_reference import BETWEEN_PIXELS, BINOMIAL, ON_PIXELS, Phases, PyramidLevel
from autosched.lang.dtypes import float32
from autosched.lang.expr import Var
from autosched.lang.func import Func
from autosched.lang.functions import cast
from autosched.lang.pipeline import Pipeline
from autosched.reference import interpret

SAMPLES = np.arange(-6, 7, dtype=np.float32)
Weights = tuple[int, ...]


def _plane() -> Func:
    """Return 10 y + x."""
    y, x = Var("y"), Var("x")
    f = Func("plane")
    f[y, x] = cast(float32, 10 * y + x)
    return f


def _values(f: Func) -> np.ndarray:
    box = (int(SAMPLES[0]), int(SAMPLES[-1]) + 1)
    pipeline = Pipeline(f.over(y=box, x=box))
    return interpret(pipeline, {}, {})[pipeline.output_names[0]]


def _expected(at: np.ndarray) -> np.ndarray:
    return 10 * at[:, None] + at


@pytest.mark.parametrize(("weights", "centre"), [(BINOMIAL_3, 0.0), (BINOMIAL_4, 0.5), (BINOMIAL_5, 0.0)])
def test_downsampling_a_plane_reads_it_at_the_centre(weights: Weights, centre: float) -> None:
    assert np.array_equal(_values(downsampled(_plane(), weights, "down")), _expected(2 * SAMPLES + centre))


@pytest.mark.parametrize(("kind", "shift"), [(between_pixels, 0.25), (on_pixels, 0.0), (binomial, 0.0)])
def test_upsampling_a_plane_reads_it_between(kind: Interpolation, shift: float) -> None:
    assert np.array_equal(_values(upsampled(_plane(), kind, "up")), _expected(SAMPLES / 2 - shift))


def test_dims_are_resampled_in_the_order_given() -> None:
    f = downsampled(_plane(), BINOMIAL_4, "down", ("y", "x"))
    assert [g.name for g in Pipeline(f.over(y=(0, 1), x=(0, 1))).funcs] == ["plane", "down_y", "down"]


@pytest.mark.parametrize("weights", [BINOMIAL_3, BINOMIAL_4, BINOMIAL_5])
@pytest.mark.parametrize(("shape", "origin"), [((1, 1), (0, 0)), ((5, 8), (0, 0)), ((7, 4), (-3, 2))])
def test_reference_level_is_that_of_a_padded_image(
    weights: Weights, shape: tuple[int, int], origin: tuple[int, int]
) -> None:
    rng = np.random.default_rng(0)
    level = PyramidLevel(rng.random(shape), origin)
    around = ((-20, 20), (-20, 20))
    padded = PyramidLevel(level.window(((-60, 60), (-60, 60))), (-60, -60))
    assert np.array_equal(level.downsampled(weights).window(around), padded.downsampled(weights).window(around))


@pytest.mark.parametrize(("phases", "shift"), [(BETWEEN_PIXELS, 0.25), (ON_PIXELS, 0.0), (BINOMIAL, 0.0)])
@pytest.mark.parametrize("low", [-3, 0, 2])
def test_reference_upsamples_a_plane_exactly(phases: Phases, shift: float, low: int) -> None:
    level = PyramidLevel(_expected(SAMPLES), (-6, -6))
    at = np.arange(low, low + 5)
    got = level.upsampled(phases, ((low, low + 5), (low, low + 5)))
    assert np.array_equal(got, _expected(at / 2 - shift))


def test_default_of_alpha_follows_the_number_of_levels() -> None:
    app = get_app("local_laplacian")
    inputs = app.make_inputs({"H": 20, "W": 30})
    by_default, given = (app.reference(inputs, {"levels": 3} | alpha)["output"] for alpha in ({}, {"alpha": 0.5}))
    assert np.array_equal(by_default, given)
    assert not np.array_equal(by_default, app.reference(inputs, {"levels": 3, "alpha": 0.2})["output"])
