"""Forward and backward graphs of a function by the backend's translation, in the interpreter or in C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import GraphModule
from torch.utils import _pytree as pytree

from autosched.torch.decompositions import decompositions
from autosched.torch.options import Options
from autosched.torch.partition import computes, partition_graph
from autosched.torch.region_code import RegionCode, scheduled_pipeline
from autosched.torch.tensors import UnsupportedError
from autosched.torch.translation import translate

Backend = Literal["interpreter", "cpu", "emulator", "pytorch"]
"""``emulator`` runs the code of a GPU on the host, ``pytorch`` the graphs as they are after decomposition."""
OPTIONS = Options(strategy="roots", fallback="error")


@dataclass
class Coverage:
    """Where the operators of some graphs were computed.

    Attributes:
        translated: ATen operators of regions.
        left: ATen operators that stay PyTorch's, with the reason.
        refused: Reasons of regions that have no translation for the sizes at hand.
    """

    translated: set[str] = field(default_factory=set)
    left: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)


class SampledRegion(torch.nn.Module):
    """A region that is translated at each call.

    Args:
        graph: Its nodes.
        backend: Computes the regions.
        coverage: Gets the operators, or the reason of a refusal; PyTorch computes the region then.
    """

    def __init__(self, graph: GraphModule, backend: Backend, coverage: Coverage) -> None:
        super().__init__()
        self._graph = (graph,)
        self._backend = backend
        self._coverage = coverage

    def forward(self, *arguments: Any) -> Any:
        """Compute the region."""
        graph = self._graph[0]
        if self._backend == "pytorch":
            return graph.forward(*arguments)
        operators = {_name(n.target) for n in graph.graph.nodes if computes(n)}
        try:
            translation = translate(graph, arguments)
        except UnsupportedError as error:
            self._coverage.refused.add(str(error))
            return graph.forward(*arguments)
        finally:
            if not self._coverage.refused:  # any other error is a failure of the translation
                self._coverage.translated |= operators
        if translation.pipeline is None:
            return RegionCode(translation, None, torch.device("cpu"))(*arguments)
        slots = [slot for slot in translation.inputs if slot is not None]
        shapes = {slot.name: slot.layout.shape for slot in slots if slot.name is not None}
        shapes |= {name: tuple(tensor.shape) for name, tensor in translation.constants.items()}
        target = "h200" if self._backend == "emulator" else "cpu"
        scheduled = scheduled_pipeline(translation, shapes, target, OPTIONS)
        return RegionCode(translation, scheduled.compile(self._backend), torch.device("cpu"))(*arguments)


def _name(target: Any) -> str:
    return str(target)


def translated(function: Callable[..., Any], backend: Backend, coverage: Coverage) -> Callable[..., Any]:
    """Return a function whose forward and backward graphs are computed by the backend's translation.

    Args:
        function: Takes and returns tensors.
        backend: Computes the regions.
        coverage: Gets where the operators were computed.
    """

    def compiler(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        partition = partition_graph(graph)
        for name in partition.regions:
            submodule = partition.graph.get_submodule(name)
            assert isinstance(submodule, GraphModule)
            setattr(partition.graph, name, SampledRegion(submodule, backend, coverage))
        for node in partition.graph.graph.nodes:
            if node.op == "call_function" and computes(node):
                coverage.left[_name(node.target)] = partition.reasons.get(node.name, "views and copies alone")
        partition.graph.recompile()
        boxed: Callable[..., Any] = make_boxed_func(partition.graph.forward)
        return boxed

    compiled: Callable[..., Any] = aot_function(
        function,
        fw_compiler=compiler,
        bw_compiler=compiler,
        inference_compiler=compiler,
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions(),
    )
    return compiled


def results_and_gradients(
    function: Callable[..., Any], tensors: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], list[torch.Tensor | None]]:
    """Return the results, and the gradients of the tensors that require grad, for cotangents from a fixed seed."""
    torch.manual_seed(1)
    results = [r for r in pytree.tree_leaves(function(*tensors)) if isinstance(r, torch.Tensor)]
    wanted = [t for t in tensors if t.requires_grad]
    of = [r for r in results if r.requires_grad]
    if not wanted or not of:
        return results, []
    generator = torch.Generator().manual_seed(2)
    cotangents = [torch.rand(r.shape, generator=generator, dtype=torch.float64).to(r.dtype) + 0.5 for r in of]
    gradients = torch.autograd.grad(of, wanted, cotangents, allow_unused=True)
    return results, list(gradients)
