"""Labels of a processor name their target, wherever they are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.host import read_host
from autosched.measure.store import cpu_labels
from autosched.measure.store.cpu_labels import processor_name, target_of_labels
from autosched.target import cpu_target, get_target

XEON = "measured:cpu Intel(R) Xeon(R) Processor [GenuineIntel 6 amx, 16 lanes, 2048 and 491520 KiB of cache] x1"


def test_labels_are_of_the_processor_that_they_describe() -> None:
    target = target_of_labels(get_target("cpu"), XEON)
    assert target.processor == "GenuineIntel 6 amx"
    assert (target.multiprocessors, target.warp_size) == (1, 16)
    assert (target.shared_per_block_optin, target.l2_bytes) == (1 << 20, 480 << 20)


@pytest.mark.parametrize("name", ["AMD EPYC", "Odd [name, 8 lanes] x4", ""])
@pytest.mark.parametrize("threads", [1, 3])
def test_labels_of_this_machine_are_of_its_target(name: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_labels, "processor_name", lambda: name)
    here = cpu_target(read_host(cores=threads))
    found = target_of_labels(get_target("cpu"), cpu_labels.cpu_source(threads))
    assert found == here
    assert found.processor == here.processor


@pytest.mark.parametrize(("source", "cores"), [("measured:cpu AMD EPYC x3", 3), ("measured:cpu a processor x4 x2", 2)])
def test_labels_that_describe_no_processor_are_taken_for_this_machines(source: str, cores: int) -> None:
    assert target_of_labels(get_target("cpu"), source) == cpu_target(read_host(cores=cores))


def test_labels_of_a_gpu_are_of_the_whole_device() -> None:
    h200 = get_target("h200")
    assert target_of_labels(h200, "simulated:H200 2 x1") is h200


def test_the_processor_has_a_name(tmp_path: Path) -> None:
    file = tmp_path / "cpuinfo"
    assert processor_name(file) == "unknown"
    file.write_text("processor\t: 0\nmodel name\t: A Processor 9000\n")
    assert processor_name(file) == "A Processor 9000"
