"""Sources of PyTorch operators: a pipeline, or a function that builds one."""

from __future__ import annotations

import inspect
import keyword
import math
from collections.abc import Mapping
from typing import Any, Protocol

from autosched.errors import InputError
from autosched.jit_function import JitFunction
from autosched.kernel_cache import CompileOptions, Invocation, KernelCache, schedule_pipeline
from autosched.lang.dtypes import DType
from autosched.lang.expr import Param
from autosched.lang.pipeline import Pipeline
from autosched.runtime.call.array_signature import ArraySignature, common_device, signature_of
from autosched.scheduled_pipeline import ScheduledPipeline

_EMPTY = inspect.Parameter.empty
_PLAIN: Mapping[str, type] = {"float": float, "int": int, "bool": bool, "str": str}
"""Types of non-tensor arguments by name."""


class OperatorSource(Protocol):
    """The source of an operator.

    Attributes:
        cache: Its kernels.
        outputs: Number of output tensors; None if it depends on the call.
        parameters: Its parameters, annotated with ``torch.Tensor``, ``float``, ``int``, ``bool`` or ``str``.
    """

    cache: KernelCache[ScheduledPipeline]
    outputs: int | None
    parameters: list[inspect.Parameter]

    def invocation(self, arguments: Mapping[str, Any]) -> Invocation:
        """Return the pipeline for arguments by name.

        Raises:
            InputError: If a tensor does not fit.
            DSLError: If a function builds no pipeline for them.
        """


class OfPipeline:
    """Operator of a pipeline: inputs in order, then parameters, those with a default last.

    Args:
        pipeline: The pipeline.
        options: Options of scheduling and compilation.

    Raises:
        InputError: If a name is a keyword of Python.
    """

    def __init__(self, pipeline: Pipeline, options: CompileOptions) -> None:
        import torch

        self.cache: KernelCache[ScheduledPipeline] = KernelCache(options, schedule_pipeline)
        self.outputs: int | None = len(pipeline.output_names)
        self.parameters = [_parameter(i.name, torch.Tensor) for i in pipeline.inputs]
        params = [_parameter(p.name, _plain_type(p.dtype), _default(p)) for p in pipeline.params]
        self.parameters += sorted(params, key=lambda p: p.default is not _EMPTY)
        self._pipeline = pipeline

    def invocation(self, arguments: Mapping[str, Any]) -> Invocation:
        """Return the pipeline with its arguments; see `OperatorSource`."""
        pipeline = self._pipeline
        forms: dict[str, ArraySignature] = {}
        for i in pipeline.inputs:
            form = signature_of(arguments[i.name], i.name)
            if form is None or form.dtype != i.dtype or len(form.shape) != i.ndim:
                got = f"{form.dtype}{list(form.shape)}" if form else type(arguments[i.name]).__qualname__
                raise InputError(
                    f"input {i.name!r} of operator for {pipeline.name!r}: got {got}, expected a tensor of {i.dtype} "
                    f"with {i.ndim} dimensions; convert it with {i.name}.to(torch.{i.dtype}), reshape it with "
                    f"{i.name}.reshape(...)"
                )
            forms[i.name] = form
        return Invocation(
            pipeline,
            {i.name: arguments[i.name] for i in pipeline.inputs},
            {name: form.shape for name, form in forms.items()},
            {p.name: arguments[p.name] for p in pipeline.params},
            common_device(forms),
        )


class OfFunction:
    """Operator of a jit function; see `autosched.torch_operator` for its parameters.

    Args:
        function: The function.

    Raises:
        InputError: If a parameter's type is not supported by operators.
    """

    outputs: int | None = None

    def __init__(self, function: JitFunction) -> None:
        self.cache = function.cache
        self._function = function
        parameters = inspect.signature(function).parameters.values()
        self._positional = [p.name for p in parameters if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        self.parameters = [
            made
            for p in parameters
            if (made := _positional(p) if p.name in self._positional else _keyword_only(p)) is not None
        ]

    def invocation(self, arguments: Mapping[str, Any]) -> Invocation:
        """Return the pipeline that the function builds; see `OperatorSource`."""
        structure = {name: value for name, value in arguments.items() if name not in self._positional}
        return self._function.invocation(*(arguments[name] for name in self._positional), **structure)


def _positional(p: inspect.Parameter) -> inspect.Parameter:
    """Return the operator's parameter for an array or a number."""
    import torch

    plain = _plain_annotation(p)
    if plain is str or (plain is None and p.default is not _EMPTY):
        raise InputError(
            f"parameter {str(p)!r} cannot be an operator's: a positional one is a tensor, which has no default, or has "
            "a Python number as annotation or default"
        )
    return _parameter(p.name, plain or torch.Tensor, p.default)


def _keyword_only(p: inspect.Parameter) -> inspect.Parameter | None:
    """Return the operator's parameter for a structural one; None if it keeps its default."""
    plain = _plain_annotation(p)
    if plain is None and p.default is _EMPTY:
        raise InputError(
            f"keyword-only parameter {p.name!r} has neither a default nor one of the types {', '.join(_PLAIN)}, which "
            "operators take: annotate it, or give it a default"
        )
    if plain is str and p.default is not _EMPTY and not set(p.default).isdisjoint('"\\'):
        raise InputError(f"the default {p.default!r} of {p.name!r} has quotes, which schemas of operators cannot hold")
    return p.replace(annotation=plain) if plain is not None else None


def _plain_annotation(p: inspect.Parameter) -> type | None:
    """Return a parameter's plain type, by annotation or default; None for another type."""
    name = p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "")
    return _PLAIN.get(name) or _PLAIN.get(type(p.default).__name__)


def _parameter(name: str, annotation: type, default: Any = _EMPTY) -> inspect.Parameter:
    if keyword.iskeyword(name):
        raise InputError(f"{name!r} is a keyword of Python, so no operator can take it: rename the input or parameter")
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=annotation)


def _plain_type(dtype: DType) -> type:
    return float if dtype.is_float else bool if dtype.kind == "b" else int


def _default(p: Param) -> Any:
    """Return a parameter's default; none if a schema cannot express it, such as infinity."""
    if p.default is None or not math.isfinite(p.default):
        return _EMPTY
    return _plain_type(p.dtype)(p.default)
