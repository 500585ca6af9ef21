"""Pipelines as custom operators of PyTorch, also inside `torch.compile`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from autosched.analysis.bind import bind
from autosched.errors import InputError
from autosched.jit_function import JitFunction
from autosched.kernel_cache import CompileOptions, Invocation, check_options
from autosched.lang.expr import Scalar
from autosched.lang.pipeline import Pipeline
from autosched.runtime.call.frameworks import is_torch
from autosched.runtime.call.signature import ArraySpec, output_specs
from autosched.target import Target
from autosched.torch.operator_sources import OfFunction, OfPipeline, OperatorSource

if TYPE_CHECKING:
    from torch._library.custom_ops import CustomOpDef  # in torch.library, but without an exported type

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
_BOUND_SHAPES = 256
"""Capacity of the cache of output shapes, which tracing queries repeatedly."""

_registered: set[str] = set()


def torch_operator(
    pipeline: Pipeline | JitFunction,
    name: str,
    *,
    outputs: int | None = None,
    replace: bool = False,
    target: str | Target | None = None,
    backend: str | None = None,
    fast_math: bool = False,
    **schedule_options: Any,
) -> CustomOpDef:
    """Register a pipeline as a PyTorch operator, for eager code and inside `torch.compile`.

    The operator takes the pipeline's inputs as tensors, in the order of ``pipeline.inputs``, then its parameters as
    numbers; all may be passed by name. It returns a new tensor, or a tuple of them, on the device of its inputs. The
    first call for given shapes and device schedules and compiles the pipeline. Contiguous tensors are not copied;
    others are. There is no gradient: `backward` through the operator raises PyTorch's error.

    Args:
        pipeline: A pipeline, or a function decorated with `autosched.jit`. Positional parameters of a function whose
            annotation or default is a Python number become numbers, the rest tensors. Keyword-only numbers and
            strings become parameters too; other keyword-only parameters keep their defaults.
        name: Namespace and name: ``mylib::blur`` can also be called as ``torch.ops.mylib.blur``.
        outputs: Number of tensors that a function returns, if more than one; not needed for a pipeline.
        replace: Replace an operator of that name that this function registered.
        target: The device, as for `autosched.schedule`; when left out, the GPU of the tensors, or the CPU.
        backend: The backend, as for `ScheduledPipeline.compile`.
        fast_math: As for `ScheduledPipeline.compile`.
        **schedule_options: Further keywords of `autosched.schedule`, such as ``strategy``, ``seed`` and ``seconds``.

    Returns:
        The operator, to be called like a function.

    Raises:
        InputError: If the name is malformed or exists, the pipeline has no inputs, or operators do not support the type
            of a parameter. Also if options are given for a jit function, which has its own.
    """
    import torch

    source = _source(pipeline, CompileOptions(target, backend, fast_math, schedule_options))
    count = source.outputs if source.outputs is not None else outputs or 1
    _check_name(name, replace)
    tensors = torch.Tensor if count == 1 else GenericAlias(tuple, (torch.Tensor,) * count)
    signature = inspect.Signature(source.parameters, return_annotation=tensors)

    def arguments_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()  # the dispatcher omits arguments that equal their default
        return bound.arguments

    def compute(*args: Any, **kwargs: Any) -> Any:
        given = {key: _plain_tensor(value) for key, value in arguments_of(args, kwargs).items()}
        invocation = _checked(source, given, name, count)
        result = invocation.call(source.cache.compiled(invocation))
        return result if count == 1 else tuple(result)

    def describe(*args: Any, **kwargs: Any) -> Any:
        arguments = arguments_of(args, kwargs)
        given = {key: _known_number(value, signature.parameters[key].annotation) for key, value in arguments.items()}
        invocation = _checked(source, given, name, count)
        example = next(iter(invocation.arrays.values()))
        built_in = source.cache.built_in(invocation.pipeline, invocation.scalars)
        specs = _outputs(invocation.pipeline, tuple(invocation.shapes.items()), tuple(built_in.items()))
        made = [example.new_empty(s.shape, dtype=getattr(torch, s.dtype.name)) for s in specs]
        return made[0] if count == 1 else tuple(made)

    compute.__signature__ = signature  # type: ignore[attr-defined]  # PyTorch derives the schema from it
    operator = torch.library.custom_op(name, compute, mutates_args=())
    operator.register_fake(describe)
    _registered.add(name)
    return operator


def _source(pipeline: Pipeline | JitFunction, options: CompileOptions) -> OperatorSource:
    if isinstance(pipeline, Pipeline):
        check_options(options.schedule)
        return OfPipeline(pipeline, options)
    if not isinstance(pipeline, JitFunction):
        raise InputError(
            f"a {type(pipeline).__qualname__} cannot become an operator; pass a Pipeline or a function decorated with "
            "autosched.jit"
        )
    if options != CompileOptions(None, None, False, {}):
        raise InputError(f"jit function {pipeline.__name__!r} has its own options: give them to autosched.jit")
    return OfFunction(pipeline)


def _check_name(name: str, replace: bool) -> None:
    """Refuse malformed names, and names of other operators."""
    import torch

    if not _NAME.fullmatch(name):
        raise InputError(f"operator name {name!r}: give a namespace and a name, such as 'mylib::blur'")
    namespace, _, operator = name.partition("::")
    if not hasattr(getattr(torch.ops, namespace), operator) or (replace and name in _registered):
        return
    remedies = ["choose another name", f"call the one there is as torch.ops.{namespace}.{operator}"]
    if name in _registered:
        remedies.append("pass replace=True to take its place")
    raise InputError(f"there is an operator {name!r} already: {', or '.join(remedies)}")


def _checked(source: OperatorSource, arguments: Mapping[str, Any], name: str, count: int) -> Invocation:
    """Return the invocation of some arguments, checked against the operator's signature."""
    invocation = source.invocation(arguments)
    actual_count = len(invocation.pipeline.output_names)
    if actual_count != count:
        raise InputError(
            f"operator {name!r} was registered with {count} outputs, and its function returns {actual_count}: "
            f"pass outputs={actual_count} to torch_operator"
        )
    if not invocation.arrays:
        raise InputError(f"operator {name!r} reads no tensor, so there is no device for its result")
    return invocation


@lru_cache(maxsize=_BOUND_SHAPES)
def _outputs(
    pipeline: Pipeline, shapes: tuple[tuple[str, tuple[int, ...]], ...], values: tuple[tuple[str, Scalar], ...]
) -> tuple[ArraySpec, ...]:
    """Return shapes and types of the outputs, without a schedule."""
    return output_specs(bind(pipeline, dict(shapes), dict(values)))


def _plain_tensor(value: Any) -> Any:
    """Return a contiguous tensor, without a copy if possible."""
    import torch

    if not is_torch(value) or value.layout is not torch.strided:  # other tensors are refused later
        return value
    return value.detach().resolve_neg().contiguous()


def _known_number(value: Any, annotation: type) -> Any:
    """Return an argument with concrete numbers: PyTorch traces again if an integer changes.

    Floats do not affect shapes, so a trace does not depend on their value.
    """
    if annotation is float:
        return 0.0
    return annotation(value) if annotation in (int, bool) else value
