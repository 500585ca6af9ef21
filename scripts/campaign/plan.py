"""The steps in order, with requirements and shares of the time."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from campaign.options import Options


@dataclass(frozen=True)
class Step:
    """A step of the campaign.

    Attributes:
        name: Its name; its module (`module_of`) has a function ``run``.
        weight: Its share of the time, relative to the other chosen steps.
        modules: Required Python modules.
        tool: Required program.
        targets: Supported targets.
        runs: Whether it runs code on the target.
        least_s: Least remaining seconds to start it.
    """

    name: str
    weight: float
    modules: tuple[str, ...] = ()
    tool: str = ""
    targets: tuple[str, ...] = ("cuda", "cpu", "emulator", "simulated")
    runs: bool = True
    least_s: float = 1.0


LIBRARY = ("numpy", "networkx")
"""Requirements of `autosched` itself."""
INPUTS = ("PIL",)
"""Requirements of the suite's pictures."""
TARGET_MODULES = {
    "cuda": ("cupy", "cuda.core", *LIBRARY, *INPUTS),
    "cpu": (*LIBRARY, *INPUTS),
    "emulator": (*LIBRARY, *INPUTS),
    "simulated": ("cuda.core", *LIBRARY),
}
"""Requirements of running or simulating pipelines."""

STEPS = (
    Step("tests", 1.0, ("pytest",), targets=("cuda", "cpu")),
    Step("search", 1.0, LIBRARY, runs=False),
    Step("compile", 9.0, ("cuda.core", *LIBRARY), targets=("cuda", "simulated"), runs=False),
    Step("kernels", 0.5, LIBRARY, targets=("cuda", "cpu", "emulator")),
    Step("suite", 2.0, LIBRARY, targets=("cuda", "cpu", "emulator")),
    Step("sanitizer", 1.5, LIBRARY, "compute-sanitizer", ("cuda", "cpu")),
    Step("timing", 3.0, LIBRARY, targets=("cuda", "cpu", "simulated")),
    Step("collect", 9.0, (*LIBRARY, "pyarrow"), targets=("cuda", "cpu", "simulated")),
    Step("tune", 4.0, (*LIBRARY, "torch", "safetensors"), targets=("cuda", "cpu", "simulated")),
    Step("torch", 4.0, (*LIBRARY, "torch", "kornia"), targets=("cuda", "cpu")),
    Step("peers", 5.0, ("numpy", "torch"), targets=("cuda", "cpu")),
    Step("profile", 1.0, LIBRARY, "ncu", ("cuda", "cpu")),
    Step("train", 4.0, (*LIBRARY, "pyarrow", "torch", "safetensors"), runs=False),
)
NAMES = tuple(step.name for step in STEPS)
DEFAULT = tuple(name for name in NAMES if name != "compile")
"""Default steps; compilation ahead of time is for another machine."""
_MODULES = {"peers": "competitors", "torch": "torch_functions"}


def module_of(name: str) -> str:
    """Return the full name of a step's module, most often that of the step."""
    return f"campaign.{_MODULES.get(name, name)}"


def chosen_steps(names: Iterable[str]) -> list[Step]:
    """Return the steps of some names, in the order of the campaign; ``NAME:SECONDS`` sets the weight to a time.

    Raises:
        ValueError: If a name is unknown, or a time is no positive number.
    """
    wanted: dict[str, float | None] = {}
    for entry in names:
        name, _, seconds = entry.partition(":")
        if name not in NAMES:
            raise ValueError(f"there is no step {name!r}; there is {', '.join(NAMES)}")
        wanted[name] = _positive(entry, seconds) if seconds else None
    given = [seconds is not None for seconds in wanted.values()]
    if any(given) and not all(given):
        raise ValueError("only some steps have a time: give all or none of them one, as in tests:90,suite:150")
    chosen = [step for step in STEPS if step.name in wanted]
    return [step if wanted[step.name] is None else replace(step, weight=wanted[step.name]) for step in chosen]


def _positive(entry: str, seconds: str) -> float:
    try:
        value = float(seconds)
    except ValueError:
        value = -1.0
    if not 0 < value < float("inf"):
        raise ValueError(f"the step {entry!r} has no time in seconds: write, say, {entry.partition(':')[0]}:90")
    return value


def why_not(step: Step, options: Options, *, find: Callable[[str], bool] | None = None) -> str:
    """Return why a step cannot run on this machine; empty if it can.

    Args:
        step: The step.
        options: Options of the campaign.
        find: Predicate whether a module can be imported (default: a lookup).
    """
    there = find or has_module
    if options.target not in step.targets:
        return f"it does not run on the target {options.target}"
    needed = {*step.modules, *(TARGET_MODULES[options.target] if step.runs else ())}
    missing = sorted(m for m in needed if not there(m))
    if missing:
        return f"Python modules are missing: {', '.join(missing)}"
    if step.tool and shutil.which(step.tool) is None:
        return f"the program {step.tool} is not on the PATH"
    if step.name == "peers" and not options.peers:
        return "no directory of peers is given (--peers)"
    return ""


def has_module(name: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False


def budgets(steps: Iterable[Step], seconds: float) -> list[float]:
    """Return the time limit of each step, if no earlier step leaves spare time."""
    weights = [step.weight for step in steps]
    return [seconds * w / sum(weights) for w in weights]
