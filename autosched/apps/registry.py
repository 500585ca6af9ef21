"""The suite's applications by name."""

from __future__ import annotations

import functools
import importlib

from autosched.apps.app import App
from autosched.apps.names import did_you_mean
from autosched.errors import InputError

NAMES = (
    "blur",
    "blur_forma",
    "unsharp",
    "unsharp_polymage",
    "harris",
    "harris_gray",
    "stencil_chain",
    "max_filter",
    "nl_means",
    "bilateral_grid",
    "local_laplacian",
    "interpolate",
    "hist",
    "iir_blur",
    "camera_pipe",
    "lens_blur",
    "bgu",
    "conv_layer",
    "conv_layer_nchw",
    "depthwise_separable_conv",
    "sgemm",
    "learned_demosaic",
    "canny",
    "pyramid_blend",
    "smoother7pt",
    "smoother27pt",
    "helmholtz",
    "denoise",
    "miniflux",
    "hypterm",
    "diffterm",
    "addsgd4",
    "addsgd6",
    "rhs4center",
    "rhs4sgcurv",
    "layer_norm",
    "standardize",
    "kernel_regression",
    "softmax",
    "cross_entropy",
    "rms_norm",
    "layer_norm_softmax",
    "group_norm",
    "attention",
    "masked_attention",
    "causal_attention",
    "box",
    "box_bytes",
)
"""Every application, in the order of the suite; each is the module of that name in this package."""


def load_apps() -> dict[str, App]:
    """Return every application of the suite by name, in the order of the suite."""
    return {name: _load(name) for name in NAMES}


def get_app(name: str) -> App:
    """Return the application of that name.

    Raises:
        InputError: If there is none; the message names the nearest one.
    """
    if name not in NAMES:
        raise InputError(f"no app {name!r}: {did_you_mean(name, NAMES)}")
    return _load(name)


@functools.cache
def _load(name: str) -> App:
    app = importlib.import_module(f"autosched.apps.{name}").APP
    assert isinstance(app, App)
    return app
