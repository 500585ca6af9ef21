"""A pipeline: the Funcs reachable from its outputs, with unique names and a structural hash."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.errors import DSLError
from autosched.lang.expr import Expr, Load, Param, RVar, ShapeDim, check_name, walk
from autosched.lang.func import Definition, Func, Input, Output, source_of
from autosched.lang.pipeline_hash import pipeline_hash
from autosched.lang.source_location import caller_location


class Pipeline:
    """Outputs, and all Funcs and Inputs that they depend on.

    Args:
        outputs: Funcs, or ``f.over(...)`` to fix the returned box.
        name: Name in reports; no part of the hash.

    Raises:
        DSLError: For an undefined Func, a cyclic definition, or two inputs or params of one name.
    """

    def __init__(self, outputs: Sequence[Func | Output] | Func | Output, name: str = "pipeline") -> None:
        check_name(name, "Pipeline")
        self.name = name
        items = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
        self.outputs: tuple[Output, ...] = tuple(o if isinstance(o, Output) else Output(_func(o)) for o in items)
        if not self.outputs:
            raise DSLError("a pipeline needs at least one output", location=caller_location())
        if len({o.func for o in self.outputs}) < len(self.outputs):
            raise DSLError(f"pipeline {name!r} lists an output twice", location=caller_location())
        self.funcs: tuple[Func, ...] = _topological([o.func for o in self.outputs])
        leaves = [n for e in self._expressions() for n in walk(e)]
        sources = {leaf.source: None for leaf in leaves if isinstance(leaf, Load)}
        sources |= {leaf.input: None for leaf in leaves if isinstance(leaf, ShapeDim)}
        self.inputs: tuple[Input, ...] = tuple(s for s in sources if isinstance(s, Input))
        self.params: tuple[Param, ...] = tuple({leaf: None for leaf in leaves if isinstance(leaf, Param)})
        self._names = self._unique_names()
        self.hash = pipeline_hash(self)

    def _expressions(self) -> Iterator[Expr]:
        for f in self.funcs:
            for d in f.definitions:
                yield from d.indices
                yield from d.values
                for r in d.rvars:
                    yield from (r.lower, r.upper)
        for o in self.outputs:
            for bounds in o.box or ():
                yield from bounds

    def _unique_names(self) -> dict[Func, str]:
        taken: set[str] = set()
        for name in [i.name for i in self.inputs] + [p.name for p in self.params]:
            if name in taken:
                raise DSLError(
                    f"two inputs or params of pipeline {self.name!r} are named {name!r}",
                    location=caller_location(),
                    hint="make each of them once and use the same object everywhere",
                )
            taken.add(name)
        outputs = {o.func for o in self.outputs}
        names: dict[Func, str] = {}
        for f in sorted(self.funcs, key=lambda f: f not in outputs):  # outputs keep their names; the sort is stable
            unique, k = f.name, 0
            while not taken.isdisjoint(labels := _returned_names(unique, f, f in outputs)):
                k += 1
                unique = f"{f.name}_{k}"
            taken.update(labels)
            names[f] = unique
        return names

    def name_of(self, func: Func) -> str:
        """Return the Func's name, unique within this pipeline."""
        return self._names[func]

    def func(self, name: str) -> Func:
        """Return the Func of that unique name.

        Raises:
            KeyError: If there is none.
        """
        return {n: f for f, n in self._names.items()}[name]

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the returned arrays, in order; a tuple-valued output gives ``name_0``, ``name_1``..."""
        names: list[str] = []
        for o in self.outputs:
            returned = _returned_names(self.name_of(o.func), o.func, True)
            names += returned[1:] or returned
        return tuple(names)

    def __repr__(self) -> str:
        return f"Pipeline({self.name!r}, {len(self.funcs)} Funcs, outputs {', '.join(self.output_names)})"


def _returned_names(name: str, func: Func, is_output: bool) -> list[str]:
    """Return a Func's name, followed by those of its components if each is returned as an array."""
    return [name, *(f"{name}_{k}" for k in range(len(func.dtypes)) if is_output and func.is_tuple)]


def _func(output: object) -> Func:
    if not isinstance(output, Func):
        raise DSLError(
            f"an output must be a Func, not {type(output).__name__}",
            location=caller_location(),
            hint="pass the Func itself, or f.over(...) for a box; copy an Input into a Func first",
        )
    return output


def producers_of(func: Func) -> tuple[Func | Input, ...]:
    """Return the sources of a Func's stages, except itself, in order of appearance."""
    return tuple({s: None for d in func.definitions for s in _read_by(d) if s is not func})


def _read_by(d: Definition) -> Iterator[Func | Input]:
    for root in (*d.values, *d.indices):
        for node in walk(root):
            if isinstance(node, Load):
                yield source_of(node)


def rvars_of(func: Func) -> tuple[RVar, ...]:
    """Return all reduction variables of a Func's updates."""
    return tuple({r: None for d in func.definitions for r in d.rvars})


def _topological(outputs: Sequence[Func]) -> tuple[Func, ...]:
    """Return all reachable Funcs, producers first, in an order that depends on structure alone."""
    producers: dict[Func, list[Func]] = {}
    order: list[Func] = []
    stack: list[tuple[Func, bool]] = [(f, False) for f in reversed(outputs)]
    while stack:
        f, done = stack.pop()
        if done:
            order.append(f)
            continue
        if f in producers:
            continue
        if not f.is_defined:
            raise DSLError(f"Func {f.name!r} is undefined", location=f.location, hint=f"write {f.name}[...] = ...")
        stack.append((f, True))
        producers[f] = [p for p in producers_of(f) if isinstance(p, Func)]
        stack += [(p, False) for p in reversed(producers[f])]
    position = {f: i for i, f in enumerate(order)}
    if any(position[p] > position[f] for f in order for p in producers[f]):
        import networkx as nx  # only this error needs it, and its import is slow

        graph: nx.DiGraph[Func] = nx.DiGraph()
        for f, read in producers.items():
            graph.add_node(f)
            graph.add_edges_from((p, f) for p in read)
        cycle = [edge[:2] for edge in nx.find_cycle(graph)]
        closing = max(cycle, key=lambda edge: len(edge[1].definitions))  # the one with an update
        raise DSLError(
            f"cyclic definition: {', '.join(f'{f.name} reads {p.name}' for p, f in cycle)}",
            location=next(d.location for d in reversed(closing[1].definitions) if closing[0] in _read_by(d)),
            hint="an update may read its own Func, but not a Func that reads it",
        )
    return tuple(order)
