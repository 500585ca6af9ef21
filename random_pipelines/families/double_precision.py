"""Any other family, computed in double precision."""

from __future__ import annotations

from autosched.random_pipelines.family import FAMILIES, family
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.tensor import Tensor

DOUBLE = "double_precision"


@family(DOUBLE)
def double_precision(g: Graph) -> Tensor | None:
    """Another family whose real numbers are float64."""
    g.real = "float64"
    others = [name for name in sorted(FAMILIES) if name != DOUBLE]
    return FAMILIES[g.draw.pick(others)].build(g)
