"""`@autosched.jit`: turns a function that builds a pipeline into one that computes it on arrays."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from autosched.builder_function import BuilderFunction, Given, pipeline_of_returned
from autosched.kernel_cache import CacheInfo, CompileOptions, Invocation, KernelCache, check_options, schedule_pipeline
from autosched.lang.pipeline import Pipeline
from autosched.plural import counted
from autosched.runtime.call.compiled import CompiledPipeline
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import Target


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
        self._builder = BuilderFunction(function, "jit function", _finish)
        self.cache: KernelCache[ScheduledPipeline] = KernelCache(options, schedule_pipeline)

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
        self._builder.clear()
        self.cache.clear()

    def invocation(self, /, *args: Any, **kwargs: Any) -> Invocation:
        """Return the pipeline of some arguments, with the arguments that it uses.

        Raises:
            TypeError: If the arguments do not fit the function's parameters, as for any function.
            InputError: If one is neither array nor number, or arrays are on several devices.
            DSLError: If the function builds no pipeline.
        """
        given = self._builder.classify(*args, **kwargs)
        pipeline = self._builder.build(given)
        input_names = [i.name for i in pipeline.inputs]
        return Invocation(
            pipeline,
            {name: given.arrays[name] for name in input_names},
            {name: given.forms[name].shape for name in input_names},
            {p.name: given.scalars[p.name] for p in pipeline.params},
            given.device,
        )

    def __repr__(self) -> str:
        kernels = counted(self.cache_info().currsize, "kernel")
        return f"<JitFunction {self._builder.name}{self._builder.signature}: {kernels}>"


def _finish(returned: object, given: Given, name: str) -> Pipeline:
    return pipeline_of_returned(returned, "jit function", name)


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
        **options: Further keywords of `autosched.schedule`, such as ``guide``, ``strategy`` and ``seconds``.

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
