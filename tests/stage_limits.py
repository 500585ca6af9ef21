"""The suite's apps with few stages that still contain every kind, for tests that do not need their number."""

from __future__ import annotations

from collections.abc import Mapping

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.apps.registry import get_app

FEW_STAGES: Mapping[str, Mapping[str, int]] = {
    "stencil_chain": {"stages": 3},
    "local_laplacian": {"levels": 3, "pyramid_levels": 3},
    "interpolate": {"levels": 3, "clamp_before_level": 2},
    "pyramid_blend": {"levels": 2},
    **{name: {"T": 1} for name in ("smoother7pt", "smoother27pt", "helmholtz", "denoise")},
}
"""Parameters of the apps that can be made shorter, by name."""


def short_app(name: str) -> BoundPipeline:
    """Return an app of few stages, bound to its small size."""
    app = get_app(name)
    pipeline, params = app.configure(FEW_STAGES.get(name, {}))
    return bind(pipeline, app.shapes(app.small_sizes), params)
