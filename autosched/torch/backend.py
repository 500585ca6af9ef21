"""The backend ``autosched`` of `torch.compile`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._guards import CompileContext
from torch.fx import GraphModule

from autosched.errors import InputError
from autosched.torch.decompositions import decompositions
from autosched.torch.explanation import Record, current_record
from autosched.torch.joint_graph import partition_joint_graph
from autosched.torch.options import Options, parse_options
from autosched.torch.partition import partition_graph
from autosched.torch.region import Region

TORCH = ("2.11", "2.13")
"""The versions of PyTorch whose internals the backend is tested with; the package itself has a wider range."""


def autosched_backend(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo: forward and backward become pipelines where they can.

    Args:
        graph: Dynamo's graph.
        example_inputs: Fake tensors and sizes.
        options: The ``options`` of `torch.compile`; see `autosched.torch.options.Options`.
        mode: The ``mode`` of `torch.compile`.

    Raises:
        InputError: For an unknown option, a value that does not fit, or another version of PyTorch.
    """
    check_version(torch.__version__)
    chosen = parse_options(options, mode)
    given = _warnings_of_function()
    compiler = functools.partial(_compile_aten, options=chosen, record=current_record(), warnings_given=given)
    compile_graph = aot_autograd(
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        decompositions=decompositions(),
        partition_fn=partition_joint_graph,
    )
    return compile_graph(graph, example_inputs)


def check_version(version: str) -> None:
    """Refuse a version of PyTorch that the backend is not tested with.

    Args:
        version: The version, such as ``2.13.0+cpu``.

    Raises:
        InputError: For another one.
    """
    if ".".join(version.split(".")[:2]) not in TORCH:
        raise InputError(
            f"backend 'autosched' needs PyTorch {' or '.join(TORCH)}, this is {version}: install torch=={TORCH[-1]}.*"
        )


_warnings: dict[int, set[str]] = {}


def _warnings_of_function() -> set[str]:
    """Return the problems that regions of the function in compilation have warned of, for other sizes, too."""
    compilation = CompileContext.current_compile_id()
    if compilation is None or compilation.frame_id is None:
        return set()
    if not compilation.frame_compile_id:  # a new function, perhaps by the number of one before a reset of Dynamo
        _warnings[compilation.frame_id] = set()
    return _warnings.setdefault(compilation.frame_id, set())


def _compile_aten(
    graph: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Options,
    record: Record | None,
    warnings_given: set[str],
) -> Callable[..., Any]:
    partition = partition_graph(graph)
    regions: list[Region] = []
    for name in partition.regions:
        submodule = partition.graph.get_submodule(name)
        assert isinstance(submodule, GraphModule)
        regions.append(Region(submodule, name, options, warnings_given))
        setattr(partition.graph, name, regions[-1])
    partition.graph.recompile()
    if record is not None:
        record.append((partition, tuple(regions)))
    boxed: Callable[..., Any] = make_boxed_func(partition.graph.forward)
    return boxed
