"""Options of the backend, as `torch.compile(..., options={...})` passes them."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from autosched.errors import InputError

Mode = Literal["one-shot", "top5", "autotune"]
Fallback = Literal["measure", "predict", "error"]


@dataclass(frozen=True)
class Options:
    """How regions are compiled.

    Attributes:
        mode: ``one-shot`` takes the schedule with the best prediction, ``top5`` the fastest of five, which are
            measured, ``autotune`` measures until ``seconds`` are over.
        effort: Effort of the search: ``fast``, ``default`` or ``thorough``.
        strategy: A single search strategy, such as ``roots``.
        seconds: Time budget of the search of a region.
        cost: Cost model, as for `autosched.schedule`.
        database: Results database of ``autotune``; each region has files of its own beside it.
        fallback: ``measure`` times a region on the CPU against PyTorch's own kernels at the first call with some sizes
            and keeps the faster one; ``predict`` keeps regions; ``error`` does, too, and raises an error for a region
            that cannot be compiled, instead of running PyTorch's kernels.
        versions: Most sizes of a region for which code is kept.
        compile_in_background: Compile code for new sizes in a thread, while PyTorch's kernels compute.
        reuse: Use compiled regions of earlier processes in the user's cache directory, and store new ones.
    """

    mode: Mode = "one-shot"
    effort: Literal["fast", "default", "thorough"] = "fast"
    strategy: str | None = None
    seconds: float | None = 4.0
    cost: str | None = None
    database: str | None = None
    fallback: Fallback = "measure"
    versions: int = 32
    compile_in_background: bool = False
    reuse: bool = True


STRATEGIES = (
    "roots", "beam", "dp", "forma", "forma-none", "polymage", "sioutas", "sioutas-overlapped", "sioutas-none",
)  # fmt: skip
"""Names of `autosched.search.tune.request.STRATEGY_NAMES`: a process with compiled regions imports no search."""

_CHOICES: dict[str, tuple[str, ...]] = {
    "mode": get_args(Mode),
    "effort": ("fast", "default", "thorough"),
    "fallback": get_args(Fallback),
}
_TYPES: dict[str, tuple[type, ...]] = {
    "strategy": (str, type(None)),
    "seconds": (int, float, type(None)),
    "cost": (str, type(None)),
    "database": (str, type(None)),
    "versions": (int,),
}
_SWITCHES = ("compile_in_background", "reuse")


def parse_options(options: Mapping[str, Any] | None, mode: str | None = None) -> Options:
    """Return the options of a call of `torch.compile`.

    Args:
        options: Values by name.
        mode: The keyword ``mode`` of `torch.compile`, which torch does not pass together with options.

    Raises:
        InputError: For an unknown option, or a value that does not fit.
    """
    given = dict(options or {})
    if mode not in (None, "default"):
        given.setdefault("mode", mode)
    names = [f.name for f in fields(Options)]
    for name, value in given.items():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise InputError(f"backend 'autosched' has no option {name!r}; {hint}it has {', '.join(names)}")
        if name in _CHOICES and value not in _CHOICES[name]:
            choices = ", ".join(map(repr, _CHOICES[name]))
            raise InputError(f"option {name}={value!r} of backend 'autosched': expected one of {choices}")
        if name in _SWITCHES and not isinstance(value, bool):
            raise InputError(f"option {name}={value!r} of backend 'autosched': expected True or False")
        if name in _TYPES and (not isinstance(value, _TYPES[name]) or isinstance(value, bool)):
            kinds = " or ".join("None" if t is type(None) else t.__name__ for t in _TYPES[name])
            raise InputError(f"option {name}={value!r} of backend 'autosched': expected {kinds}")
    chosen = Options(**given)
    if chosen.strategy is not None and chosen.strategy not in STRATEGIES:
        strategies = ", ".join(map(repr, STRATEGIES))
        raise InputError(f"option strategy={chosen.strategy!r} of backend 'autosched': expected one of {strategies}")
    if chosen.cost not in (None, "learned", "analytical") and not Path(str(chosen.cost)).is_file():
        raise InputError(
            f"option cost={chosen.cost!r} of backend 'autosched': expected 'learned', 'analytical' or a file of weights"
        )
    if chosen.seconds is not None and not 0 < chosen.seconds < math.inf:
        raise InputError(f"option seconds={chosen.seconds!r} of backend 'autosched': expected a positive number")
    if chosen.versions < 1:
        raise InputError(f"option versions={chosen.versions!r} of backend 'autosched': expected 1 or more")
    return chosen
