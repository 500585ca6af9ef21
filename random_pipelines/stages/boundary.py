"""Padding as a separate stage."""

from __future__ import annotations

from autosched.random_pipelines.graph import BOUNDARIES, Graph, shifted_coordinate
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor

MARGINS = (1, 1, 2, 3, 8, 16)


@kind("pad", conv2d=0.2, conv_channels=0.2, pool=0.1)
def pad(g: Graph) -> Tensor | None:
    """A tensor with a margin in some dimensions, filled by one of the boundary conditions."""
    t = g.pick(lambda t: bool(t.spatial) and g.fits(t.shape))
    if t is None:
        return None
    dims = [d for d in t.spatial if g.draw.chance(0.8)] or [t.spatial[-1]]
    margin = min(g.draw.pick(MARGINS), *(t[d] for d in dims))
    shape = {d: n + 2 * margin if d in dims else n for d, n in t.extents.items()}
    if not g.fits(shape.values()):
        return None
    source = g.bounded(t, g.draw.pick(BOUNDARIES), dims)
    at = {k: v for d in dims for k, v in shifted_coordinate(d, -margin).items()}
    return g.add_stage("padded", shape, source.at(at))
