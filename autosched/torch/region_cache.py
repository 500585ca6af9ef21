"""Cache on disk of compiled regions, so that a new process neither translates nor schedules them.

An entry has the plan of the calls, the name of the compiled library in its own cache, and the outcome of the comparison
with PyTorch's kernels. Its key has everything that these depend on. Regions on GPUs use the caches of schedules and of
compiled kernels alone.
"""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule

from autosched.errors import AutoschedError, CacheError
from autosched.host import read_host
from autosched.runtime.compile.cache import DiskCache, cache_key
from autosched.settings import settings
from autosched.torch.host_plan import HostPlan
from autosched.torch.options import Options

logger = logging.getLogger(__name__)

_REGIONS = DiskCache("region", suffix=".json")
_LIBRARIES = DiskCache("library", suffix=".so")
_PACKAGES = ("autosched", "autosched.search", "autosched.featurize", "autosched.model")
_NOT_IN_KEY = ("fallback", "versions", "compile_in_background", "reuse")
"""Options without influence on code."""


@dataclass(frozen=True)
class CachedRegion:
    """A region of an earlier process.

    Attributes:
        plan: Its calls.
        seconds: Least times of a call by its own code and by PyTorch's kernels; None if they were not compared.
    """

    plan: HostPlan
    seconds: tuple[float, float] | None


def region_key(graph: GraphModule, arguments: Sequence[Any], options: Options) -> str | None:
    """Return the cache key of a region for some arguments; None for a region without an entry.

    Regions have entries on the CPU alone, and where the options allow it.
    """
    if not options.reuse:
        return None
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    if any(t.device.type != "cpu" for t in tensors):
        return None
    attributes = {str(n.target): _digest(graph, str(n.target)) for n in graph.graph.nodes if n.op == "get_attr"}
    if None in attributes.values():
        return None
    forms = [
        [str(a.dtype), list(a.shape), list(a.stride())] if isinstance(a, torch.Tensor) else repr(a) for a in arguments
    ]
    chosen = {name: value for name, value in asdict(options).items() if name not in _NOT_IN_KEY}
    return cache_key(
        graph=graph.code, attributes=attributes, arguments=forms, options=chosen, torch=torch.__version__,
        package=_package_digest(), host=repr(read_host()), compiler=_compiler(), cost=_file_state(options.cost),
    )  # fmt: skip


def find_region(key: str) -> CachedRegion | None:
    """Return the region of a key, or None."""
    try:
        content = _REGIONS.get_bytes(key)
        if content is None:
            return None
        entry = json.loads(content)
        library = None
        if entry["library"] is not None:
            library = _LIBRARIES.get(entry["library"])
            if library is None:  # removed, or damaged
                return None
        seconds = entry["seconds"]
        return CachedRegion(HostPlan.from_json(entry["plan"], library), None if seconds is None else tuple(seconds))
    except (AutoschedError, KeyError, ValueError, TypeError) as error:
        logger.warning("a cached region cannot be used and is compiled again: %s", error)
        return None


def keep_region(key: str, plan: HostPlan, seconds: tuple[float, float] | None) -> None:
    """Store a region, unless the cache cannot be written or the plan cannot be serialised.

    Args:
        key: From `region_key`.
        plan: Its calls.
        seconds: As in `CachedRegion`.
    """
    text = plan.to_json()
    if text is None:
        return
    library = None if plan.library is None else plan.library.name.partition("-")[0]
    try:
        _REGIONS.discard(key)  # an entry without times
        _REGIONS.put(key, json.dumps({"plan": text, "library": library, "seconds": seconds}).encode())
    except CacheError as error:
        logger.warning("a compiled region is not cached: %s", error)


def _digest(graph: GraphModule, name: str) -> str | None:
    tensor: Any = graph
    for part in name.split("."):
        tensor = getattr(tensor, part)
    if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        return None
    content = tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    form = f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}".encode()
    return hashlib.sha256(form + content).hexdigest()


@functools.cache
def _package_digest() -> str:
    """Return a hash of names, sizes and times of the package's sources, which takes less than reading them."""
    digest = hashlib.sha256()
    for package in _PACKAGES:
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec is not None else ():
            for state in sorted(_states(root)):
                digest.update(f"{package} {state}\n".encode())
    return digest.hexdigest()


def _states(directory: str, prefix: str = "") -> Iterator[str]:
    """Yield path below a directory, size and time of each source."""
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".h", ".safetensors", ".json")):
                stat = entry.stat()
                yield f"{prefix}{entry.name} {stat.st_size} {stat.st_mtime_ns}"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _states(entry.path, f"{prefix}{entry.name}/")


def _compiler() -> list[Any]:
    """Return the command and the file of the C compiler; to run it for its version would take longer."""
    named = settings().cc
    words = list(named.words) if named is not None else ["cc", "gcc", "clang"]
    found = next((path for w in ([words[0]] if named is not None else words) if (path := shutil.which(w))), None)
    return [
        *(words if named is not None else ()),
        found,
        _file_state(None if found is None else os.path.realpath(found)),
    ]


def _file_state(path: str | None) -> list[Any] | None:
    if path is None or not Path(path).is_file():
        return None
    stat = Path(path).stat()
    return [str(path), stat.st_size, stat.st_mtime_ns]
