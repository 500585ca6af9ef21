"""The HTML report of a scheduled pipeline."""

from __future__ import annotations

import math
import os
from importlib import resources as files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched._version import __version__
from autosched.commands.files import replacing
from autosched.errors import InputError
from autosched.report.graph_svg import graph_svg
from autosched.report.kernels import kernel_facts
from autosched.report.measured import Measured, MeasuredCandidate
from autosched.report.numbers import UNKNOWN, shown_bytes, shown_count, shown_dims, shown_ratio, shown_time
from autosched.report.prediction import Prediction, predict
from autosched.report.resources import compiled_resources
from autosched.report.roofline_svg import RooflinePoint, roofline_svg
from autosched.report.search_summary import SearchTables, how_found
from autosched.report.sources import macros
from autosched.report.svg import markup
from autosched.scheduled_protocol import Scheduled

if TYPE_CHECKING:
    import jinja2


def report_html(scheduled: Scheduled, *, measured: Measured | None = None) -> str:
    """Return a self-contained page on a scheduled pipeline.

    The kernels of a schedule for a GPU are compiled if NVRTC is installed and they are not in the cache.

    Args:
        scheduled: The pipeline.
        measured: Its times, if they were measured.

    Raises:
        InputError: If Jinja is not installed, or the number of times is not the number of kernels.
    """
    template = _template()
    target = scheduled.target
    origin = scheduled.provenance
    resources = compiled_resources(scheduled)
    prediction = predict(
        scheduled.bound, scheduled.schedule, target, scheduled.search_result, "" if origin is None else origin.model,
        [info.registers for info in resources.kernels],
    )  # fmt: skip
    kernels = kernel_facts(scheduled, prediction, resources, measured)
    points = [
        RooflinePoint(k.number, k.name, k.colour, k.limit.intensity, k.limit.flops / k.best_seconds)
        for k in sorted(kernels, key=lambda k: k.best_seconds)  # the longest bars are drawn last
        if k.best_seconds > 0
    ]
    drawn = {p.number for p in points if p.is_drawn}
    return template.render(
        version=__version__,
        name=scheduled.bound.pipeline.name,
        target=target,
        is_gpu=target.kind == "cuda",
        signature=scheduled.signature,
        parameters=_parameters(scheduled),
        func_count=len(scheduled.bound.funcs),
        workspace_bytes=scheduled.program.workspace_bytes,
        prediction=prediction,
        earlier=origin if origin is not None and origin.model not in ("", prediction.model) else None,
        measured=measured,
        simulated=_simulated(prediction, measured),
        how_found=how_found(scheduled),
        search=None if scheduled.search_result is None else SearchTables.of(scheduled.search_result.counts),
        resources=resources,
        kernels=kernels,
        has_kernel_times=measured is not None and measured.kernel_seconds is not None,
        all_seconds=sum(k.best_seconds for k in kernels if math.isfinite(k.best_seconds)),
        limit_seconds=sum(k.limit.seconds for k in kernels),
        roofline=markup(roofline_svg(points, target)) if drawn else "",
        not_in_roofline=[k.number for k in kernels if k.number not in drawn],
        graph=markup(graph_svg(scheduled.bound, scheduled.schedule)),
        nest=scheduled.text(),
        macros=macros(target),
        style=_file("style.css"),
        script=_file("script.js"),
    )


def write_report(path: str | os.PathLike[str], scheduled: Scheduled, *, measured: Measured | None = None) -> None:
    """Write `report_html` to a file, which is replaced whole or not at all.

    Args:
        path: The file.
        scheduled: The pipeline.
        measured: Its times, if they were measured.

    Raises:
        InputError: If the file cannot be written; otherwise as for `report_html`.
    """
    with replacing(Path(path)) as file:
        file.write(report_html(scheduled, measured=measured).encode())


def _parameters(scheduled: Scheduled) -> list[str]:
    signature = scheduled.signature
    fixed = [f"{name} = {value} (built in)" for name, value in signature.fixed.items()]
    passed = [
        f"{name}: {dtype}" + (f" = {signature.defaults[name]}" if name in signature.defaults else "")
        for name, dtype in signature.scalars.items()
    ]
    return fixed + passed


def _simulated(prediction: Prediction, measured: Measured | None) -> str:
    """Return the note on simulated times; empty if there are none."""
    said = []
    if prediction.is_simulated:
        said.append("The cost model was trained with times of a simulated device, not with measured ones.")
    if measured is not None and measured.is_simulated:
        said.append(f"The times called simulated come from {measured.source}; nothing was run.")
    return " ".join(said)


def _quotient(candidate: MeasuredCandidate) -> str:
    if candidate.seconds is None or not candidate.predicted_seconds > 0:
        return UNKNOWN
    return f"{candidate.seconds / candidate.predicted_seconds:.3g}"


def _template() -> jinja2.Template:
    try:
        import jinja2
        import markupsafe
    except ImportError as e:
        raise InputError("reports need Jinja: pip install autosched[report]") from e
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    filters: dict[str, Any] = {
        "time": shown_time,
        "bytes": shown_bytes,
        "count": shown_count,
        "ratio": shown_ratio,
        "dims": shown_dims,
        "quotient": _quotient,
        "markup": markupsafe.Markup,
    }
    environment.filters |= filters
    return environment.from_string(_file("report.html.j2"))


def _file(name: str) -> str:
    return files.files("autosched.report").joinpath(name).read_text(encoding="utf-8")
