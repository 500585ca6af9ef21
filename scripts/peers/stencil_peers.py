"""Time kernels of pystencils for iterated stencils of volumes on this GPU, and compare their results with NumPy's.

    python stencil_peers.py BUILT --apps smoother7pt,denoise --json FILE

The kernels are those of ``stencil_kernels.json`` beside this file, which `scripts/build_stencil_peers.py` writes. BUILT
is the folder of other peers, and is not read. This file needs NumPy and CuPy alone. FILE gets a list of rows, again
after each row:

* ``app``, ``scheduler``: ``pystencils`` with its own block size, ``pystencils_best`` with the fastest of `BLOCKS`;
* ``ms``: milliseconds of all steps, the median of samples timed by events;
* ``graph_ms``: the same as one CUDA graph;
* ``block``: threads along x, y, z;
* ``ok``: whether results agree with NumPy's formulas on the same device.

Rims are copied once, before any call is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

KERNELS = "stencil_kernels.json"
BLOCKS = ((32, 4, 1), (32, 8, 1), (64, 4, 1), (64, 8, 1), (128, 2, 1), (256, 1, 1), (32, 4, 4), (64, 2, 2), (32, 2, 8))
"""Threads along x, y, z."""
SAMPLES = 15
SAMPLE_S = 0.02
WARM_S = 0.2
"""Duration of calls before the first sample, in which the clock of the device rises."""
RELATIVE_ERROR = 1e-9
"""Largest difference from NumPy's results, relative to the largest of them."""
SEED = 0

Block = tuple[int, int, int]
Arrays = dict[str, Any]
Launch = Callable[[], None]


class Device(Protocol):
    """A GPU.

    Attributes:
        xp: The module of its arrays: CuPy.
    """

    xp: Any

    def function(self, source: str, name: str) -> Callable[[Block, Block, tuple[Any, ...]], None]:
        """Return a compiled kernel, which takes grid, block and arguments."""

    def seconds(self, call: Launch, calls: int) -> float:
        """Return the mean seconds of a call over several."""

    def graph(self, call: Launch) -> Launch:
        """Return a call that repeats the launches of another as one graph."""


class CupyDevice:
    """The current GPU of CuPy."""

    def __init__(self) -> None:
        import cupy

        self.xp = cupy
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._stream.use()
        self._start, self._end = cupy.cuda.Event(), cupy.cuda.Event()

    def function(self, source: str, name: str) -> Callable[[Block, Block, tuple[Any, ...]], None]:
        """Return a compiled kernel; see `Device.function`."""
        found: Callable[[Block, Block, tuple[Any, ...]], None] = self.xp.RawKernel(source, name, ("-std=c++17",))
        return found

    def seconds(self, call: Launch, calls: int) -> float:
        """Return the time of a call; see `Device.seconds`."""
        self._start.record(self._stream)
        for _ in range(calls):
            call()
        self._end.record(self._stream)
        self._end.synchronize()
        return float(self.xp.cuda.get_elapsed_time(self._start, self._end)) * 1e-3 / calls

    def graph(self, call: Launch) -> Launch:
        """Return the launches as a graph; see `Device.graph`."""
        self._stream.begin_capture()
        call()
        graph = self._stream.end_capture()
        return lambda: graph.launch(self._stream)


def references() -> Mapping[str, Callable[..., Any]]:
    """Return formulas by app: from the module of arrays, ``u`` and ``f`` to the values of ``u`` after a step."""
    return {"smoother7pt": smoother7pt, "smoother27pt": smoother27pt, "helmholtz": helmholtz, "denoise": denoise}


def part(array: Any, rim: int, offset: tuple[int, int, int] = (0, 0, 0)) -> Any:
    """Return an array without its rim, moved by an offset along z, y, x."""
    return array[tuple(slice(rim + o, n - rim + o) for o, n in zip(offset, array.shape, strict=True))]


def around(array: Any, rim: int, distance: int = 1) -> list[Any]:
    """Return the six values at a distance along the axes, without the rim."""
    units = np.eye(3, dtype=int)
    return [part(array, rim, tuple(m * units[axis])) for axis in range(3) for m in (-distance, distance)]


def smoother7pt(xp: Any, u: Any, f: Any) -> Any:
    """Return a step of the 7-point smoother."""
    a, c = 1.137, 0.163 * 0.625
    return a * part(u, 1) - c * (sum(around(u, 1)) - 6 * part(u, 1))


def smoother27pt(xp: Any, u: Any, f: Any) -> Any:
    """Return a step of the 27-point smoother."""
    a, c = 1.137, 0.163 * 0.625
    weights = (a + 0.13, 0.3 * c, c / 8, -c / 2)
    steps = (-1, 0, 1)
    return sum(weights[abs(k) + abs(j) + abs(i)] * part(u, 1, (k, j, i)) for k in steps for j in steps for i in steps)


def helmholtz(xp: Any, u: Any, f: Any) -> Any:
    """Return a step of the 13-point Helmholtz operator."""
    a, c = 1.137, 0.0833 * 0.163 * 0.625
    return (a - 90 * c) * part(u, 2) + c * sum(around(u, 2, 2)) + 16 * c * sum(around(u, 2))


def denoise(xp: Any, u: Any, f: Any) -> Any:
    """Return a step of Rician denoising."""
    g = xp.zeros_like(u)
    g[1:-1, 1:-1, 1:-1] = 1 / xp.sqrt(1e-20 + sum((part(u, 1) - other) ** 2 for other in around(u, 1)))
    weights, here, noisy = around(g, 1), part(u, 1), part(f, 1)
    r0 = here * noisy / 0.0025
    r = r0 * (2.38944 + r0 * (0.950037 + r0)) / (4.65314 + r0 * (2.57541 + r0 * (1.48937 + r0)))
    gamma = 0.065 / 0.0025
    drawn = sum(a * b for a, b in zip(around(u, 1), weights, strict=True)) + gamma * noisy * r
    return (here + 5.0 * drawn) / (1 + 5.0 * (sum(weights) + gamma))


def reference(xp: Any, app: str, u: Any, f: Any, steps: int) -> Any:
    """Return the values after some steps; the rim keeps those before."""
    for _ in range(steps):
        after = references()[app](xp, u, f)
        rim = (u.shape[0] - after.shape[0]) // 2
        u = u.copy()
        part(u, rim)[...] = after
    return u


class Peer:
    """Kernels of an app on a device, with their arrays.

    Args:
        device: The device.
        app: The app.
        document: Its entry in the file of kernels.
    """

    def __init__(self, device: Device, app: str, document: Mapping[str, Any]) -> None:
        self.app = app
        self._device = device
        self._steps = int(document["steps"])
        self._kernels = [(k, device.function(k["source"], k["name"])) for k in document["kernels"]]
        self._rim = (int(document["size"]) - int(document["kernels"][0]["points"][0])) // 2
        values = np.random.default_rng(SEED).random((2, *[int(document["size"])] * 3))
        self._u, self._f = (device.xp.asarray(v) for v in values)
        self._buffers = [self._u.copy(), self._u.copy()]
        self._g = device.xp.zeros_like(self._u)

    def call(self, block: Block | None) -> Launch:
        """Return a call that launches the kernels of all steps, with their own blocks if none is given."""
        launches: list[tuple[Any, Block, Block, tuple[Any, ...]]] = []
        before = self._u
        for step in range(self._steps):
            arrays = {"u": before, "after": self._buffers[step % 2], "f": self._f, "g": self._g}
            for kernel, function in self._kernels:
                x, y, z = threads = block or tuple(kernel["block"])
                depth, height, width = kernel["points"]
                grid = -(-width // x), -(-height // y), -(-depth // z)
                launches.append((function, grid, threads, tuple(arrays[name] for name in kernel["arrays"])))
            before = arrays["after"]

        def launch() -> None:
            for function, grid, threads, operands in launches:
                function(grid, threads, operands)

        return launch

    def is_right(self) -> bool:
        """Whether the arrays hold the results of all steps."""
        xp = self._device.xp
        expected = reference(xp, self.app, self._u, self._f, self._steps)
        found = self._buffers[(self._steps - 1) % 2]
        return bool(xp.abs(found - expected).max() <= RELATIVE_ERROR * xp.abs(expected).max())

    def row(self, scheduler: str, block: Block | None) -> dict[str, Any]:
        """Return the row of a block size; the results are spoilt before."""
        for buffer in (*self._buffers, self._g):
            part(buffer, self._rim)[...] = float("nan")
        call = self.call(block)
        call()
        row = {"app": self.app, "scheduler": scheduler, "ok": self.is_right()}
        if block:
            row["block"] = list(block)
        row["ms"] = self.milliseconds(call)
        row["graph_ms"] = self.milliseconds(self._device.graph(call))
        return row

    def milliseconds(self, call: Launch) -> float:
        """Return the median time of a call."""
        seconds = self._device.seconds
        calls = max(1, round(SAMPLE_S / max(seconds(call, 2), 1e-6)))
        start = time.perf_counter()
        while time.perf_counter() - start < WARM_S:
            seconds(call, calls)
        return statistics.median(seconds(call, calls) for _ in range(SAMPLES)) * 1e3

    def best_block(self) -> Block:
        """Return the fastest of the block sizes."""
        calls = {block: self.call(block) for block in BLOCKS}
        return min(calls, key=lambda block: min(self._device.seconds(calls[block], 3) for _ in range(5)))


def rows(device: Device, apps: Sequence[str], documents: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the rows of some apps."""
    for app in apps:
        peer = Peer(device, app, documents[app])
        yield peer.row("pystencils", None)
        yield peer.row("pystencils_best", peer.best_block())


def main(arguments: Sequence[str] | None = None, device: Device | None = None) -> None:
    """Time the apps of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("built", help="folder of other peers; not read")
    parser.add_argument("--apps", help="names, separated by commas; all of the kernels when left out")
    parser.add_argument("--json", type=Path, help="file of the rows")
    args = parser.parse_args(arguments)
    documents = json.loads((Path(__file__).parent / KERNELS).read_text())
    apps = args.apps.split(",") if args.apps else list(documents)
    unknown = [app for app in apps if app not in documents]
    if unknown:
        parser.error(f"no kernels of {', '.join(unknown)}; there are {', '.join(documents)}")
    found = []
    for row in rows(device or CupyDevice(), apps, documents):
        found.append(row)
        print(json.dumps(row), flush=True)
        if args.json:
            partial = args.json.with_suffix(".partial")
            partial.write_text(json.dumps(found))
            os.replace(partial, args.json)


if __name__ == "__main__":
    main()
