"""The report: whole, valid, escaped, and without a word from outside."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched import Func, Input, InputError, Pipeline, ScheduledPipeline, Var, float32
from autosched.apps import get_app, load_apps
from autosched.featurize.schema import NAMES
from autosched.report.measured import Measured, MeasuredCandidate
from autosched.report.page import report_html, write_report
from autosched.report.search_summary import how_found
from autosched.runtime.compile.nvrtc import have_nvrtc
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.search.tune.provenance import Provenance
from tests.model.untrained_weights import untrained_weights
from tests.report.parsing import Page

pytest.importorskip("jinja2")
HOSTILE = "<script>alert('1')</script>&\"'{{7*7}}"


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spares the compilation where its results are not looked at."""

    def missing() -> str:
        raise autosched.CompileError("no compiler in this test")

    monkeypatch.setattr("autosched.runtime.compile.nvrtc.nvrtc_version", missing)


def scheduled(name: str, target: str = "h200", strategy: str = "roots") -> ScheduledPipeline:
    app = get_app(name)
    return autosched.schedule(app.build(), app.shapes(app.small_sizes), target, strategy=strategy)


def check_page(html: str, s: ScheduledPipeline) -> Page:
    """Check the invariants of every report and return it parsed."""
    assert html.startswith("<!doctype html>")
    page = Page(html)
    assert len(set(page.ids)) == len(page.ids)
    links = page.attributes("a", "href")
    assert links and all(link.startswith("#") and link[1:] in page.ids for link in links)
    assert {name for _, found in page.tags for name in found} & {"src", "srcset", "xlink:href", "onload"} == set()
    assert not {tag for tag, _ in page.tags} & {"link", "img", "iframe", "object", "base", "form"}
    assert "http" not in html and "@import" not in html and "url(" not in html
    for k, kernel in enumerate(s.schedule.kernels):
        assert f"kernel-{k}" in page.ids
        assert f"Kernel {k}: {', '.join(kernel.root_funcs)}" in page.text
    assert s.text() in page.pre
    sources = [text for text in page.pre if text.startswith("// computes")]
    assert len(sources) == len(s.schedule.kernels)
    return page


@pytest.mark.parametrize("name", ["blur", "local_laplacian", "iir_blur", "camera_pipe", "sgemm", "hist", "rhs4center"])
def test_suite_apps(name: str, no_compiler: None) -> None:
    s = scheduled(name)
    page = check_page(report_html(s), s)
    whole = s.source("cuda")
    assert all(text in whole for text in page.pre if text.startswith("// computes"))
    assert len([1 for tag, found in page.tags if found.get("class", "").startswith("node ")]) == len(
        s.bound.funcs
    ) + len(s.bound.inputs)


def test_named_apps_exist() -> None:
    assert {"local_laplacian", "rhs4center"} <= load_apps().keys()


@pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")
def test_compiled_kernels_show_their_registers() -> None:
    s = scheduled("harris")
    page = check_page(report_html(s), s)
    for k in s.compile("cuda").resources:
        assert f"Registers {k.registers} a thread" in page.text
    assert "Stack 0 bytes a thread" in page.text and "Spills none" in page.text
    assert "registers not counted" not in page.text


def test_without_a_compiler_the_reason_is_shown(no_compiler: None) -> None:
    text = Page(report_html(scheduled("blur"))).text
    assert "Registers and spills are not known: no compiler in this test" in text
    assert "(registers not counted)" in text and "Spills" not in text


def test_a_search_is_shown(no_compiler: None) -> None:
    s = scheduled("unsharp", strategy="beam")
    assert s.search_result is not None
    page = check_page(report_html(s), s)
    c = s.search_result.counts
    assert f"{c.kernels} kernels costed" in page.text
    for table in (c.considered, c.pruned):
        assert all(f"{name} {n}" in page.text for name, n in table.items())
    assert all(name in page.text for name in NAMES)
    assert "dram" in page.text and "search" in page.ids


def test_a_schedule_from_a_file(tmp_path: Path, no_compiler: None) -> None:
    s = scheduled("blur")
    s.save(tmp_path / "blur.json")
    app = get_app("blur")
    again = autosched.load_schedule(tmp_path / "blur.json", app.build(), app.shapes(app.small_sizes))
    page = check_page(report_html(again), again)
    assert "read from a file" in page.text and "search" not in page.ids
    assert "analytical model for H200" in page.text


def test_a_cpu(no_compiler: None) -> None:
    s = scheduled("harris", "cpu", "beam")
    page = check_page(report_html(s), s)
    assert "this schedule is for a CPU" in page.text and "Occupancy" not in page.text
    assert "Generated C" in page.text and "Generated CUDA" not in page.text
    whole = s.source("cpu")
    assert all(text in whole for text in page.pre if text.startswith("// computes"))


def test_bottlenecks(no_compiler: None) -> None:
    app = get_app("unsharp")
    s = autosched.schedule(app.build(), app.shapes({"H": 1536, "W": 2560}), "h200", strategy="roots")
    text = check_page(report_html(s), s).text
    assert "Bottleneck bandwidth-bound at DRAM, by features" in " ".join(text.split())
    assert "0.314 flop a byte at DRAM, balance" in text
    assert "fuse the kernels of its producers into it: what they store passes DRAM twice" in text


def test_times(no_compiler: None) -> None:
    s = scheduled("blur")
    candidates = (
        MeasuredCandidate(2e-6, 3e-6, "chosen"),
        MeasuredCandidate(math.nan, 4e-6),
        MeasuredCandidate(5e-6, None, HOSTILE),
    )
    html = report_html(s, measured=Measured(3.5e-5, (1.25e-5, 2.25e-5), candidates, "measured:NVIDIA H200"))
    page = check_page(html, s)
    assert "Measured time 35 µs (measured:NVIDIA H200)" in page.text
    assert page.text.count("12.5 µs") == 2 and "22.5 µs" in page.text
    assert "1 2 µs 3 µs 1.5 chosen" in page.text
    assert "2 \N{EN DASH} 4 µs \N{EN DASH}" in page.text
    assert f"3 5 µs \N{EN DASH} \N{EN DASH} {HOSTILE}" in page.text
    assert "simulated" not in page.text.lower()


def test_simulated_times_are_called_that(no_compiler: None) -> None:
    s = scheduled("blur")
    text = Page(report_html(s, measured=Measured(1e-5, (4e-6, 6e-6), (), "simulated:H200"))).text
    assert "Simulated time 10 µs (simulated:H200)" in text and "nothing was run" in text
    assert "easured time" not in text


def test_labels_of_a_simulated_device_are_told(no_compiler: None, tmp_path: Path) -> None:
    from autosched.model.predict.learned import load_model
    from autosched.search.settings import SearchSettings
    from autosched.search.strategies.protocol import Beam

    s = scheduled("blur")
    model = load_model(untrained_weights(tmp_path / "w.safetensors"), s.target)
    found = Beam(SearchSettings(refine=0)).search(s.bound, s.target, cost=model)
    learned = ScheduledPipeline(s.bound, found.best, s.target, search_result=found)
    text = Page(report_html(learned)).text
    assert "trained with times of a simulated device" in text and "labels simulated:H200" in text


def test_times_of_other_kernels_are_refused(no_compiler: None) -> None:
    with pytest.raises(InputError, match="times of 3 kernels are given for a schedule of 2"):
        report_html(scheduled("blur"), measured=Measured(1.0, (0.2, 0.3, 0.5)))


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0])
def test_times_must_be_times(seconds: float) -> None:
    with pytest.raises(InputError, match="no measured time"):
        Measured(seconds)
    with pytest.raises(InputError, match="no measured time"):
        Measured(1.0, (seconds,))


def hostile_pipeline() -> ScheduledPipeline:
    """A pipeline whose names could never be given to it by the front door."""
    x, image = Var("x"), Input("image", float32, 1)
    stage, result = Func("stage"), Func("result")
    stage[x] = image[x] * image[x + 1] + 1  # <b>bold & "quoted"</b>
    # </pre><script>alert(1)</script>
    result[x] = stage[x] + stage[x + 1]
    stage.name = f"stage{HOSTILE}"
    pipeline = Pipeline(result.over(x=(0, 128)))
    pipeline.name = f"pipe{HOSTILE}"
    return autosched.schedule(pipeline, {"image": (130,)}, "h200", strategy="roots")


def test_everything_is_escaped(no_compiler: None) -> None:
    s = hostile_pipeline()
    html = report_html(s)
    page = Page(html)
    assert f"pipe{HOSTILE} for H200" in page.text
    assert any(f"stage{HOSTILE}" in text for text in page.pre)
    assert [tag for tag, _ in page.tags].count("script") == 1, "only the page's own"
    assert html.count("<script>alert") == 0 and "<b>bold" not in html


def test_definitions_come_with_the_comments_above_them(no_compiler: None) -> None:
    page = Page(report_html(hostile_pipeline()))
    shown = "\n".join(text for text in page.pre if text.startswith("test_page.py:"))
    assert "# </pre><script>alert(1)</script>\n    result[x] = stage[x] + stage[x + 1]" in shown
    assert 'stage[x] = image[x] * image[x + 1] + 1  # <b>bold & "quoted"</b>' in shown
    assert str(Path(__file__).parent) not in page.text, "directories are nobody's business"


def test_a_pipeline_without_inputs(no_compiler: None) -> None:
    x, f = Var("x"), Func("f")
    f[x] = x * 2
    s = autosched.schedule(Pipeline(f.over(x=(0, 100))), target="h200", strategy="roots")
    assert "Inputs none" in check_page(report_html(s), s).text


def test_parameters(no_compiler: None) -> None:
    x, image, scale = Var("x"), Input("image", float32, 1), autosched.Param("scale", float32, default=2.0)
    f = Func("f")
    f[x] = image[x] * scale
    s = autosched.schedule(Pipeline(f), {"image": (64,)}, "h200", strategy="roots")
    assert "scale: float32 = 2.0" in Page(report_html(s)).text


def test_written_whole_or_not_at_all(tmp_path: Path, no_compiler: None) -> None:
    s = scheduled("blur")
    s.report(tmp_path / "report.html", Measured(1e-5))
    assert "Measured time 10 µs" in Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    with pytest.raises(InputError, match="cannot write"):
        write_report(tmp_path / "missing" / "report.html", s)
    with pytest.raises(InputError, match="kernels are given"):
        write_report(tmp_path / "report.html", s, measured=Measured(1.0, (1.0,)))
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert "Measured time 10 µs" in (tmp_path / "report.html").read_text(encoding="utf-8").replace("</dt><dd>", " ")


@pytest.fixture
def no_jinja(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    yield


def test_without_jinja_the_way_out_is_named(tmp_path: Path, no_jinja: None) -> None:
    with pytest.raises(InputError, match=r"pip install autosched\[report\]"):
        scheduled("blur").report(tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("name", "target"), [("harris", "h200"), ("iir_blur", "cpu")])
def test_notebooks_need_no_jinja_and_compile_nothing(name: str, target: str, no_jinja: None, no_compiler: None) -> None:
    s = scheduled(name, target)
    page = Page(s._repr_html_())
    assert page.pre == [s.text()]
    assert [tag for tag, _ in page.tags].count("svg") == 1 and "script" not in {tag for tag, _ in page.tags}
    assert f"{name} for {s.target.name}" in page.text and page.attributes("a", "href") == [] and page.ids == []


def test_notebooks_are_escaped() -> None:
    html = hostile_pipeline()._repr_html_()
    page = Page(html)
    assert "script" not in {tag for tag, _ in page.tags}
    assert f"pipe{HOSTILE}" in page.text


def test_how_it_was_found() -> None:
    s = scheduled("blur", strategy="beam")
    assert s.search_result is not None
    c = s.search_result.counts
    costed = f"{c.kernels} kernels costed, cache hit rate {c.hit_rate:.0%}"
    assert re.fullmatch(rf"searched, beam, seed 0, in [\d.]+ m?s; {costed}", how_found(s))
    cut = replace(s.search_result, cut_short=True, note="a note")
    assert how_found(ScheduledPipeline(s.bound, s.schedule, s.target, search_result=cut)).endswith(
        f"{costed}; cut short by its time budget; a note"
    )
    origin = Provenance(how="tuned", strategy="beam", samples=80, seed=3, took_s=2.0, note="all spill", reused=True)
    reused = ScheduledPipeline(s.bound, s.schedule, s.target, provenance=origin)
    assert how_found(reused) == (
        "tuned, beam of 80 samples, seed 3, in 2 s; taken from the cache of schedules; all spill"
    )
    assert how_found(ScheduledPipeline(s.bound, s.schedule, s.target)).startswith("without a search")


def test_a_prediction_by_another_model_is_told(no_compiler: None) -> None:
    s = scheduled("blur")
    origin = Provenance(model="learned model of yesterday", predicted_s=1.5e-3)
    text = Page(report_html(ScheduledPipeline(s.bound, s.schedule, s.target, provenance=origin))).text
    assert "1.5 ms by the learned model of yesterday, when the schedule was found" in text
    assert "Cost model analytical model for H200, rates" in text


@pytest.mark.parametrize("seed", range(4))
def test_random_schedules(seed: int, no_compiler: None) -> None:
    """Copies of sources, several stages in a kernel and Funcs in every memory are shown too."""
    s = scheduled("harris")
    drawn = sample_schedule(s.bound, s.target, np.random.default_rng(seed), varied=True)
    random = ScheduledPipeline(s.bound, drawn, s.target)
    page = check_page(report_html(random), random)
    assert all(m.func in page.text for k in drawn.kernels for m in k.fused)
