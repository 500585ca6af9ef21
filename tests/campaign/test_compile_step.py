"""Code and schedules from the step `compile` on another machine."""

from __future__ import annotations

import gzip
import json
import lzma
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from campaign import sample_files
from campaign.campaign import Campaign, StateError
from campaign.cubin_bundle import CODE_FILE, pack_code, unpack_code
from campaign.files import DRAWN_FILE
from campaign.options import Options
from campaign.plan import chosen_steps
from campaign.precomputed_schedules import read_drawn

from autosched.codegen.cuda import print_cuda
from autosched.errors import CompileError
from autosched.measure.backends.cuda import CudaBackend
from autosched.measure.job import Job
from autosched.measure.problem import Problem
from autosched.runtime.compile import nvrtc
from autosched.runtime.compile.nvrtc import NvrtcOptions, cached_cubin, cubin_key, have_nvrtc
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.target import get_target
from tests.campaign.tiny_campaign import options, run

pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.skipif(not have_nvrtc(), reason="NVRTC is not installed")

H200 = get_target("h200")
TINY = {"stages": [1, 2], "extents": [16, 64], "channels": [1, 4]}
SCHEDULES = {"beam": 0, "greedy": 0, "states": 2, "legal": 1, "mutations": 0}
CACHE = "AUTOSCHED_CACHE_DIR"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Options]:
    """A campaign prepared in two calls, whose cache is lost afterwards."""
    directory = tmp_path_factory.mktemp("ahead")
    chosen = options(
        directory, strategies=("roots", "sioutas"), samples=10, pipelines=3, schedules=SCHEDULES, pipeline_settings=TINY
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE, str(directory / "first"))
        first, _ = run("compile", replace(chosen, samples=3))
        assert first.finished, first.message
        patch.setenv(CACHE, str(directory / "second"))
        second, step_context = run("compile", chosen)
        assert second.finished, second.message
        assert "times" not in second.message, "nothing failed"
        assert sum(part["schedules"] for part in step_context.parts.values()) >= 10
    yield chosen


def jobs_of(chosen: Options) -> list[Job]:
    drawn = read_drawn(chosen.out_path / DRAWN_FILE)
    return [Job(Problem.parse(p), text, H200) for p, found in drawn.items() for _, text in found]


@pytest.fixture
def elsewhere(prepared: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Options:
    """The same campaign on another machine with a broken compiler."""
    monkeypatch.setenv(CACHE, str(tmp_path / "cache"))
    assert unpack_code(prepared.out_path / CODE_FILE, tmp_path / "cache") > 0

    def broken(*_: object) -> tuple[bytes, str]:
        raise CompileError("there is no compiler here")

    monkeypatch.setattr(nvrtc, "_compile", broken)
    return prepared


def test_collection_needs_no_compiler(elsewhere: Options) -> None:
    jobs = jobs_of(elsewhere)
    assert len(jobs) >= 10
    for job in jobs:
        assert CudaBackend("any").prepare(job).kernels
    with pytest.raises(CompileError):
        nvrtc.compile_cubin("__global__ void other() {}", H200.arch, name="other")


def test_timing_and_calls_need_no_compiler(elsewhere: Options) -> None:
    (step,) = json.loads((elsewhere.out_path / "schedules.json").read_text()).values()
    assert {name.rpartition("/")[2] for name in step} == {"roots", "sioutas"}
    for part in step.values():
        job = Job(Problem.parse(part["problem"]), part["schedules"][0], H200)
        CudaBackend("any").prepare(job)
        opened = job.problem.opened()
        called = ScheduledPipeline(opened.bound, job.read_schedule(), H200, opened.scalars)
        for kernel in map(print_cuda, called.program.kernels):
            key = cubin_key(kernel.source, H200.arch, NvrtcOptions(), kernel.name)
            assert cached_cubin(key, H200.arch) is not None


def test_precomputed_schedules_are_collected_first(prepared: Options, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / DRAWN_FILE).write_bytes((prepared.out_path / DRAWN_FILE).read_bytes())
    drawn = read_drawn(out / DRAWN_FILE)
    count = sum(map(len, drawn.values()))
    outcome, step_context = run("collect", replace(prepared, out=str(out), work=str(tmp_path / "work"), samples=count))
    assert outcome.finished, outcome.message
    (path,) = sample_files.sample_paths(out)
    rows = {(r["problem"], r["schedule"]) for r in pq.read_table(path).to_pylist()}
    assert {(problem, text) for problem, found in drawn.items() for _, text in found} <= rows
    assert set(drawn) <= set(step_context.parts)


def test_a_campaign_unpacks_the_code_in_its_directory(
    prepared: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(CACHE, raising=False)
    chosen = replace(prepared, work=str(tmp_path / "work"))
    said: list[str] = []
    for _ in range(2):
        Campaign(chosen, say=said.append).run(chosen_steps(["train"]), 30.0)
    assert sum(CODE_FILE in text for text in said) == 1, "the second call needs no unpacking"
    assert list((tmp_path / "work/cache/cubin").glob("*/*.cubin"))


def test_a_damaged_file_is_named(prepared: Options, tmp_path: Path) -> None:
    for name, read in ((CODE_FILE, lambda p: unpack_code(p, tmp_path / "cache")), (DRAWN_FILE, read_drawn)):
        whole = (prepared.out_path / name).read_bytes()
        for content in (whole[: len(whole) // 2], b"nothing of the kind", gzip.compress(b"[1]"), lzma.compress(b"1")):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(ValueError, match=f"{name} is damaged"):
                read(tmp_path / name)
    (tmp_path / CODE_FILE).write_bytes(b"")
    with pytest.raises(StateError, match=CODE_FILE):
        Campaign(options(tmp_path, out=str(tmp_path))).run(chosen_steps(["train"]), 10.0)


def test_only_code_is_packed_and_unpacked(tmp_path: Path) -> None:
    cache, code = tmp_path / "cache", tmp_path / CODE_FILE
    name = f"cubin/ab/ab{62 * '0'}-{64 * '1'}.cubin"
    for entry in (name, "cubin/ab/.writing-1-0123456789abcdef.cubin", "schedules/ab/other.json", "mine.txt"):
        (cache / entry).parent.mkdir(parents=True, exist_ok=True)
        (cache / entry).write_text(entry)
    assert pack_code(cache, code) == 1
    assert unpack_code(code, tmp_path / "other") == 1
    assert (tmp_path / "other" / name).read_text() == name
    assert unpack_code(tmp_path / "none", tmp_path / "other") == 0
