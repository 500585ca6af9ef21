"""Pyramids: levels of falling resolution, and their reconstruction with skip connections."""

from __future__ import annotations

from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.expressions import expression
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.stages.resampling import enlarged, shrunk
from autosched.random_pipelines.tensor import Tensor, Value

MOST_LEVELS = 5
SMALLEST = 4


@kind("pyramid", elementwise=0.2)
def pyramid(g: Graph) -> Tensor | None:
    """A Gaussian pyramid and its collapse, each level combined with the one of its resolution (skip connections)."""
    t = g.pick(lambda t: len(t.spatial) > 1 and min(t[d] for d in t.spatial[-2:]) >= 4 * SMALLEST)
    if t is None or not g.fits(t.shape, terms=8):
        return None
    dims = list(t.spatial[-2:])
    filtered = g.draw.chance(0.6)
    levels = [t]
    for _ in range(g.draw.integer(2, MOST_LEVELS)):
        if min(levels[-1][d] for d in dims) < 2 * SMALLEST:
            break
        levels.append(shrunk(g, levels[-1], dims, 2, filtered=filtered, visible=False))
    is_laplacian = g.draw.chance(0.5)
    result = levels[-1]
    for k in reversed(range(len(levels) - 1)):
        fine = levels[k]
        extents = {d: fine[d] for d in dims}
        coarse = enlarged(g, result, extents, 2, visible=False)
        if is_laplacian:  # the detail that the coarser level lacks, scaled
            lost = ar.subtract(ar.as_float(fine.at()), enlarged(g, levels[k + 1], extents, 2, visible=False).at())
            value = ar.add(coarse.at(), ar.times(lost, g.draw.integer(4, 24) / 16))
        else:
            value = _joined(g, fine, coarse)
        result = g.add_stage("level", fine.extents, value, visible=k == 0)
    return result


def _joined(g: Graph, fine: Tensor, coarse: Tensor) -> Value:
    return ar.rescaled_if_large(
        expression(g.draw, [fine.at(), coarse.at()], operations=g.draw.integer(0, 2), functions=0.1)
    )
