"""Host time of a compiled region of torch.compile beside its kernel, in one thread and in all; needs no GPU.

    python scripts/bench_torch_calls.py [ROWS ...]

Microseconds of a call for square pictures, least of 400 turns, medians in brackets: the kernel's entry alone in the
caller's thread, the region by one thread and by all, the whole function, and the same by ``aot_eager``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch

from autosched.torch.explanation import recording
from autosched.torch.host_code import HostCode, thread_limits

TURNS = 400
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "x + 1": lambda x: x + 1,
    "sin(exp(x)) tanh(x)": lambda x: torch.sin(torch.exp(x)) * torch.tanh(x),
    "softmax": lambda x: torch.softmax(x, -1),
}


def microseconds(calls: dict[str, Callable[[], Any]]) -> dict[str, str]:
    """Return least and median microseconds of calls, which take turns."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TURNS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            times[name].append(1e6 * (time.perf_counter() - start))
    return {name: f"{min(t):.1f} ({median(t):.1f})" for name, t in times.items()}


def calls_of(function: Callable[[Any], Any], rows: int) -> dict[str, Callable[[], Any]]:
    """Return the calls to compare for a function of a square picture."""
    torch._dynamo.reset()
    x = torch.rand(rows, rows)
    eager = torch.compile(function, backend="aot_eager")
    eager(x)
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="autosched", options={"strategy": "roots", "fallback": "error"})
    with recording() as record:
        compiled(x)
    (region,) = record[0][1]
    (code,) = region.versions.values()
    assert isinstance(code, HostCode)
    assert code.plan.library is not None
    limits = thread_limits(code.plan.library)
    kept: dict[str, Any] = {}
    compute = code._compute

    def keep(pointers: Any) -> None:
        kept["pointers"] = pointers
        compute(pointers)

    code._compute = keep  # type: ignore[method-assign]
    kept["results"] = code(x)
    code._compute = compute  # type: ignore[method-assign]
    chosen = code._threads

    def by(threads: Any, call: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> None:
            code._threads = threads
            call()

        return run

    return {
        "entry": by(limits, lambda: code._compute(kept["pointers"])),
        "one thread": by(limits, lambda: region(x)),
        "all threads": by(None, lambda: region(x)),
        "function": by(chosen, lambda: compiled(x)),
        "aot_eager": lambda: eager(x),
    }


def main() -> None:
    """Print a table of microseconds."""
    rows = [int(word) for word in sys.argv[1:]] or [32, 64, 128, 256]
    for name, function in FUNCTIONS.items():
        for n in rows:
            line = microseconds(calls_of(function, n))
            print(f"{name}, {n} x {n}: " + ", ".join(f"{call} {text}" for call, text in line.items()), flush=True)


if __name__ == "__main__":
    main()
