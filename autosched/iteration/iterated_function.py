"""`autosched.iterate`: turns a function that computes one time step into one that computes any number of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, overload

from autosched.builder_function import BuilderFunction, ClassifiedArguments, Given, pipeline_of_returned
from autosched.errors import DSLError, InputError
from autosched.iteration.field_update import TIMES, StepValues, check_times
from autosched.iteration.scheduled_time_loop import ScheduledTimeLoop
from autosched.iteration.step_values import typed_number
from autosched.iteration.time_loop import TimeLoop
from autosched.iteration.time_loop_signature import SEQUENCES
from autosched.kernel_cache import CacheInfo, CompileOptions, Invocation, KernelCache, check_options
from autosched.lang.func import Func, Input, Output
from autosched.lang.pipeline import Pipeline
from autosched.plural import counted
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.target import Target

_KIND = "step function"


class IteratedFunction:
    """A function that computes one time step, called with arrays and a number of steps; made by `iterate`.

    Arguments are those of `JitFunction`. The first arrays are the fields, as many as the function returns; the others
    are constant.

    Args:
        function: Returns the next value of each field: a Func, or a field whose value it takes.
        times: Number of steps of a call that gives none.
        by_step: Values of parameters by the step's number. A parameter has the type of all of its values for ``times``
            steps together: ints and floats are floats.
        options: Options of scheduling and compilation.

    Attributes:
        cache: The compiled kernels.

    Raises:
        InputError: If the function takes ``*args`` or ``**kwargs``, or has no parameter of a name in ``by_step``.
    """

    __name__: str

    def __init__(
        self,
        function: Callable[..., Any],
        times: int,
        by_step: Mapping[str, StepValues | None],
        options: CompileOptions,
    ) -> None:
        functools.update_wrapper(self, function)
        self._times = check_times(times)
        self._by_step = dict(by_step)
        self._builder = BuilderFunction(function, _KIND, self._finish)
        parameters = self._builder.signature.parameters
        if TIMES in parameters:
            raise InputError(
                f"{_KIND} {self._builder.name!r} has a parameter {TIMES!r}: rename it, as the number of steps has this "
                "name"
            )
        for name in self._by_step:
            if name not in parameters:
                raise InputError(f"{_KIND} {self._builder.name!r} has no parameter {name!r}: add it, or leave it out")
        self._loops: dict[Pipeline, TimeLoop] = {}
        self.cache: KernelCache[ScheduledTimeLoop] = KernelCache(options, self._schedule)

    def __call__(self, /, *args: Any, times: int | None = None, **kwargs: Any) -> Any:
        """Compute some steps; the first call for given types, shapes and structure schedules and compiles them.

        Args:
            *args: Arrays and numbers, as the function takes them, without the parameters of ``by_step``.
            times: Number of steps, from 0; that of `iterate` when left out.
            **kwargs: Further arguments. A parameter of ``by_step`` is a function of the step's number, or a sequence.

        Returns:
            The field, in the caller's framework; for several a named tuple. The caller's arrays are unchanged.

        Raises:
            InputError: If an argument is neither array nor number, or does not fit.
            DSLError: If the function builds no pipeline.
            AutoschedError: As `autosched.schedule` and `ScheduledPipeline.compile` do.
        """
        values = self._split_values(kwargs)
        invocation = self._invocation(args, kwargs)
        kernel = self.cache.compiled(invocation)
        steps = {} if times is None else {TIMES: check_times(times)}
        own = {n: v for n, v in invocation.scalars.items() if n not in self._by_step}
        return kernel({**invocation.arrays, **own, **values, **steps})

    def time_loop(self, /, *args: Any, **kwargs: Any) -> TimeLoop:
        """Return the time loop of some arguments."""
        self._split_values(kwargs)
        return self._loops[self._invocation(args, kwargs).pipeline]

    def scheduled(self, /, *args: Any, **kwargs: Any) -> ScheduledTimeLoop:
        """Return the schedules of some arguments, from the cache or from a search."""
        self._split_values(kwargs)
        return self.cache.scheduled(self._invocation(args, kwargs))

    def compiled(self, /, *args: Any, **kwargs: Any) -> CompiledPipeline:
        """Return the compiled time loop of some arguments, from the cache or newly compiled."""
        self._split_values(kwargs)
        return self.cache.compiled(self._invocation(args, kwargs))

    def cache_info(self) -> CacheInfo:
        """Return hits, misses and size of the kernel cache."""
        return self.cache.info()

    def clear(self) -> None:
        """Clear the caches of pipelines and kernels."""
        self._builder.clear()
        self._loops.clear()
        self.cache.clear()

    def __repr__(self) -> str:
        name = f"{self._builder.name}{self._builder.signature}"
        kernels = counted(self.cache_info().currsize, "kernel")
        return f"<IteratedFunction {name}, {counted(self._times, 'step')}: {kernels}>"

    def _split_values(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Remove values by step from keywords and return them."""
        return {name: kwargs.pop(name) for name in self._by_step if name in kwargs}

    def _invocation(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Invocation:
        arguments = self._builder.signature.bind_partial(*args, **kwargs).arguments
        for name in arguments:
            if name in self._by_step:
                raise InputError(f"{name!r} of {self._builder.name!r} has a value for each step: pass it by keyword")
        given = self._builder.classify(**arguments, **self._typed_values)
        loop = self._build(given)
        return Invocation(
            loop.step,
            {i.name: given.arrays[i.name] for i in loop.inputs},
            {i.name: given.forms[i.name].shape for i in loop.inputs},
            {p.name: given.scalars[p.name] for p in loop.step.params},
            given.device,
        )

    @cached_property
    def _typed_values(self) -> dict[str, Any]:
        """A number of the type of each parameter by step, from its values in all steps of a call that gives none."""
        steps = range(max(self._times, 1))
        numbers = {}
        for name, values in self._by_step.items():
            if callable(values):
                all_values: list[Any] = [values(step) for step in steps]
            else:
                all_values = list(values) if isinstance(values, SEQUENCES) else [0.0 if values is None else values]
            what = f"parameter {name!r} of {self._builder.name!r}"
            numbers[name] = typed_number(what, all_values)
        return numbers

    def _build(self, given: ClassifiedArguments) -> TimeLoop:
        loop = self._builder.build(given)
        self._loops.setdefault(loop.step, loop)
        return loop

    def _finish(self, returned: object, given: Given, name: str) -> TimeLoop:
        """Return the time loop of what the function returned."""
        values = list(returned) if isinstance(returned, tuple | list) else [returned]
        inputs = [i for i in given.values() if isinstance(i, Input)]
        passed = [v for v in values if isinstance(v, Input)]
        if values and len(passed) == len(values):
            raise DSLError(
                f"{_KIND} {name!r} returns only its fields ({', '.join(v.name for v in passed)}) and computes nothing",
                hint="return a Func for at least one of them, and the fields that others take the value of",
            )
        pipeline = pipeline_of_returned([v for v in values if not isinstance(v, Input)], _KIND, name)
        arrays = iter(pipeline.output_names)
        sources: list[str] = []
        for value in values:
            if isinstance(value, Input):
                sources.append(value.name)
                continue
            func = value.func if isinstance(value, Output) else value
            assert isinstance(func, Func)
            sources += [next(arrays) for _ in func.dtypes]
        if len(sources) > len(inputs):
            raise DSLError(
                f"{_KIND} {name!r} returns {len(sources)} values and gets {len(inputs)} arrays",
                hint="return the next value of each of the first arrays",
            )
        fields = {i.name: source for i, source in zip(inputs, sources, strict=False)}
        by_step = {n: v for n, v in self._by_step.items() if any(p.name == n for p in pipeline.params)}
        return TimeLoop(pipeline, self._times, fields=fields, by_step=by_step, inputs=inputs)

    def _schedule(self, step: Pipeline, *args: Any, **options: Any) -> ScheduledTimeLoop:
        return self._loops[step].schedule(*args, **options)


@overload
def iterate(
    step: Pipeline,
    /,
    times: int = 1,
    *,
    fields: Mapping[str, str] | None = None,
    by_step: Mapping[str, StepValues | None] | None = None,
) -> TimeLoop: ...


@overload
def iterate(
    step: Callable[..., Any],
    /,
    times: int = 1,
    *,
    by_step: Mapping[str, StepValues | None] | None = None,
    target: str | Target | None = None,
    backend: str | None = None,
    fast_math: bool = False,
    **options: Any,
) -> IteratedFunction: ...


@overload
def iterate(
    *,
    times: int = 1,
    by_step: Mapping[str, StepValues | None] | None = None,
    target: str | Target | None = None,
    backend: str | None = None,
    fast_math: bool = False,
    **options: Any,
) -> Callable[[Callable[..., Any]], IteratedFunction]: ...


def iterate(
    step: Pipeline | Callable[..., Any] | None = None,
    /,
    times: int = 1,
    *,
    fields: Mapping[str, str] | None = None,
    by_step: Mapping[str, StepValues | None] | None = None,
    target: str | Target | None = None,
    backend: str | None = None,
    fast_math: bool = False,
    **options: Any,
) -> TimeLoop | IteratedFunction | Callable[[Callable[..., Any]], IteratedFunction]:
    """Repeat one time step; the result has the bits of as many calls of the step.

    Several steps may be fused in a kernel. Schedules of 1, 2, 3, ... fused steps are searched once, as long as fusion
    pays, and a dynamic program composes them for any number of steps (Rawat et al. 2019, section VI-A).

    Args:
        step: A function that takes fields and further arguments, and returns the next value of each field, or a
            Pipeline. A function may return a field instead of a Func: ``return u_next, u_now``. None returns a
            decorator.
        times: Number of steps of a call that gives none; 0 or more.
        fields: For a Pipeline, as for `TimeLoop`.
        by_step: Parameters with a value for each step: functions of the step's number, from 0. Of a function, a
            parameter has the type of all values for ``times`` steps together: ints and floats are floats.
        target: For a function, the device as for `autosched.schedule`; when left out, the GPU of the arrays, or the
            CPU.
        backend: For a function, as for `ScheduledPipeline.compile`.
        fast_math: For a function, as for `ScheduledPipeline.compile`.
        **options: For a function, further keywords of `autosched.schedule`, and ``most_fused``.

    Returns:
        An `IteratedFunction`, called with arrays; for a Pipeline a `TimeLoop`, to be scheduled.

    Raises:
        InputError: If there is no such option, a number of steps or a name does not fit, or the function takes
            ``*args`` or ``**kwargs``.
        DSLError: If a field and its next value differ in type.

    Example:
        >>> import numpy as np
        >>> import autosched
        >>> @autosched.iterate(times=3, strategy="roots", backend="interpreter")
        ... def doubled(u):
        ...     x, after = autosched.Var("x"), autosched.Func("after")
        ...     after[x] = u[x] * 2
        ...     return after
        >>> doubled(np.ones(2, np.float32))
        array([8., 8.], dtype=float32)
        >>> doubled(np.ones(2, np.float32), times=1)
        array([2., 2.], dtype=float32)
    """
    if isinstance(step, Pipeline):
        if options or target is not None or backend is not None or fast_math:
            raise InputError("a time loop of a Pipeline is scheduled by its method schedule: pass the options there")
        return TimeLoop(step, times, fields=fields, by_step=by_step)
    if fields is not None:
        raise InputError("fields are of a Pipeline; those of a step function are its first arrays: leave them out")
    check_options(options, ("most_fused",))
    made = CompileOptions(target, backend, fast_math, options)
    if step is not None:
        return IteratedFunction(step, times, by_step or {}, made)
    return lambda f: IteratedFunction(f, times, by_step or {}, made)
