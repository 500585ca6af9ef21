"""Whether all dependence vectors of a group are constant after alignment and scaling (sections 2.3 and 5).

up[x] = half[x // 2]; half[x] = fine[2 * x]      half has scale 1/2 of up, fine has scale 1: constant
t[y, x] = a[x, y] + a[y, x]                      the dimensions of a follow different ones of t: not constant
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from autosched.featurize.accesses.accesses import AccessGroup
from autosched.featurize.featurizer import SketchFeaturizer

_Axis = tuple[str, Fraction]
"""A dimension of the root and the points of a Func's dimension for each of its points."""


def has_constant_dependence_vectors(model: SketchFeaturizer) -> bool:
    """Whether each dimension of each Func of a kernel follows one dimension of the root, with one scale everywhere.

    Reads at constant indices, and reductions over constant ranges, are offsets. Indices that depend on data are not
    constant.

    Args:
        model: The kernel, with its members.
    """
    sketch, bound = model.sketch, model.bound
    inside = {p.func for p in sketch.locations}
    axes: dict[str, tuple[_Axis | None, ...]] = {
        sketch.func: tuple((d, Fraction(1)) for d in bound.funcs[sketch.func].dims)
    }
    for stage in sorted(model.rows, key=lambda s: -bound.position[s.func]):  # consumers first
        if stage.func not in axes:
            return False
        own = dict(zip(bound.funcs[stage.func].dims, axes[stage.func], strict=True))
        for group in model.accesses_of(stage).loads:
            if group.source not in inside or group.source == stage.func:
                continue
            found = _axes(group, own)
            if found is None:
                return False
            aligned = axes.setdefault(group.source, found)
            if aligned != found:
                return False
    return True


def _axes(group: AccessGroup, own: Mapping[str, _Axis | None]) -> tuple[_Axis | None, ...] | None:
    """Return the axis that each index of an access follows, None for constants; None if one follows several."""
    axes: list[_Axis | None] = []
    for row in group.rows:
        moving = [] if row is None else [(name, c) for name, c in row.coefficients if name in own and c]
        if row is None or len(moving) > 1:
            return None
        axis = own[moving[0][0]] if moving else None
        axes.append(None if axis is None else (axis[0], axis[1] * Fraction(moving[0][1], row.quotient)))
    return tuple(axes)
