"""`@autosched.jit`: turns a function that builds a pipeline into one that computes it on arrays."""

from __future__ import annotations

import enum
import functools
import inspect
import threading
from collections.abc import Callable, Hashable, Mapping
from typing import Any, overload

import numpy as np

from autosched.errors import DSLError, InputError
from autosched.kernel_cache import CacheInfo, CompileOptions, Invocation, KernelCache, check_options
from autosched.lang.dtypes import DType, as_dtype, bool_, float32, int32, int64
from autosched.lang.expr import Expr, Param, Scalar
from autosched.lang.func import Func, Input, Output
from autosched.lang.pipeline import Pipeline
from autosched.runtime.call.array_signature import ArraySignature, common_device, signature_of
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.runtime.call.frameworks import device_of
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import Target

_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class JitFunction:
    """A function that builds a pipeline, called with arrays; made by `jit`.

    Positional parameters are those of the pipeline: the function gets an `Input` for an array and a `Param` for a
    number. Keyword-only parameters are structure: the function gets their values, and each value has its own pipeline.

    Args:
        function: Returns a Func, ``f.over(...)``, or a tuple of them.
        options: Options of scheduling and compilation.

    Attributes:
        cache: The compiled kernels.

    Raises:
        InputError: If the function takes ``*args`` or ``**kwargs``.
    """

    __name__: str

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._signature = inspect.signature(function)
        self._name = getattr(function, "__name__", type(function).__name__)
        for p in self._signature.parameters.values():
            if p.kind not in (*_POSITIONAL, inspect.Parameter.KEYWORD_ONLY):
                raise InputError(
                    f"jit function {self._name!r} takes {p}: give each array, number and option a parameter of its own"
                )
        self.cache = KernelCache(options)
        self._pipelines: dict[Hashable, Pipeline] = {}
        self._lock = threading.RLock()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compute the pipeline; the first call for given types, shapes and structure schedules and compiles it.

        Returns:
            The output, in the caller's framework; for several a named tuple.

        Raises:
            InputError: If an argument is neither array nor number, or does not fit.
            DSLError: If the function builds no pipeline.
            AutoschedError: As `autosched.schedule` and `ScheduledPipeline.compile` do.
        """
        invocation = self.invocation(*args, **kwargs)
        return invocation.call(self.cache.compiled(invocation))

    def pipeline(self, /, *args: Any, **kwargs: Any) -> Pipeline:
        """Return the pipeline of some arguments."""
        return self.invocation(*args, **kwargs).pipeline

    def scheduled(self, /, *args: Any, **kwargs: Any) -> ScheduledPipeline:
        """Return the scheduled pipeline of some arguments, from the cache or from a search."""
        return self.cache.scheduled(self.invocation(*args, **kwargs))

    def compiled(self, /, *args: Any, **kwargs: Any) -> CompiledPipeline:
        """Return the compiled pipeline of some arguments, from the cache or newly compiled."""
        return self.cache.compiled(self.invocation(*args, **kwargs))

    def cache_info(self) -> CacheInfo:
        """Return hits, misses and size of the kernel cache."""
        return self.cache.info()

    def clear(self) -> None:
        """Clear the caches of pipelines and kernels."""
        with self._lock:
            self._pipelines.clear()
        self.cache.clear()

    def invocation(self, /, *args: Any, **kwargs: Any) -> Invocation:
        """Return the pipeline of some arguments, with the arguments that it uses.

        Raises:
            TypeError: If the arguments do not fit the function's parameters, as for any function.
            InputError: If one is neither array nor number, or arrays are on several devices.
            DSLError: If the function builds no pipeline.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arrays: dict[str, Any] = {}
        forms: dict[str, ArraySignature] = {}
        scalars: dict[str, Scalar] = {}
        structure: dict[str, Any] = {}
        for name, value in bound.arguments.items():
            if self._signature.parameters[name].kind is inspect.Parameter.KEYWORD_ONLY:
                structure[name] = value
            elif isinstance(value, _NUMBERS):
                scalars[name] = value  # type: ignore[assignment]  # NumPy's numbers too
            else:
                arrays[name], forms[name] = value, self._form(name, value)
        device = common_device(forms)
        pipeline = self._pipeline(forms, scalars, structure)
        input_names = [i.name for i in pipeline.inputs]
        return Invocation(
            pipeline,
            {name: arrays[name] for name in input_names},
            {name: forms[name].shape for name in input_names},
            {p.name: scalars[p.name] for p in pipeline.params},
            device,
        )

    def __repr__(self) -> str:
        return f"<JitFunction {self._name}{self._signature}: {self.cache_info().currsize} kernels>"

    def _form(self, name: str, value: Any) -> ArraySignature:
        form = signature_of(value, name)
        if form is not None:
            return form
        if isinstance(value, Func | Input | Output | Expr):
            hint = f"to build a part of a larger pipeline, call {self._name}.__wrapped__"
        else:
            hint = "pass an array or a number; values that shape the pipeline go to keyword-only parameters"
        raise InputError(
            f"argument {name!r} of {self._name!r}: a value of type {type(value).__qualname__} is neither array nor "
            f"number; {hint}"
        )

    def _pipeline(
        self, forms: Mapping[str, ArraySignature], scalars: Mapping[str, Scalar], structure: Mapping[str, Any]
    ) -> Pipeline:
        inputs = {name: (form.dtype, len(form.shape)) for name, form in forms.items()}
        floats = [form.dtype for form in forms.values() if form.dtype.is_float]
        params = {name: _param_dtype(value, floats) for name, value in scalars.items()}
        frozen = tuple(self._frozen(name, value) for name, value in structure.items())
        key = (tuple(inputs.items()), tuple(params.items()), frozen)
        with self._lock:
            pipeline = self._pipelines.get(key)
            if pipeline is None:
                pipeline = self._pipelines[key] = self._build(inputs, params, structure)
            return pipeline

    def _build(
        self, inputs: Mapping[str, tuple[DType, int]], params: Mapping[str, DType], structure: Mapping[str, Any]
    ) -> Pipeline:
        """Call the function and check its result."""
        given: dict[str, Input | Param] = {name: Input(name, *form) for name, form in inputs.items()}
        given |= {name: Param(name, dtype) for name, dtype in params.items()}
        order = [name for name in self._signature.parameters if name in given]
        begin = Func("begin").number
        returned = self._function(*(given[name] for name in order), **structure)
        outputs = list(returned) if isinstance(returned, tuple | list) else [returned]
        for output in outputs:
            if not isinstance(output, Func | Output):
                raise DSLError(
                    f"jit function {self._name!r} returns a value of type {type(output).__qualname__}",
                    hint="return the output Func, f.over(...) for a box of it, or a tuple of such",
                )
        pipeline = Pipeline(outputs, name=self._name if self._name.isidentifier() else "pipeline")
        self._check_origin(pipeline, begin, given)
        return pipeline

    def _check_origin(self, pipeline: Pipeline, begin: int, given: Mapping[str, Input | Param]) -> None:
        """Refuse Funcs, inputs and parameters from outside: each call of the function would redefine them."""
        own_ids = {id(value) for value in given.values()}
        for func in pipeline.funcs:
            if func.number < begin:
                raise DSLError(
                    f"Func {func.name!r} was made outside the jit function {self._name!r} that uses it",
                    location=func.location,
                    hint="make every Func inside, or in a function that is called from inside",
                )
        leaves: tuple[Input | Param, ...] = (*pipeline.inputs, *pipeline.params)
        for leaf in leaves:
            if id(leaf) not in own_ids:
                kind = type(leaf).__name__
                raise DSLError(
                    f"{kind} {leaf.name!r} is no parameter of the jit function {self._name!r} that uses it",
                    hint=f"give the function a positional parameter {leaf.name}; it gets an Input or a Param for it",
                )

    def _frozen(self, name: str, value: Any) -> Hashable:
        """Return a hashable key of a keyword-only argument that distinguishes 1, 1.0 and True."""
        match value:
            case None | str() | bytes() | enum.Enum():
                return type(value), value
            case bool() | int() | float() | np.generic():
                return type(value), repr(value)  # distinguishes -0.0 from 0.0, and NaN equals itself
            case tuple():
                return type(value), tuple(self._frozen(name, item) for item in value)
            case frozenset():
                return type(value), frozenset(self._frozen(name, item) for item in value)
        shaping = f"keyword-only argument {name!r} of {self._name!r} shapes the pipeline"
        if isinstance(value, Func | Input | Output | Expr) or device_of(value) is not None:
            raise InputError(f"{shaping}, so it cannot be of type {type(value).__qualname__}: pass it by position")
        try:
            hash(value)
        except TypeError:
            raise InputError(
                f"{shaping}, so it must be hashable, and a {type(value).__qualname__} is not: pass a tuple"
            ) from None
        return type(value), value


@overload
def jit(function: Callable[..., Any], /) -> JitFunction: ...


@overload
def jit(
    *, target: str | Target | None = None, backend: str | None = None, fast_math: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], JitFunction]: ...


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    target: str | Target | None = None,
    backend: str | None = None,
    fast_math: bool = False,
    **options: Any,
) -> JitFunction | Callable[[Callable[..., Any]], JitFunction]:
    """Turn a function that builds a pipeline into one that computes it.

    The first call for given element types, shapes and structure schedules and compiles the pipeline; later calls use
    the kernel cache. A Python float becomes a parameter of the widest floating-point type among the arrays, float32 if
    there is none. An int becomes int32, or int64 for large values; a NumPy scalar keeps its type.

    Args:
        function: The function, for ``@autosched.jit`` without options.
        target: The device, as for `autosched.schedule`; when left out, the GPU of the arrays, or the CPU.
        backend: The backend, as for `ScheduledPipeline.compile`.
        fast_math: As for `ScheduledPipeline.compile`.
        **options: Further keywords of `autosched.schedule`, such as ``strategy``, ``seed`` and ``seconds``.

    Raises:
        InputError: If there is no such option, or the function takes ``*args`` or ``**kwargs``.

    Example:
        >>> import numpy as np
        >>> import autosched
        >>> @autosched.jit(strategy="roots", backend="interpreter")
        ... def scaled(image, gain, *, offset=0):
        ...     y, x = autosched.Var("y"), autosched.Var("x")
        ...     f = autosched.Func("f")
        ...     f[y, x] = image[y, x] * gain + offset
        ...     return f
        >>> scaled(np.ones((1, 2), np.float32), 3.0, offset=1)
        array([[4., 4.]], dtype=float32)
    """
    check_options(options)
    made = CompileOptions(target, backend, fast_math, options)
    if function is not None:
        return JitFunction(function, made)
    return lambda f: JitFunction(f, made)


def _param_dtype(value: Any, floats: list[DType]) -> DType:
    """Return the type of the parameter of a number."""
    match value:
        case np.generic():
            return as_dtype(value.dtype)
        case bool():
            return bool_
        case int():
            return int32 if int32.min_value <= value <= int32.max_value else int64
    return max(floats, key=lambda dtype: dtype.bits, default=float32)
