"""Find schedules of Harris corners and unsharp mask for an H200 and run them on a photograph.

Usage: python scripts/demo.py [DIRECTORY]

Needs a C compiler and no GPU: the generated CUDA is compiled to sm_90, and the same schedules run through the C
backend. Results are compared, bit for bit, with the NumPy interpreter, which is independent of schedules. The directory
(`out` by default) gets pictures, CUDA source, loop nests, schedules and reports.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import autosched
from autosched.api import schedule
from autosched.apps import get_app
from autosched.apps.images import BRIGHTEST, DARKEST, luma
from autosched.apps.photo import load_photo, save_png
from autosched.runtime.compile.nvrtc import nvrtc_version

TARGET = "h200"
APPS = ("harris", "unsharp")
SIZES = {"H": 1536, "W": 2560}
RUNS = 15
CORNERS = 400
SAMPLES = 16
"""Searches for each schedule; small pipelines need few."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Result:
    """Result of one pipeline; times in seconds."""

    name: str
    stages: int
    kernels: tuple[autosched.KernelInfo, ...]
    schedule_s: float
    predicted_s: float | None
    model: str
    nvrtc_s: float
    run_s: float
    interpreter_s: float
    output: Array
    agrees: bool


def main() -> int:
    """Run the demonstration; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default="out", help="where to write (default: out)")
    out = Path(parser.parse_args().directory)
    out.mkdir(parents=True, exist_ok=True)
    image = get_app(APPS[0]).make_inputs(SIZES)["input"]
    say(f"photograph, padded with mirrored copies: float32{list(image.shape)}")
    results = [demonstrate(name, image, out) for name in APPS]
    draw(image, {result.name: result.output for result in results}, out)
    write(out / "report.md", report(results))
    say(f"pictures, CUDA source, loop nests, schedules and report.md are in {out}/; open {out}/harris.html")
    wrong = [result.name for result in results if not result.agrees]
    if wrong:
        print(f"error: {', '.join(wrong)}: the C backend and the interpreter disagree", file=sys.stderr)
    return 1 if wrong else 0


def demonstrate(name: str, image: Array, out: Path) -> Result:
    """Schedule, compile for both backends, run, compare and write files."""
    pipeline = get_app(name).build()
    started = time.perf_counter()
    scheduled = schedule(pipeline, inputs={"input": image}, target=TARGET, samples=SAMPLES, reuse=False)
    schedule_s = time.perf_counter() - started
    write(out / f"{name}.txt", scheduled.text())
    write(out / f"{name}.cu", scheduled.source("cuda"))
    scheduled.save(out / f"{name}.json")

    started = time.perf_counter()
    kernels = scheduled.compile("cuda").resources
    nvrtc_s = time.perf_counter() - started

    scheduled.report(out / f"{name}.html")
    on_cpu = scheduled.compile("cpu")
    output = on_cpu(input=image)
    run_s = statistics.median(seconds(lambda: on_cpu(input=image, out=output)) for _ in range(RUNS))
    started = time.perf_counter()
    expected = autosched.interpret(pipeline, {"input": image})["output"]
    interpreter_s = time.perf_counter() - started
    agrees = np.array_equal(output, expected)
    origin = scheduled.provenance
    assert origin is not None
    result = Result(
        name, len(scheduled.bound.funcs), kernels, schedule_s, origin.predicted_s, origin.model, nvrtc_s, run_s,
        interpreter_s, output, agrees,
    )  # fmt: skip
    say(summary(result))
    return result


def summary(r: Result) -> str:
    """Return the terminal output of one pipeline."""
    spilled = sum(k.spill_bytes or 0 for k in r.kernels)
    most = max(k.registers or 0 for k in r.kernels)
    verdict = "equal to the NumPy interpreter in every bit" if r.agrees else "DIFFERENT from the NumPy interpreter"
    return (
        f"{r.name}: {r.stages} stages in {len(r.kernels)} kernel{'s' * (len(r.kernels) != 1)}, scheduled for "
        f"{TARGET.upper()} in {r.schedule_s:.1f} s; predicted {predicted(r)} by the {r.model}\n"
        f"  CUDA compiled to sm_90 in {r.nvrtc_s:.2f} s: at most {most} registers, {spilled} bytes spilled\n"
        f"  C backend {r.run_s * 1e3:.1f} ms, {verdict} ({r.interpreter_s * 1e3:.0f} ms)"
    )


def predicted(r: Result) -> str:
    return "-" if r.predicted_s is None else f"{r.predicted_s * 1e6:.0f} us"


def draw(image: Array, outputs: dict[str, Array], out: Path) -> None:
    """Write pictures of the part of the arrays without padding."""
    height, width, _ = load_photo().shape
    crop = image[:, :height, :width]
    save_png(out / "input.png", as_bytes(crop))
    save_png(out / "unsharp.png", as_bytes(outputs["unsharp"][:, :height, :width]))
    save_png(out / "harris.png", with_corners(luma(crop), outputs["harris"]))


def as_bytes(image: Array) -> Array:
    """Return an image [3, H, W] in the apps' range as bytes [H, W, 3]."""
    scaled = (image - DARKEST) * (255 / (BRIGHTEST - DARKEST))
    return np.ascontiguousarray(np.clip(np.rint(scaled), 0, 255).astype(np.uint8).transpose(1, 2, 0))


def with_corners(gray: Array, response: Array) -> Array:
    """Return the darkened picture with the strongest corners marked; ``response`` starts 3 pixels inside of it."""
    margin, reach = 3, 2
    height, width = gray.shape
    inside = response[: height - 2 * margin, : width - 2 * margin]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(inside, reach), (2 * reach + 1,) * 2)
    peaks = np.where(windows.max(axis=(2, 3)) == inside, inside, 0)
    strongest = np.argsort(peaks, axis=None)[-CORNERS:]
    picture = np.repeat((gray * 220).astype(np.uint8)[..., None], 3, axis=2)
    for y, x in zip(*np.unravel_index(strongest, inside.shape), strict=True):
        picture[y + margin - 1 : y + margin + 2, x + margin - 1 : x + margin + 2] = (255, 64, 0)
    return picture


def report(results: list[Result]) -> str:
    """Return the report as Markdown."""
    lines = [
        "# Results of the demonstration",
        "",
        f"Made by `scripts/demo.py` with autosched {autosched.__version__} on {platform.machine()}, "
        f"{os.cpu_count()} CPUs, Python {platform.python_version()}, NVRTC {nvrtc_version()}.",
        f"Images have {SIZES['H']} x {SIZES['W']} pixels: the photograph, padded with mirrored copies. "
        "The pictures show its first copy.",
        f"Times of the C backend are medians of {RUNS} runs of the H200 schedule on this CPU; "
        f"nothing ran on a GPU: times of the {TARGET.upper()} are predicted, by the {results[0].model}. "
        "Kernels and schedules of earlier runs come from the cache.",
        "",
        "| pipeline | stages | kernels | scheduling | predicted | CUDA to sm_90 | C backend | interpreter | results |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for r in results:
        lines.append(
            f"| {r.name} | {r.stages} | {len(r.kernels)} | {r.schedule_s:.1f} s | {predicted(r)} | {r.nvrtc_s:.2f} s "
            f"| {r.run_s * 1e3:.1f} ms | {r.interpreter_s * 1e3:.0f} ms | {'equal' if r.agrees else 'DIFFERENT'} |"
        )
    for r in results:
        lines += [
            "",
            f"## {r.name}",
            "",
            "| kernel | grid | block | shared bytes | registers | stack bytes | spilled bytes |",
            "|---|---|---|---|---|---|---|",
        ]
        lines += [
            f"| {k.name} | {k.grid[0]} x {k.grid[1]} x {k.grid[2]} | {k.block[0]} x {k.block[1]} x {k.block[2]} "
            f"| {k.shared_bytes} | {k.registers} | {k.stack_bytes} | {k.spill_bytes} |"
            for k in r.kernels
        ]
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def seconds(run: Any) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def say(text: str) -> None:
    """Print a line without buffering, to show the progress of long steps."""
    print(text, flush=True)
