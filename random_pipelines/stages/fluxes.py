"""Right-hand sides of equations: several unknowns, each with wide differences of many fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

from autosched.lang.expr import Var
from autosched.random_pipelines import arithmetic as ar
from autosched.random_pipelines.graph import Graph
from autosched.random_pipelines.registry import kind
from autosched.random_pipelines.tensor import Tensor, Value

DIFFERENCES: Mapping[int, tuple[float, ...]] = {
    1: (0.5,),
    2: (2 / 3, -1 / 12),
    3: (0.75, -0.15, 1 / 60),
    4: (0.8, -0.2, 0.038, -0.0035),
}
"""Weights of central differences by their radius in points."""
MOST_FIELDS, MOST_UNKNOWNS = 5, 3
MOST_TERMS = 4
"""Products for each unknown."""
ALIKE = 0.5
"""Probability that a field is a tensor of the same extents rather than a new input."""


@dataclass(frozen=True)
class _Field:
    """A tensor with the origin of its reads.

    Attributes:
        tensor: The tensor.
        first: Index of the point in each dimension, relative to the Var.
    """

    tensor: Tensor
    first: Mapping[str, int]

    def at(self, dim: str = "", by: int = 0) -> Value:
        """Return the value at a neighbour in one dimension."""
        return ar.as_float(self.tensor.at({d: Var(d) + (n + (by if d == dim else 0)) for d, n in self.first.items()}))


@kind("fluxes")
def fluxes(g: Graph) -> Tensor | None:
    """One to three unknowns: sums of products of fields and wide differences along each spatial dimension."""
    reach = g.draw.pick((1, 2, 3, 4))
    unknowns, terms = g.draw.integer(1, MOST_UNKNOWNS), g.draw.integer(1, MOST_TERMS)
    t = g.pick(
        lambda t: (
            len(t.spatial) > 1
            and min(t[d] for d in t.spatial) > 2 * reach + 1
            and t.dtype.kind != "b"
            and g.fits((*t.shape, unknowns), terms=4 * reach * terms)
        )
    )
    if t is None:
        return None
    tensors = [t]  # drawn anew for each, so that few fields are more frequent than many
    while len(tensors) < g.draw.integer(2, MOST_FIELDS):
        tensors.append(_alike(g, tensors))
    inside = g.draw.chance(0.5)
    extents = {d: n - 2 * reach if inside and d in t.spatial else n for d, n in t.extents.items()}
    first = {d: reach if inside else 0 for d in t.spatial}
    fields = [_Field(u if inside else g.readable(u, u.spatial), first) for u in tensors]
    for k in range(unknowns):
        value = reduce(ar.add, [_term(g, fields, t.spatial, reach) for _ in range(terms)])
        unknown = g.add_stage(f"rhs_{k}", extents, value)
    return unknown


def _alike(g: Graph, fields: Sequence[Tensor]) -> Tensor:
    """Return another tensor of the shape of the fields."""
    like = fields[0]

    def is_alike(t: Tensor) -> bool:
        return (t.dims, t.shape) == (like.dims, like.shape) and t.dtype.kind != "b" and t not in fields

    partner = g.pick(is_alike) if g.draw.chance(ALIKE) else None
    if partner is not None:
        return partner
    dtype = like.dtype if like.dtype.is_float else "float32"
    field = g.add_input(dtype, like.dims, like.shape, -1.0, 1.0, name="field")
    g.tensors.append(field)
    return field


def _term(g: Graph, fields: Sequence[_Field], dims: Sequence[str], reach: int) -> Value:
    """Return a field times the difference of another, or the difference of their product."""
    a, b = g.draw.pick(fields), g.draw.pick(fields)
    dim = g.draw.pick(dims)
    product = g.draw.chance(0.5)
    parts = []
    for k, weight in enumerate(DIFFERENCES[reach], 1):
        after, before = b.at(dim, k), b.at(dim, -k)
        if product:
            after, before = ar.multiply(after, a.at(dim, k)), ar.multiply(before, a.at(dim, -k))
        parts.append(ar.times(ar.subtract(after, before), weight * g.draw.pick((1.0, 0.5, -1.0))))
    total = reduce(ar.add, parts)
    return total if product else ar.multiply(a.at(), total)
