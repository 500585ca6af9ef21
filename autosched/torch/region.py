"""A region of a graph: compiled for the sizes and strides of each call."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from autosched.torch.comparison import compared_seconds
from autosched.torch.host_code import HostCode
from autosched.torch.options import Options
from autosched.torch.region_cache import find_region, keep_region, region_key
from autosched.torch.tensors import InvalidOperandError

if TYPE_CHECKING:
    from autosched.torch.region_code import RegionCode

Version = Callable[..., Any]

EAGER_VERSIONS = 8
"""Versions of a region that are compiled at the first call with their sizes; others at the second one."""
MOST_FIRST_SIGHTS = 1024
"""Most keys that are remembered after one call."""

_PLAIN = frozenset({torch.Tensor, torch.nn.Parameter, torch.nn.Buffer})
"""Classes of tensors whose memory code may read; others have operators of their own, or no data."""


class Region(torch.nn.Module):
    """A callable that computes a region by a pipeline, or by PyTorch's kernels where these are faster.

    Args:
        graph: The region's nodes.
        name: Its name in messages.
        options: The backend's options.
        warnings_given: Problems that the function's regions have warned of, which is added to.

    Attributes:
        versions: Code by sizes and strides, the last used one last; a function where PyTorch's kernels are in use.
        notes: Why PyTorch's kernels are in use, by sizes and strides.
        compilations: Number of versions that were made.
    """

    def __init__(self, graph: GraphModule, name: str, options: Options, warnings_given: set[str] | None = None) -> None:
        super().__init__()
        self._graph = (graph,)  # in a tuple, so that it is no submodule
        self.name = name
        self.options = options
        self.versions: OrderedDict[Any, Version] = OrderedDict()
        self.notes: dict[Any, str] = {}
        self.compilations = 0
        self._candidates: dict[Any, _Candidate] = {}  # compiled, and not yet compared
        self._jobs: dict[Any, Future[_Candidate]] = {}
        self._first_sights: OrderedDict[Any, None] = OrderedDict()
        self._warnings_given = set() if warnings_given is None else warnings_given
        self._has_warned = False
        self._lock = threading.RLock()

    @property
    def graph(self) -> GraphModule:
        """The region's nodes."""
        return self._graph[0]

    def forward(self, *arguments: Any) -> Any:
        """Compute the region.

        Args:
            *arguments: Tensors and numbers, as the graph's placeholders.

        Returns:
            The graph's results.

        Raises:
            IndexError: If an index is out of range.
        """
        key = signature_of(arguments)
        version = self.versions.get(key)
        if version is None:
            with _disable_current_modes():  # AOTAutograd has one in the first call, which makes operators slow
                version = self._version_for(key, arguments)
        elif len(self.versions) > 1:
            self._mark_used(key)
        return version(*arguments)

    def _mark_used(self, key: Any) -> None:
        with contextlib.suppress(KeyError):  # removed by another thread
            self.versions.move_to_end(key)

    def _version_for(self, key: Any, arguments: Sequence[Any]) -> Version:
        if key is None or self._is_passing(key):
            return self.graph.forward
        if not self.options.compile_in_background:
            with self._lock:
                version = self.versions.get(key)
                if version is not None:
                    return version
                candidate = self._candidates.get(key) or self._compiled(arguments)
                return self._chosen(key, candidate, arguments)
        with self._lock:
            job = self._jobs.get(key)
            if job is None:
                job = self._jobs[key] = _workers().submit(self._compiled, _without_data(arguments))
            if not job.done():
                return self.graph.forward
            version = self.versions.get(key) or self._chosen(key, job.result(), arguments)
            self._jobs.pop(key, None)
            return version

    def _is_passing(self, key: Any) -> bool:
        """Whether a key is one of many that may never come again, such as a counter's values.

        Once there are several versions, a key gets code at its second call.
        """
        if self.options.fallback == "error" or self.compilations < EAGER_VERSIONS or key in self._candidates:
            return False
        with self._lock:
            if key in self._first_sights or key in self._jobs:
                return False
            self._first_sights[key] = None
            if len(self._first_sights) > MOST_FIRST_SIGHTS:
                self._first_sights.popitem(last=False)
        return True

    def _chosen(self, key: Any, candidate: _Candidate, arguments: Sequence[Any]) -> Version:
        """Return the faster version for a key, and keep it."""
        self._candidates[key] = candidate  # in case that the comparison raises an error of the call
        version = self._faster(key, candidate, arguments)
        del self._candidates[key]
        self.versions[key] = version
        while len(self.versions) > self.options.versions:
            oldest, _ = self.versions.popitem(last=False)
            self.notes.pop(oldest, None)
        return version

    def _faster(self, key: Any, candidate: _Candidate, arguments: Sequence[Any]) -> Version:
        code = candidate.code
        if code is None:
            self.notes[key] = candidate.problem
            if not candidate.has_own_error:
                self._warn(candidate.problem)
            return self.graph.forward
        if self.options.fallback != "measure" or not isinstance(code, HostCode):
            return code
        if candidate.seconds is None:
            candidate.seconds = compared_seconds(code, self.graph.forward, arguments)
            if candidate.cache_key is not None:
                keep_region(candidate.cache_key, code.plan, candidate.seconds)
        ours, theirs = candidate.seconds
        if theirs < ours:
            self.notes[key] = f"PyTorch's kernels take {theirs * 1e6:.0f} us, ours {ours * 1e6:.0f} us"
            return self.graph.forward
        return code

    def _compiled(self, arguments: Sequence[Any]) -> _Candidate:
        self.compilations += 1
        try:
            key = region_key(self.graph, arguments, self.options)
            cached = None if key is None else find_region(key)
            if cached is not None:
                return _Candidate(HostCode(cached.plan), key, cached.seconds)
            from autosched.torch.region_code import compile_region  # the search takes a second to import

            # A model may be trained there, which the caller's modes forbid.
            with torch.inference_mode(False), torch.enable_grad():
                code = compile_region(self.graph, arguments, self.options)
        except InvalidOperandError as error:
            return _Candidate(problem=str(error), has_own_error=True)
        except Exception as error:  # whatever it is, PyTorch's kernels can compute the region
            if self.options.fallback == "error":
                raise
            return _Candidate(problem=f"{type(error).__name__}: {error}")
        if key is not None and isinstance(code, HostCode):
            keep_region(key, code.plan, None)
        return _Candidate(code, key)

    def _warn(self, problem: str) -> None:
        """Warn of a problem once a function, and once a region; of a missing compiler once a process."""
        if self._has_warned or problem in self._warnings_given or problem in _warned_of:
            return
        self._has_warned = True
        self._warnings_given.add(problem)
        what = self.name
        if "compiler was found" in problem:
            _warned_of.add(problem)
            what = "all regions"
        warnings.warn(f"backend 'autosched' leaves {what} to PyTorch: {problem}", RuntimeWarning, stacklevel=5)


class _Candidate:
    """A compiled region that may become a version.

    Args:
        code: Its code; None if it cannot be compiled.
        cache_key: Its key in the cache on disk.
        seconds: Times of its code and of PyTorch's kernels, if they were compared.
        problem: Why it cannot be compiled.
        has_own_error: Whether PyTorch's kernels raise an error for its operands.
    """

    def __init__(
        self,
        code: HostCode | RegionCode | None = None,
        cache_key: str | None = None,
        seconds: tuple[float, float] | None = None,
        problem: str = "",
        has_own_error: bool = False,
    ) -> None:
        self.code = code
        self.cache_key = cache_key
        self.seconds = seconds
        self.problem = problem
        self.has_own_error = has_own_error


_warned_of: set[str] = set()


def signature_of(arguments: Sequence[Any]) -> Any:
    """Return the properties of arguments that code depends on; None for tensors that only PyTorch's kernels take.

    These are tensors of classes with operators of their own, tensors without data, and all while PyTorch traces.
    """
    if torch._C._len_torch_dispatch_stack() and any(map(_is_tracing, _get_current_dispatch_mode_stack())):
        return None
    key: list[Any] = []
    for a in arguments:
        if a.__class__ in _PLAIN:
            key.append((a.shape, a.stride(), a.dtype, a.device))
        elif isinstance(a, torch.Tensor):
            return None
        else:
            key.append((a.__class__, a))
    return tuple(key)


def _is_tracing(mode: object) -> bool:
    return isinstance(mode, FakeTensorMode | ProxyTorchDispatchMode | FunctionalTensorMode)


@cache
def _workers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="autosched")


def _without_data(arguments: Sequence[Any]) -> list[Any]:
    """Return arguments of the same form that keep no memory alive."""
    with FakeTensorMode():
        return [
            torch.empty_strided(a.shape, a.stride(), dtype=a.dtype, device=a.device) if isinstance(a, torch.Tensor)
            else a
            for a in arguments
        ]  # fmt: skip
