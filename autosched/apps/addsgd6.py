"""Dissipation by sixth differences in the absorbing layers of elastic waves."""

from __future__ import annotations

from autosched.apps.supergrid import build_dissipation, dissipation_app
from autosched.lang.pipeline import Pipeline

ORDER = 3


def build() -> Pipeline:
    """Return the pipeline; see `build_dissipation` for inputs and outputs.

    A point takes 342 operations, not the paper's 626, which subtract displacements anew at every read.
    """
    return build_dissipation("addsgd6", ORDER)


APP = dissipation_app("addsgd6", build, ORDER, nominal_flops=626, variant_of="addsgd4")
