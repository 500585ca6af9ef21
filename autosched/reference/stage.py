"""Stages: one definition of a Func with its loops and numbered expressions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autosched.analysis.indices.integer_widths import resolve_integer_widths
from autosched.analysis.indices.to_index import rvar_range
from autosched.analysis.specialise import Specialiser, specialised_params
from autosched.lang.expr import Load, Var
from autosched.lang.func import Definition, Func
from autosched.lang.pipeline import Pipeline
from autosched.reference.buffers import Loop
from autosched.reference.numbering import Numbering
from autosched.reference.program import Bindings, known_integer

Box = tuple[tuple[int, int], ...]
"""Half-open range for each dimension."""


@dataclass(frozen=True)
class ReferenceStage:
    """A definition with bound reduction loops; its pure loops follow from the Func's domain.

    ``indices`` and ``values`` are numbers in ``numbering``; ``name`` is the stage's name in messages.
    """

    name: str
    func: Func
    definition: Definition
    numbering: Numbering
    indices: tuple[int, ...]
    values: tuple[int, ...]
    reduction: tuple[Loop, ...]

    @property
    def never_runs(self) -> bool:
        """Whether a reduction loop is empty."""
        return any(len(r) == 0 for _, r in self.reduction)

    def pure(self, domain: Box) -> list[Loop]:
        """Return the loops over the Vars, outermost first, for a domain of the Func."""
        pairs = zip(self.definition.indices, domain, strict=True)
        return [(index.name, range(*bounds)) for index, bounds in pairs if isinstance(index, Var)]

    def loops(self, domain: Box) -> list[Loop]:
        """Return all loops: reduction loops, then pure loops."""
        return [*self.reduction, *self.pure(domain)]

    def is_own_var(self, axis: int) -> bool:
        """Whether dimension ``axis`` is written at every point of the domain, by a Var."""
        return isinstance(self.definition.indices[axis], Var)

    def loads(self) -> Iterator[tuple[int, Load, tuple[int, ...]]]:
        """Yield each distinct load: its number, the node and the numbers of its indices."""
        for n in self.numbering.reachable(*self.indices, *self.values):
            node = self.numbering.nodes[n]
            if isinstance(node, Load):
                yield n, node, self.numbering.operands[n]

    def self_accesses(self) -> list[tuple[int, ...]]:
        """Return the distinct indices at which the stage accesses its own Func, the written ones first."""
        places = [self.indices, *(at for _, load, at in self.loads() if load.source is self.func)]
        return list(dict.fromkeys(places))


def stages_of(func: Func, pipeline: Pipeline, bindings: Bindings) -> list[ReferenceStage]:
    """Return the pure definition and the updates of a Func, in order."""
    names = [pipeline.name_of(func) + (f" (update {k})" if k else "") for k in range(len(func.definitions))]
    return [_numbered(name, func, d, bindings) for name, d in zip(names, func.definitions, strict=True)]


def _numbered(name: str, func: Func, definition: Definition, bindings: Bindings) -> ReferenceStage:
    numbering = Numbering()
    return ReferenceStage(
        name=name,
        func=func,
        definition=definition,
        numbering=numbering,
        indices=tuple(numbering.number(e) for e in definition.indices),
        values=tuple(numbering.number(e) for e in definition.values),
        reduction=tuple(
            (r.order, range(known_integer(r.lower, bindings), known_integer(r.upper, bindings)))
            for r in definition.rvars
        ),
    )


def specialiser_of(pipeline: Pipeline, bindings: Bindings) -> Specialiser:
    """Return the specialiser for shapes and for the parameters that indices depend on."""
    params = {p.name: bindings.params[p.name].item() for p in specialised_params(pipeline)}
    return Specialiser(bindings.shapes, params)


def with_integer_widths(
    stage: ReferenceStage, domain: Box, specialiser: Specialiser, bindings: Bindings
) -> ReferenceStage:
    """Return a stage whose coordinate integers have the widths that their domains need.

    Widths are types, so they follow from the same rules as in generated code.

    Raises:
        BoundsError: If no width suffices, or a store would truncate a value.
    """
    bound = specialiser.definition(stage.definition)
    ranges = {v.name: (low, high - 1) for v, (low, high) in zip(stage.func.vars, domain, strict=True)}
    ranges |= {r.name: rvar_range(r) for r in bound.rvars}
    definition = resolve_integer_widths(stage.func, bound, ranges)
    return stage if definition is None else _numbered(stage.name, stage.func, definition, bindings)
