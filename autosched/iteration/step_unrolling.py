"""A pipeline of several time steps, each of which reads the fields that the step before it computed.

next[x] = u[x - 1] + u[x + 1]    ->    next_0[x] = u[x - 1] + u[x + 1]
                                       next[x]   = next_0[x - 1] + next_0[x + 1]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from autosched.lang.dtypes import int32
from autosched.lang.expr import Const, Expr, Load, Param, ShapeDim, children, postorder, rebuild, walk
from autosched.lang.func import Definition, Func, Input, Output, source_of
from autosched.lang.pipeline import Pipeline, producers_of

Value = tuple[Func | Input, int]
"""A field between two steps: a Func or Input, and the number of its component."""
OutputBox = tuple[tuple[Expr, Expr], ...]
"""Half-open box of an output, (low, high) per dimension."""


@dataclass(frozen=True)
class UnrolledSteps:
    """A pipeline of several steps.

    Attributes:
        steps: Number of steps.
        pipeline: The pipeline.
        next: For each field by name: the output array with its value after the steps, or the field it is a copy of.
        by_step: Parameters with a value for each step: name in the pipeline, name in the step, number of the step.
    """

    steps: int
    pipeline: Pipeline
    next: Mapping[str, str]
    by_step: tuple[tuple[str, str, int], ...]

    @property
    def passed(self) -> frozenset[str]:
        """Fields whose new value is the value of another field, or their own."""
        outputs = set(self.pipeline.output_names)
        return frozenset(field for field, source in self.next.items() if source not in outputs)


def unroll_steps(
    step: Pipeline, fields: Mapping[Input, str], by_step: Iterable[Param], steps: int
) -> UnrolledSteps:  # fmt: skip
    """Return the pipeline of some steps.

    Funcs that depend neither on fields nor on parameters with a value for each step are computed once.

    Args:
        step: One step.
        fields: For each field: the output array with its next value, or the name of the field it is a copy of.
        by_step: Parameters that get a copy for each step.
        steps: Number of steps, at least 1.
    """
    names = {i.name: i for i in fields}
    arrays = _arrays(step)
    current: dict[Input, Value] = {field: (field, 0) for field in fields}
    params = _Params(step, by_step, steps)
    for number in range(steps):
        copied = _StepCopy(step, current, params.of(number), None if number == steps - 1 else number)
        before = current
        current = {}
        for field, source in fields.items():
            if source in arrays:
                func, component = arrays[source]
                current[field] = copied.func(func), component
            else:
                current[field] = before[names[source]]
    outputs: dict[Func, Output] = {}
    for field, (value, _) in current.items():
        if isinstance(value, Func):
            outputs.setdefault(value, Output(value, whole_box(field)))
    pipeline = Pipeline(list(outputs.values()), f"{step.name}_{steps}")
    returned = {value: name for name, value in _arrays(pipeline).items()}
    after = {f.name: v.name if isinstance(v, Input) else returned[v, k] for f, (v, k) in current.items()}
    read = {p.name for p in pipeline.params}
    used = tuple((p.name, name, number) for p, name, number in params.made if p.name in read)
    return UnrolledSteps(steps, pipeline, after, used)


def whole_box(field: Input) -> OutputBox:
    """Return the box of a field."""
    return tuple((Const(0, int32, weak=True), ShapeDim(field, axis)) for axis in range(field.ndim))


def _arrays(pipeline: Pipeline) -> dict[str, tuple[Func, int]]:
    """Return Func and component of every output array by name."""
    values = [(o.func, k) for o in pipeline.outputs for k in range(len(o.func.dtypes))]
    return dict(zip(pipeline.output_names, values, strict=True))


class _Params:
    """The parameters with a value for each step.

    Args:
        step: One step.
        by_step: Its parameters that get a copy for each step.
        steps: Number of steps; a single one keeps its parameters.
    """

    def __init__(self, step: Pipeline, by_step: Iterable[Param], steps: int) -> None:
        taken = {i.name for i in step.inputs} | {p.name for p in step.params}
        self.made: list[tuple[Param, str, int]] = []
        self._of: list[dict[int, Expr]] = [{} for _ in range(steps)]
        for param in by_step:
            for number in range(steps):
                name = param.name if steps == 1 else _fresh(f"{param.name}_{number}", taken)
                taken.add(name)
                copy = param if steps == 1 else Param(name, param.dtype)
                self._of[number][id(param)] = copy
                self.made.append((copy, param.name, number))

    def of(self, number: int) -> Mapping[int, Expr]:
        """Return the parameters of a step by the identity of the original one."""
        return self._of[number]


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


class _StepCopy:
    """The Funcs of one step, with its own fields and parameters.

    Args:
        step: The step.
        fields: Value of each field before it.
        params: Parameters by the identity of the original one.
        number: Suffix of the names of copied Funcs; None for none.
    """

    def __init__(
        self, step: Pipeline, fields: Mapping[Input, Value], params: Mapping[int, Expr], number: int | None
    ) -> None:
        self._sources: dict[Func | Input, Value] = {f: value for f, value in fields.items() if value != (f, 0)}
        self._params = {key: param for key, param in params.items() if id(param) != key}
        self._suffix = "" if number is None else f"_{number}"
        outputs = {o.func for o in step.outputs}
        for func in step.funcs:
            # outputs are always copied: each step of a step that ignores its fields has its own
            if func in outputs or self._reads_replaced(func):
                self._sources[func] = self._copy(func), 0

    def func(self, func: Func) -> Func:
        """Return the copy of a Func, or itself if nothing in it is replaced."""
        source = self._sources.get(func, (func, 0))[0]
        assert isinstance(source, Func)
        return source

    def _reads_replaced(self, func: Func) -> bool:
        if any(p in self._sources for p in producers_of(func)):
            return True
        roots = [e for d in func.definitions for e in (*d.values, *d.indices)]
        return bool(self._params) and any(id(n) in self._params for n in walk(*roots))

    def _copy(self, func: Func) -> Func:
        new = Func(f"{func.name}{self._suffix}")
        new.location = func.location
        new._dtypes = func.dtypes
        new.atomic = func.atomic
        new.boundary, new.boundary_ranges = func.boundary, func.boundary_ranges
        self._sources[func] = new, 0
        new._definitions.extend(self._definition(d) for d in func.definitions)
        return new

    def _definition(self, d: Definition) -> Definition:
        done: dict[int, Expr] = dict(self._params)
        indices = tuple(self._expression(e, done) for e in d.indices)
        return Definition(indices, tuple(self._expression(e, done) for e in d.values), d.rvars, d.location)

    def _expression(self, e: Expr, done: dict[int, Expr]) -> Expr:
        for node in postorder([e], done):
            new = [done[id(c)] for c in children(node)]
            if isinstance(node, Load) and source_of(node) in self._sources:
                source, first = self._sources[source_of(node)]
                done[id(node)] = Load(source, tuple(new), node.dtype, first + node.component)
            else:
                done[id(node)] = rebuild(node, new)
        return done[id(e)]
