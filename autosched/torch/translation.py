"""Translate an ATen graph of given sizes to a pipeline."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from autosched.errors import InputError
from autosched.lang.dtypes import uint8
from autosched.lang.expr import Const
from autosched.lang.func import Func, Input
from autosched.lang.functions import cast
from autosched.lang.pipeline import Pipeline
from autosched.torch.layouts import Layout, layout_of
from autosched.torch.lowerings import LOWERINGS, LoweringContext
from autosched.torch.lowerings.reductions import fold
from autosched.torch.tensors import TensorValue, UnsupportedError, coordinates, element_type, of_source

FOLDED_ELEMENTS = 4096
"""Most elements of a tensor that is computed once, while translating, if it depends on no input."""

Check = tuple[type[Exception], str]


@dataclass(frozen=True)
class TensorSlot:
    """Memory of a tensor that is passed to a pipeline.

    Attributes:
        name: Name of the input or output; None for a tensor without an array, as nothing reads it.
        layout: Where its elements lie in the array.
        shape: Extents.
        strides: Strides in elements.
        dtype: Element type.
    """

    name: str | None
    layout: Layout
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype


@dataclass(frozen=True)
class Translation:
    """A graph as a pipeline.

    Attributes:
        pipeline: The pipeline; None if no output has an element and nothing is checked.
        inputs: The graph's tensors, in order; None for numbers.
        outputs: The graph's results, in order.
        constants: Arrays of tensors that depend on no input.
        checks: Outputs that are not zero where a call is wrong, with the error.
        is_tuple: Whether the graph returns a tuple, even of one result.
        device: Device of the results; None without tensors among them.
    """

    pipeline: Pipeline | None
    inputs: tuple[TensorSlot | None, ...]
    outputs: tuple[TensorSlot | int | None, ...]
    constants: Mapping[str, torch.Tensor]
    checks: Mapping[str, Check]
    is_tuple: bool
    device: torch.device | None


def translate(graph: GraphModule, arguments: Sequence[Any]) -> Translation:
    """Translate a graph for the sizes, strides and types of some arguments.

    Args:
        graph: Nodes of ATen operators, functional, with tensors or tuples as results.
        arguments: A tensor, with or without data, or a number for each placeholder.

    Raises:
        UnsupportedError: If an operator has no translation in this form.
        DSLError: If an index may be out of range.
        InputError: If results lie on several devices.
    """
    return _Translator(graph, arguments).run()


@dataclass
class _Translator:
    graph: GraphModule
    arguments: Sequence[Any]
    mode: FakeTensorMode = field(default_factory=lambda: FakeTensorMode(allow_non_fake_inputs=True))
    values: dict[Node, Any] = field(default_factory=dict)
    constants: dict[str, torch.Tensor] = field(default_factory=dict)
    checks: dict[str, Check] = field(default_factory=dict)
    check_funcs: list[Func] = field(default_factory=list)
    inputs: list[TensorSlot | None] = field(default_factory=list)
    extents: dict[str, tuple[int, ...]] = field(default_factory=dict)
    tables: dict[int, TensorValue] = field(default_factory=dict)

    def run(self) -> Translation:
        remaining = iter(self.arguments)
        result: Any = None
        for node in self.graph.graph.nodes:
            match node.op:
                case "placeholder":
                    self.values[node] = self._input(node, next(remaining))
                case "get_attr":
                    self.values[node] = self._attribute(node)
                case "call_function":
                    self.values[node] = self._call(node)
                case "output":
                    result = node.args[0]
                case _:
                    raise UnsupportedError(f"a node of kind {node.op}")
        results = result if isinstance(result, tuple | list) else (result,)
        outputs: list[TensorSlot | int | None] = []
        funcs: list[Func] = []
        devices: set[torch.device] = set()
        for k, of in enumerate(results):
            value = self.values[of] if isinstance(of, Node) else of
            if isinstance(value, TensorValue):
                devices.add(value.fake.device)
                value = self._output(f"out{k}", self._tabulated(value), funcs)
            outputs.append(value)
        made = [*funcs, *self.check_funcs]
        pipeline = Pipeline([self._boxed(f) for f in made], name="region") if made else None
        read = {i.name for i in pipeline.inputs} if pipeline else set()
        return Translation(
            pipeline,
            tuple(_used(slot, read) for slot in self.inputs),
            tuple(outputs),
            {name: t for name, t in self.constants.items() if name in read},
            self.checks,
            isinstance(result, tuple | list),
            _only(devices),
        )

    def _input(self, node: Node, argument: Any) -> Any:
        if not isinstance(argument, torch.Tensor):
            self.inputs.append(None)
            return argument
        name = f"in{len(self.inputs)}"
        shape, strides = tuple(int(n) for n in argument.shape), tuple(int(s) for s in argument.stride())
        layout = layout_of(shape, strides)
        self.inputs.append(TensorSlot(name, layout, shape, strides, argument.dtype))
        with self.mode:
            fake = torch.empty_strided(shape, strides, dtype=argument.dtype, device=argument.device)
        return self._array(fake, name, layout)

    def _array(
        self, fake: torch.Tensor, name: str, layout: Layout, constant: torch.Tensor | None = None
    ) -> TensorValue:
        dims = [f"a{k}" for k in range(len(layout.shape))]
        array = Input(name, element_type(fake.dtype), len(layout.shape), dims=dims)
        identical = layout.shape == tuple(fake.shape)
        if identical and layout.axes == tuple(range(fake.ndim)):
            return of_source(fake, array, constant)
        return TensorValue(fake, lambda p: array[layout.index(p)], None, constant, is_view=True)

    def _attribute(self, node: Node) -> TensorValue:
        tensor = self.graph
        for part in str(node.target).split("."):
            tensor = getattr(tensor, part)
        if not isinstance(tensor, torch.Tensor):
            raise UnsupportedError(f"an attribute of type {type(tensor).__name__}")
        return self._constant(node.name, tensor.detach())

    def _constant(self, name: str, tensor: torch.Tensor) -> TensorValue:
        with self.mode:
            fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        layout = layout_of(tuple(tensor.shape), tuple(tensor.stride()))
        self.constants[f"const_{name}"] = layout.array(tensor)
        return self._array(fake, f"const_{name}", layout, tensor)

    def _call(self, node: Node) -> Any:
        target = node.target
        args: Any
        kwargs: Any
        args, kwargs = map_arg((node.args, node.kwargs), lambda n: self.values[n])
        if target is operator.getitem:
            return args[0][args[1]]
        if not isinstance(target, torch._ops.OpOverload):
            return target(*args, **kwargs)  # type: ignore[operator]
        with self.mode:
            fake = target(*_fake(args), **_fake(kwargs))
        if not isinstance(fake, torch.Tensor | tuple | list):
            return fake
        constant = self._folded(target, args, kwargs, fake)
        context = LoweringContext(node.name, fake, lambda bad, error, text: self._add_check(bad, error, text))
        if constant is None:
            args, kwargs = self._tabulated(args), self._tabulated(kwargs)
            result = _lowered(target, context, args, kwargs)
        else:
            try:
                result = _lowered(target, context, args, kwargs)
            except UnsupportedError:
                return self._constant(node.name, constant)
        if isinstance(result, tuple):
            named = [(f"{node.name}_{k}", value) for k, value in enumerate(result)]
            return tuple(value and self._shared(node, value, name) for name, value in named)
        return self._shared(node, replace(result, constant=constant), node.name)

    def _tabulated(self, value: Any) -> Any:
        """Replace floating-point tensors that depend on no input by arrays of their values.

        Integers stay expressions, as ranges of indices follow from these.
        """
        if isinstance(value, TensorValue):
            constant = value.constant
            if constant is None or not constant.dtype.is_floating_point or value.source is not None:
                return value
            if isinstance(value.at(coordinates(len(value.shape))), Const):
                return value
            if id(constant) not in self.tables:
                self.tables[id(constant)] = self._constant(f"table{len(self.tables)}", constant)
            return self.tables[id(constant)]
        if isinstance(value, tuple | list):
            return type(value)(self._tabulated(v) for v in value)
        if isinstance(value, dict):
            return {k: self._tabulated(v) for k, v in value.items()}
        return value

    def _shared(self, node: Node, value: TensorValue, name: str) -> TensorValue:
        """Return a value that several nodes read as a Func, so that it need not be computed for each."""
        return value.stored(name) if len(node.users) > 1 and value.constant is None else value

    def _folded(self, target: Any, args: Any, kwargs: Any, fake: Any) -> torch.Tensor | None:
        """Return the result of an operator whose operands depend on no input, if it is small."""
        if not isinstance(fake, torch.Tensor) or fake.numel() > FOLDED_ELEMENTS:
            return None
        if torch.Tag.nondeterministic_seeded in target.tags:
            return None
        found = True

        def real(value: Any) -> Any:
            nonlocal found
            if isinstance(value, TensorValue):
                found = found and value.constant is not None
                return value.constant
            if isinstance(value, tuple | list):
                return type(value)(real(v) for v in value)
            return value

        real_args, real_kwargs = real(args), {k: real(v) for k, v in kwargs.items()}
        if not found:
            return None
        with torch.no_grad(), torch._subclasses.fake_tensor.unset_fake_temporarily():
            result = target(*real_args, **real_kwargs)
        return result.detach() if isinstance(result, torch.Tensor) else None

    def _add_check(self, bad: TensorValue, error: type[Exception], text: str) -> None:
        name = f"check{len(self.check_funcs)}"
        total = fold("max", lambda p: cast(uint8, bad.at(p)), bad.shape, range(len(bad.shape)), f"{name}_any")
        func = Func(name)
        func[()] = total(())
        self.check_funcs.append(func)
        self.checks[name] = (error, text)

    def _output(self, name: str, value: TensorValue, funcs: list[Func]) -> TensorSlot:
        fake = value.fake
        shape, strides = tuple(int(n) for n in fake.shape), tuple(int(s) for s in fake.stride())
        layout = layout_of(shape, strides)
        if not layout.axes and layout.shape:  # holes between elements, or none: a dense tensor is as good
            strides = _dense(shape)
            layout = layout_of(shape, strides)
        slot = TensorSlot(name, layout, shape, strides, fake.dtype)
        if 0 in shape:
            return TensorSlot(None, layout, shape, strides, fake.dtype)
        func = Func(name)
        point = coordinates(len(layout.shape))
        place: list[Any] = [0] * len(shape)
        for k, axis in enumerate(layout.axes):
            place[axis] = point[k]
        func[point] = value.at(tuple(place))
        funcs.append(func)
        self.extents[name] = layout.shape
        return slot

    def _boxed(self, func: Func) -> Any:
        extents = self.extents.get(func.name, ())
        return func.over(**{dim: (0, n) for dim, n in zip(func.dims, extents, strict=True)})


def _only(devices: set[torch.device]) -> torch.device | None:
    if len(devices) > 1:
        raise InputError(
            f"a region has results on {', '.join(sorted(map(str, devices)))}: divide it into one for each device"
        )
    return next(iter(devices), None)


def _lowered(target: torch._ops.OpOverload, context: LoweringContext, args: Any, kwargs: Any) -> Any:
    entry = LOWERINGS.get(target)
    if entry is None:
        raise UnsupportedError(f"the operator {target}")
    return entry.lower(context, *args, **kwargs)


def _dense(shape: Sequence[int]) -> tuple[int, ...]:
    strides: list[int] = []
    size = 1
    for n in reversed(shape):
        strides.append(size)
        size *= max(n, 1)
    return tuple(reversed(strides))


def _used(slot: TensorSlot | None, read: set[str]) -> TensorSlot | None:
    if slot is None or slot.name in read:
        return slot
    return TensorSlot(None, slot.layout, slot.shape, slot.strides, slot.dtype)


def _fake(value: Any) -> Any:
    if isinstance(value, TensorValue):
        return value.fake
    if isinstance(value, tuple | list):
        return type(value)(_fake(v) for v in value)
    if isinstance(value, dict):
        return {k: _fake(v) for k, v in value.items()}
    return value
