"""Boundary conditions of each stage of an app, chosen by its parameter ``boundary``."""

from __future__ import annotations

from typing import NamedTuple

from autosched.errors import InputError
from autosched.lang.boundary import KINDS
from autosched.lang.expr import Expr
from autosched.lang.func import Func, Input

NO_BOUNDARY = "none"
"""The app as in the papers: at most the input has a boundary condition."""


class PaddingMode(NamedTuple):
    """Names of a boundary condition in other libraries.

    Attributes:
        scipy: ``mode`` of filters of ``scipy.ndimage``.
        numpy: ``mode`` of ``numpy.pad``.
    """

    scipy: str
    numpy: str


MODES = {
    "clamped": PaddingMode("nearest", "edge"),
    "mirrored": PaddingMode("reflect", "symmetric"),
    "mirrored_without_edge": PaddingMode("mirror", "reflect"),
    "wrapped": PaddingMode("wrap", "wrap"),
    "constant": PaddingMode("constant", "constant"),
}


def check_boundary(boundary: str) -> None:
    """Raise for a boundary that there is not.

    Raises:
        InputError: With those that there are.
    """
    if boundary != NO_BOUNDARY and boundary not in KINDS:
        raise InputError(f"boundary is {boundary!r}: give {NO_BOUNDARY}, {', '.join(KINDS)}")


def bounded(source: Func | Input, boundary: str, height: Expr, width: Expr) -> Func | Input:
    """Return a source with a boundary condition around ``[height, width]``; the source itself for ``none``.

    Constant boundaries are 0.

    Args:
        source: The source, with dimensions y and x.
        boundary: ``none``, or one of `autosched.lang.boundary.KINDS`.
        height: Points in y.
        width: Points in x.
    """
    box = {"y": (0, height), "x": (0, width)}
    if boundary == NO_BOUNDARY:
        return source
    if boundary == "constant":
        return source.constant(0, **box)
    with_boundary: Func = getattr(source, boundary)(**box)
    return with_boundary
