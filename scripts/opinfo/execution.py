"""Forward and backward graphs of functions by the backend's translation, in the interpreter or in C."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_function
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.fx import Graph, GraphModule
from torch.fx.traceback import annotate, preserve_node_meta

from autosched.runtime.backends.cpu import CpuExecutable, compile_library
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.torch.decompositions import decompositions
from autosched.torch.host_code import HostCode
from autosched.torch.options import Options
from autosched.torch.partition import computes, partition_graph
from autosched.torch.region import signature_of
from autosched.torch.region_code import RegionCode, plan_of, scheduled_pipeline
from autosched.torch.tensors import UnsupportedError
from autosched.torch.translation import Translation, translate

Backend = Literal["interpreter", "cpu", "emulator", "pytorch"]
"""``emulator`` runs the code of a GPU on the host, ``pytorch`` the graphs as they are after decomposition."""
OPTIONS = Options(strategy="roots", fallback="error")
_SAMPLE = "opinfo_sample"


@dataclass
class Coverage:
    """Where the operators of a function were computed.

    Attributes:
        translated: ATen operators of regions.
        left: ATen operators that stay PyTorch's, with the reason.
        refused: Reasons of regions that have no translation for the sizes at hand.
    """

    translated: set[str] = field(default_factory=set)
    left: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)


class RegionVersion:
    """A region for arguments of given sizes.

    Args:
        translation: The pipeline.

    Attributes:
        schedules: By target; empty for a region without elements.
        codes: Code by backend.
    """

    def __init__(self, translation: Translation) -> None:
        self.translation = translation
        self.schedules: dict[str, ScheduledPipeline] = {}
        self.codes: dict[Backend, Callable[..., Any]] = {}

    def scheduled(self, target: str) -> ScheduledPipeline:
        """Return the schedule for a target."""
        if target not in self.schedules:
            slots = [slot for slot in self.translation.inputs if slot is not None]
            shapes = {slot.name: slot.layout.shape for slot in slots if slot.name is not None}
            shapes |= {name: tuple(tensor.shape) for name, tensor in self.translation.constants.items()}
            self.schedules[target] = scheduled_pipeline(self.translation, shapes, target, OPTIONS)
        return self.schedules[target]

    def code(self, backend: Backend) -> Callable[..., Any]:
        """Return the code for a backend."""
        if backend not in self.codes:
            self.codes[backend] = self._compiled(backend)
        return self.codes[backend]

    def set_host_code(self, executable: CpuExecutable) -> None:
        """Take compiled C."""
        self.codes["cpu"] = HostCode(plan_of(self.translation, executable))

    def _compiled(self, backend: Backend) -> Callable[..., Any]:
        device = torch.device("cpu")
        if self.translation.pipeline is None:
            return RegionCode(self.translation, None, device)
        scheduled = self.scheduled("h200" if backend == "emulator" else "cpu")
        compiled = scheduled.compile(backend)
        if backend == "cpu" and compiled.code is not None:
            return HostCode(plan_of(self.translation, compiled.code))
        return RegionCode(self.translation, compiled, device)


class SampledRegion(torch.nn.Module):
    """A region that is translated at the first call with some sizes.

    Args:
        graph: Its nodes.
        owner: The function with the region; its coverage gets the operators or the reason of a refusal.
    """

    def __init__(self, graph: GraphModule, owner: TracedFunction) -> None:
        super().__init__()
        self._graph = (graph,)
        self._owner = (owner,)
        self.versions: dict[Any, RegionVersion | None] = {}
        self._operators: defaultdict[int, set[str]] = defaultdict(set)
        for node in graph.graph.nodes:
            if computes(node):
                self._operators[node.meta[_SAMPLE]].add(str(node.target))

    def forward(self, *arguments: Any) -> Any:
        """Compute the region; PyTorch does where it has no translation."""
        owner, graph = self._owner[0], self._graph[0]
        if owner.backend == "pytorch":
            return graph.forward(*arguments)
        key = signature_of(arguments)
        if key not in self.versions:
            self.versions[key] = self._translated(arguments)
        version = self.versions[key]
        return graph.forward(*arguments) if version is None else version.code(owner.backend)(*arguments)

    def _translated(self, arguments: Sequence[Any]) -> RegionVersion | None:
        coverage = self._owner[0].coverage
        try:
            translation = translate(self._graph[0], arguments)
        except UnsupportedError as error:
            for sample in self._operators:
                coverage[sample].refused.add(str(error))
            return None
        except Exception:  # a failure of the translation, unlike a refusal
            self._add_operators()
            raise
        self._add_operators()
        return RegionVersion(translation)

    def _add_operators(self) -> None:
        for sample, operators in self._operators.items():
            self._owner[0].coverage[sample].translated |= operators


class TracedFunction:
    """Several functions, traced at the first call as one, whose regions are computed by a backend.

    Tracing takes most of the time, and little more for several small functions than for one.

    Args:
        functions: Take and return tensors.
        counts: How many tensors each takes.

    Attributes:
        backend: Computes the regions; may change between calls.
        coverage: Where the operators of each function were computed.
        regions: The regions of all graphs.
    """

    def __init__(self, functions: Sequence[Callable[..., Any]], counts: Sequence[int]) -> None:
        self.backend: Backend = "interpreter"
        self.coverage = [Coverage() for _ in functions]
        self.regions: list[SampledRegion] = []

        def joined(*tensors: torch.Tensor) -> list[Any]:
            results = []
            first = 0
            for number, (function, count) in enumerate(zip(functions, counts, strict=True)):
                with annotate({_SAMPLE: number}):
                    results.append(function(*tensors[first : first + count]))
                first += count
            return results

        self._compiled: Callable[..., Any] = aot_function(
            joined,
            fw_compiler=self._compile,
            bw_compiler=self._compile,
            inference_compiler=self._compile,
            partition_fn=min_cut_rematerialization_partition,
            decompositions=decompositions(),
        )

    def __call__(self, *tensors: torch.Tensor) -> Any:
        """Return the results of each function for the tensors of all."""
        with preserve_node_meta():
            return self._compiled(*tensors)

    def _compile(self, graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        with preserve_node_meta(False):
            mark_samples(graph.graph)
            partition = partition_graph(graph)
            for name in partition.regions:
                submodule = partition.graph.get_submodule(name)
                assert isinstance(submodule, GraphModule)
                region = SampledRegion(submodule, self)
                self.regions.append(region)
                setattr(partition.graph, name, region)
            for node in partition.graph.graph.nodes:
                if node.op == "call_function" and computes(node):
                    reason = partition.reasons.get(node.name, "views and copies alone")
                    self.coverage[node.meta[_SAMPLE]].left[str(node.target)] = reason
            partition.graph.recompile()
        boxed: Callable[..., Any] = make_boxed_func(partition.graph.forward)
        return boxed


def mark_samples(graph: Graph) -> None:
    """Mark each node with the number of its function; sums of gradients have that of their terms."""
    for node in graph.nodes:
        annotation = node.meta.get("custom", {}).get(_SAMPLE)
        if annotation is None:
            annotation = next((n.meta[_SAMPLE] for n in node.all_input_nodes if n.op == "call_function"), 0)
        node.meta[_SAMPLE] = annotation


def compile_regions(functions: Iterable[TracedFunction]) -> None:
    """Compile the regions of traced functions as one C library."""
    versions = [
        version
        for function in functions
        for region in function.regions
        for version in region.versions.values()
        if version is not None and version.translation.pipeline is not None and "cpu" not in version.codes
    ]
    executables = compile_library([version.scheduled("cpu").program for version in versions])
    for version, executable in zip(versions, executables, strict=True):
        version.set_host_code(executable)


Results = tuple[list[torch.Tensor], list[torch.Tensor | None]]
"""Results of a function, and the gradients of its operands that require grad."""


def results_and_gradients(function: Callable[..., Any], operands: Sequence[Sequence[torch.Tensor]]) -> list[Results]:
    """Return the results and gradients of several functions, for cotangents from a fixed seed.

    Args:
        function: Takes the tensors of all functions and returns a list with the results of each.
        operands: The tensors of each function.
    """
    torch.default_generator.manual_seed(1)  # torch.manual_seed formats a stack for every GPU that is missing
    returned = function(*(tensor for tensors in operands for tensor in tensors))
    results = [[r for r in torch.utils._pytree.tree_leaves(value) if isinstance(r, torch.Tensor)] for value in returned]
    of: list[torch.Tensor] = []
    wanted: list[torch.Tensor] = []
    cotangents: list[torch.Tensor] = []
    counts = []
    for values, tensors in zip(results, operands, strict=True):
        sources = [t for t in tensors if t.requires_grad]
        targets = [r for r in values if r.requires_grad] if sources else []
        if not targets:
            sources = []
        generator = torch.Generator().manual_seed(2)
        of += targets
        cotangents += [torch.rand(r.shape, generator=generator, dtype=torch.float64).to(r.dtype) + 0.5 for r in targets]
        wanted += sources
        counts.append(len(sources))
    gradients = iter(torch.autograd.grad(of, wanted, cotangents, allow_unused=True) if of else ())
    return [(values, [next(gradients) for _ in range(count)]) for values, count in zip(results, counts, strict=True)]
