"""A pipeline that computes fields from themselves, and is applied any number of times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property

from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.analysis.specialise import specialised_params
from autosched.errors import DSLError, InputError
from autosched.iteration.step_unrolling import OutputBox, UnrolledSteps, unroll_steps, whole_box
from autosched.lang.expr import Param, Scalar
from autosched.lang.func import Func, Input, Output
from autosched.lang.pipeline import Pipeline
from autosched.plural import counted

TIMES = "times"
"""Name of the argument with the number of steps."""
MOST_TIMES = 1_000_000
"""Most steps of a call."""
MOST_FUSED_STEPS = 8
"""Most steps of a version; the search usually stops at three or four (Artemis, section VI-A)."""

StepValues = Callable[[int], Scalar] | Sequence[Scalar] | Scalar
"""Values of a parameter by the step's number: a function, one value for each step of a call, or one for all."""


class FieldUpdate:
    """A pipeline that computes fields from themselves, for repeated application.

    Without ``fields``, the k-th output is the next value of the k-th input.

    Args:
        step: One step.
        times: Number of steps of a call that gives none; 0 or more.
        fields: For each field, an input's name: the output with its next value, or another field, whose value it
            takes (time levels: ``{"now": "next", "before": "now"}``).
        by_step: For parameters with a value for each step: a function of the step's number, from 0, or None if every
            call gives its own.

    Raises:
        InputError: If ``times`` is no whole number, a name is unknown, an output is no field's next value, or a
            parameter with a value for each step reaches an index or a domain.
        DSLError: If the types or ranks of a field and its next value differ.
    """

    def __init__(
        self,
        step: Pipeline,
        times: int = 1,
        *,
        fields: Mapping[str, str] | None = None,
        by_step: Mapping[str, StepValues | None] | None = None,
        inputs: Sequence[Input] | None = None,
    ) -> None:
        self.step = step
        self.times = check_times(times)
        known = {i.name: i for i in (*(inputs or ()), *step.inputs)}
        self.fields = self._checked_fields(known, fields)
        constant = (i for i in step.inputs if i.name not in self.fields)
        self.inputs: tuple[Input, ...] = (*(known[name] for name in self.fields), *constant)
        self.by_step = dict(by_step or {})
        self._by_step_params = self._checked_params()
        self.unrolled = cache(self._unrolled)

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self.step.name

    @property
    def output_names(self) -> tuple[str, ...]:
        """Name of each field's array after the last step, in the order of the fields."""
        taken = {i.name for i in self.inputs}
        names = []
        for field, source in self.fields.items():
            name = source if source not in self.fields else f"{field}_next"
            while name in taken:
                name += "_"
            taken.add(name)
            names.append(name)
        return tuple(names)

    def _unrolled(self, steps: int) -> UnrolledSteps:
        """Return the pipeline of some steps."""
        inputs = {i.name: i for i in self.inputs}
        fields = {inputs[name]: source for name, source in self.fields.items()}
        return unroll_steps(self.step, fields, self._by_step_params, steps)

    def bind(
        self, steps: int, shapes: Mapping[str, Sequence[int]], params: Mapping[str, Scalar] | None = None
    ) -> BoundPipeline:
        """Return the pipeline of some steps, bound to shapes.

        Args:
            steps: Number of steps.
            shapes: Shape of every input.
            params: Values of parameters that are built in.

        Raises:
            InputError: As `autosched.schedule`, and if a field and its next value differ in shape.
            BoundsError: As `autosched.schedule`.
        """
        shapes = self.check_shapes(shapes, params)
        pipeline = self.unrolled(steps).pipeline
        return bind(pipeline, {i.name: shapes[i.name] for i in pipeline.inputs}, self._without_steps(params))

    def check_shapes(
        self, shapes: Mapping[str, Sequence[int]], params: Mapping[str, Scalar] | None = None
    ) -> dict[str, tuple[int, ...]]:
        """Return the shapes of all inputs.

        Raises:
            InputError: If one is missing or unknown, or if a field and its next value differ in shape.
            BoundsError: If a point of a field's next value needs points outside of an input.
        """
        for name in shapes:
            if all(name != i.name for i in self.inputs):
                raise InputError(
                    f"{self.name!r} has no input {name!r}; it has {', '.join(i.name for i in self.inputs)}"
                )
        missing = [i.name for i in self.inputs if i.name not in shapes]
        if missing:
            raise InputError(f"iteration {self.name!r} needs the shape of {missing[0]!r}: add it to shapes")
        sizes = {name: tuple(map(int, shape)) for name, shape in shapes.items()}
        step = self._boxed_step
        bound = bind(step, {i.name: sizes[i.name] for i in step.inputs}, self._without_steps(params))
        regions = {name: bound.funcs[func].region for name, func, _ in bound.output_components}
        for field, source in self.fields.items():
            box = tuple((lo, hi + 1) for lo, hi in regions[source]) if source in regions else None
            whole = tuple((0, n) for n in sizes[field])
            if box is not None and box != whole:
                raise InputError(
                    f"field {field!r} has the box {_box(whole)}, its next value {source!r} has {_box(box)}: return it "
                    f"over the whole field, with {source}.over(...), and keep the values of a rim by select"
                )
            if box is None and sizes[source] != sizes[field]:
                raise InputError(
                    f"field {field!r} of shape {sizes[field]} takes the value of {source!r} of shape {sizes[source]}: "
                    "give both one shape"
                )
        return sizes

    @cached_property
    def _boxed_step(self) -> Pipeline:
        """One step, in which outputs without a box have that of a field whose next value they are."""
        inputs = {i.name: i for i in self.inputs}
        fields = {source: inputs[field] for field, source in reversed(self.fields.items())}  # of several, the first
        funcs = (o.func for o in self.step.outputs for _ in o.func.dtypes)
        boxes: dict[Func, OutputBox] = {}
        for name, func in zip(self.step.output_names, funcs, strict=True):
            boxes.setdefault(func, whole_box(fields[name]))
        outputs = [Output(o.func, boxes[o.func] if o.box is None else o.box) for o in self.step.outputs]
        return Pipeline(outputs, self.name)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {', '.join(self.fields)}, {counted(self.times, 'step')}>"

    def _without_steps(self, params: Mapping[str, Scalar] | None) -> dict[str, Scalar]:
        return {name: value for name, value in (params or {}).items() if name not in self.by_step}

    def _checked_fields(self, inputs: Mapping[str, Input], fields: Mapping[str, str] | None) -> dict[str, str]:
        """Return the fields with their next values; refuse what is none."""
        outputs = self.step.output_names
        if fields is None:
            if len(outputs) > len(inputs):
                raise InputError(
                    f"step {self.name!r} has {len(outputs)} outputs and {len(inputs)} inputs: each output is the next "
                    "value of an input"
                )
            fields = dict(zip(inputs, outputs, strict=False))
        if not isinstance(fields, Mapping):
            raise InputError(f"fields is {fields!r}: give a mapping from inputs to outputs, as in {{'u': 'after'}}")
        dtypes = dict(zip(outputs, (d for o in self.step.outputs for d in o.func.dtypes), strict=True))
        ranks = dict(zip(outputs, (o.func.ndim for o in self.step.outputs for _ in o.func.dtypes), strict=True))
        for field, source in fields.items():
            if field not in inputs:
                raise InputError(f"step {self.name!r} has no input {field!r}; it has {', '.join(inputs)}")
            if source not in outputs and source not in fields:
                raise InputError(
                    f"the next value of field {field!r} is {source!r}, which is neither an output nor a field; there "
                    f"is {', '.join((*outputs, *fields))}"
                )
            dtype = dtypes[source] if source in dtypes else inputs[source].dtype
            rank = ranks[source] if source in ranks else inputs[source].ndim
            if (dtype, rank) != (inputs[field].dtype, inputs[field].ndim):
                raise DSLError(
                    f"field {field!r} is {inputs[field].dtype} of rank {inputs[field].ndim}, its next value {source!r} "
                    f"is {dtype} of rank {rank}",
                    hint="make both of one type, with autosched.cast",
                )
        unused = [name for name in outputs if name not in fields.values()]
        if unused:
            raise InputError(f"output {unused[0]!r} of step {self.name!r} is the next value of no field: leave it out")
        if TIMES in inputs or any(p.name == TIMES for p in self.step.params):
            raise InputError(f"step {self.name!r} has an argument {TIMES!r}, which is the number of steps: rename it")
        return dict(fields)

    def _checked_params(self) -> tuple[Param, ...]:
        """Return the parameters with a value for each step."""
        params = {p.name: p for p in self.step.params}
        built_in = {p.name for p in specialised_params(self.step)}
        for name in self.by_step:
            if name not in params:
                raise InputError(
                    f"step {self.name!r} has no parameter {name!r}; it has {', '.join(params) or 'none'}: give values "
                    "by step to a parameter that the step uses"
                )
            if name in built_in:
                raise InputError(
                    f"parameter {name!r} of step {self.name!r} reaches an index or a domain, so it is built into the "
                    "kernels and cannot have a value for each step: give it one value"
                )
        return tuple(params[name] for name in self.by_step)


def check_times(times: object, what: str = TIMES) -> int:
    """Return a number of steps.

    Raises:
        InputError: If it is no whole number from 0 to `MOST_TIMES`.
    """
    whole = not isinstance(times, bool) and hasattr(times, "__index__")
    if not whole or not 0 <= int(times) <= MOST_TIMES:  # type: ignore[call-overload]
        raise InputError(f"{what} is {times!r}: give a whole number of steps from 0 to {MOST_TIMES}")
    return int(times)  # type: ignore[call-overload, no-any-return]


def _box(box: Sequence[tuple[int, int]]) -> str:
    return f"({', '.join(f'{lo}:{hi}' for lo, hi in box)})"
