"""Dissipation by fourth differences in the absorbing layers of elastic waves."""

from __future__ import annotations

from autosched.apps.supergrid import build_dissipation, dissipation_app
from autosched.lang.pipeline import Pipeline

ORDER = 2


def build() -> Pipeline:
    """Return the pipeline; see `build_dissipation` for inputs and outputs.

    A point takes 207 operations, not the paper's 373, which subtract displacements anew at every read.
    """
    return build_dissipation("addsgd4", ORDER)


APP = dissipation_app("addsgd4", build, ORDER, nominal_flops=373)
