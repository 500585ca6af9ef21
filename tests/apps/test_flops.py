"""Operation counts of the 3-D stencils equal Table I of the Artemis paper, or the figures in their docstrings."""

from __future__ import annotations

import pytest

from autosched.analysis.expressions.flops import flops_per_point
from autosched.apps import App, get_app, load_apps

TABLE_1 = {
    "smoother7pt": 10, "smoother27pt": 32, "helmholtz": 17, "denoise": 61, "miniflux": 135, "hypterm": 358,
    "diffterm": 415, "addsgd4": 373, "addsgd6": 626, "rhs4center": 666, "rhs4sgcurv": 2126,
}  # fmt: skip

OWN = {"smoother7pt": 10, "smoother27pt": 32, "helmholtz": 17, "denoise": 57, "miniflux": 195, "hypterm": 334,
       "diffterm": 403, "addsgd4": 207, "addsgd6": 342, "rhs4center": 438, "rhs4sgcurv": 785}  # fmt: skip

STENCILS = [app for app in load_apps().values() if "Artemis" in app.papers]


@pytest.mark.parametrize("app", STENCILS, ids=[app.name for app in STENCILS])
def test_count(app: App) -> None:
    assert app.nominal_flops == TABLE_1[app.name]
    pipeline = app.build(**({"T": 1} if "T" in app.structure else {}))
    count = sum(flops_per_point(pipeline).values())
    assert count == OWN[app.name]
    if count != app.nominal_flops:
        text = " ".join((app.build.__doc__ or "").split())
        assert f"{count} operations" in text
        assert f"{app.nominal_flops}" in text, "the docstring says why it is not the paper's count"


@pytest.mark.parametrize("name", ["smoother7pt", "smoother27pt", "helmholtz", "denoise"])
def test_every_step_costs_the_same(name: str) -> None:
    once, thrice = (sum(flops_per_point(get_app(name).build(T=steps)).values()) for steps in (1, 3))
    assert thrice == 3 * once
