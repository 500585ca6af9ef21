"""Launching, with a GPU that only takes notes."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from autosched.errors import InputError, LaunchError
from autosched.lang.dtypes import float16, float32, int32, uint8
from autosched.runtime.call.caller_context import CallerContext, context_of
from autosched.runtime.call.launch_plan import (
    Binding,
    BufferArgument,
    LaunchScalar,
    LaunchStep,
    Signature,
    StepArgument,
    WorkspaceArgument,
)
from autosched.runtime.call.launcher import CudaModule, LaunchSequence

CUBINS = {"blur_x": b"first cubin", "blur_y": b"second cubin"}
STEPS = (
    LaunchStep("blur_x", (4, 2, 1), (32, 8, 1), 0, (BufferArgument("img"), WorkspaceArgument(256))),
    LaunchStep(
        "blur_y",
        (8, 1, 1),
        (64, 1, 1),
        1024,
        (WorkspaceArgument(256), BufferArgument("out", byte_offset=12), LaunchScalar("sigma", float32)),
    ),
)
POINTERS = {"img": 0x1000, "out": 0x2000}
SCALARS = {"sigma": 1.5}


def _sequence(gpu: Any, workspace_bytes: int = 4096) -> LaunchSequence:
    return LaunchSequence(CUBINS, STEPS, workspace_bytes=workspace_bytes, driver=gpu)


def _workspaces(gpu: Any) -> list[int]:
    """Return the workspace address of each direct launch of blur_x."""
    return [int(launch.arguments[1]) - 256 for _, launch in gpu.launches if launch.function.name == "blur_x"]


def test_first_call_launches_every_kernel_in_order(gpu: Any) -> None:
    _sequence(gpu).run(POINTERS, SCALARS)
    assert gpu.ran == [(0, "blur_x"), (0, "blur_y")]
    (_, first), (_, second) = gpu.launches
    (workspace,) = gpu.memory
    assert workspace.size == 4096
    assert (first.grid, first.block, first.shared_bytes) == ((4, 2, 1), (32, 8, 1), 0)
    assert (second.grid, second.block, second.shared_bytes) == ((8, 1, 1), (64, 1, 1), 1024)
    assert first.arguments == (0x1000, workspace.ptr + 256)
    assert second.arguments == (workspace.ptr + 256, 0x200C, 1.5)
    assert [argument.dtype for argument in second.arguments] == [np.uint64, np.uint64, np.float32]


def test_a_graph_is_captured_when_a_call_comes_a_second_time(gpu: Any) -> None:
    sequence = _sequence(gpu)
    sequence.run(POINTERS, SCALARS)
    assert not gpu.graphs
    sequence.run(POINTERS, SCALARS)
    (graph,) = gpu.graphs
    assert graph.launches == tuple(launch for _, launch in gpu.launches)
    sequence.run(POINTERS, SCALARS)
    assert len(gpu.graphs) == 1
    assert [stream for stream, _ in gpu.graph_launches] == [0, 0], "on the caller's stream, not the capturing one"
    assert len(gpu.launches) == 2


@pytest.mark.parametrize(("first", "second"), [(1.5, 2.0), (1.5, float("nan")), (0.0, -0.0)])
def test_other_scalars_are_another_call(gpu: Any, first: float, second: float) -> None:
    sequence = _sequence(gpu)
    sequence.run(POINTERS, {"sigma": first})
    sequence.run(POINTERS, {"sigma": second})
    assert not gpu.graphs
    sequence.run(POINTERS, {"sigma": second})
    (graph,) = gpu.graphs
    assert graph.launches[1].arguments[2].tobytes() == np.float32(second).tobytes()


def test_other_pointers_are_another_call(gpu: Any) -> None:
    sequence = _sequence(gpu)
    for img in (0x1000, 0x3000, 0x5000):
        sequence.run({**POINTERS, "img": img}, SCALARS)
    assert not gpu.graphs
    assert [int(launch.arguments[0]) for _, launch in gpu.launches[::2]] == [0x1000, 0x3000, 0x5000]


def test_only_the_last_calls_are_remembered(gpu: Any) -> None:
    sequence = _sequence(gpu)
    calls = [{**POINTERS, "img": 0x1000 * number} for number in range(1, 18)]
    for pointers in calls:
        sequence.run(pointers, SCALARS)
    sequence.run(calls[-1], SCALARS)
    assert len(gpu.graphs) == 1
    sequence.run(calls[0], SCALARS)
    assert len(gpu.graphs) == 1, "the seventeenth call has pushed out the first"


def test_one_kernel_needs_no_graph(gpu: Any) -> None:
    sequence = LaunchSequence(CUBINS, STEPS[:1], workspace_bytes=4096, driver=gpu)
    for _ in range(3):
        sequence.run(POINTERS)
    assert gpu.ran == [(0, "blur_x")] * 3
    assert not gpu.graphs


def test_graphs_can_be_turned_off(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CUDA_GRAPHS", "0")
    sequence = _sequence(gpu)
    for _ in range(3):
        sequence.run(POINTERS, SCALARS)
    assert len(gpu.launches) == 6
    assert not gpu.graphs


def test_a_driver_without_capturing_warns_once(gpu: Any) -> None:
    gpu.fail_capture = True
    sequence = _sequence(gpu)
    sequence.run(POINTERS, SCALARS)
    with pytest.warns(RuntimeWarning, match="CUDA graphs are disabled: capturing is not supported"):
        sequence.run(POINTERS, SCALARS)
    sequence.run(POINTERS, SCALARS)
    assert len(gpu.launches) == 6


def test_a_failure_inside_a_capture_ends_it(gpu: Any) -> None:
    sequence = _sequence(gpu)
    sequence.run(POINTERS, SCALARS)
    gpu.fail_launch = "blur_y"
    with pytest.warns(RuntimeWarning, match="kernel blur_y"), pytest.raises(LaunchError, match="kernel blur_y"):
        sequence.run(POINTERS, SCALARS)
    assert len(gpu.graphs) == 1, "the capture was ended, and its graph thrown away"
    assert not gpu.graph_launches


def test_each_stream_has_its_workspace(gpu: Any) -> None:
    sequence = _sequence(gpu)
    for pointer in (0, 7, 0, 7):
        gpu.stream = gpu.other_stream(pointer)
        sequence.run({**POINTERS, "img": 0x1000 + len(gpu.launches)}, SCALARS)
    first, second, *again = _workspaces(gpu)
    assert first != second
    assert again == [first, second]
    assert len(gpu.memory) == 2


def test_graphs_of_two_streams_use_their_own_workspaces(gpu: Any) -> None:
    sequence = _sequence(gpu)
    for pointer in (0, 7, 0, 7):
        gpu.stream = gpu.other_stream(pointer)
        sequence.run(POINTERS, SCALARS)
    assert [stream for stream, _ in gpu.graph_launches] == [0, 7]
    assert [int(graph.launches[0].arguments[1]) - 256 for graph in gpu.graphs] == [piece.ptr for piece in gpu.memory]


def test_each_thread_has_a_workspace_for_its_own_default_stream(gpu: Any) -> None:
    gpu.stream = gpu.other_stream(2)
    sequence = _sequence(gpu)
    sequence.run(POINTERS, SCALARS)
    thread = threading.Thread(target=sequence.run, args=(POINTERS, SCALARS))
    thread.start()
    thread.join()
    assert len(set(_workspaces(gpu))) == 2


def test_no_workspace_is_made_where_none_is_needed(gpu: Any) -> None:
    step = LaunchStep("blur_x", (1, 1, 1), (32, 1, 1), 0, (BufferArgument("img"), BufferArgument("out")))
    LaunchSequence(CUBINS, [step], driver=gpu).run(POINTERS)
    assert not gpu.memory


def test_workspaces_of_many_streams_do_not_pile_up(gpu: Any) -> None:
    sequence = _sequence(gpu)
    for pointer in range(100, 140):
        gpu.stream = gpu.other_stream(pointer)
        sequence.run(POINTERS, SCALARS)
    assert len(gpu.memory) == 40
    assert len(sequence._workspaces._direct) == 16


def test_launches_are_plain_while_the_caller_captures(gpu: Any) -> None:
    sequence = _sequence(gpu)
    gpu.stream = gpu.other_stream(9)
    sequence.run(POINTERS, SCALARS)
    recording: list[Any] = []
    gpu.stream.recording = recording
    for _ in range(3):
        sequence.run(POINTERS, SCALARS)
    assert [launch.function.name for launch in recording] == ["blur_x", "blur_y"] * 3
    assert not gpu.graphs
    gpu.stream.recording = None
    captured = {int(launch.arguments[1]) for launch in recording if launch.function.name == "blur_x"}
    direct = {int(launch.arguments[1]) for _, launch in gpu.launches if launch.function.name == "blur_x"}
    assert len(captured) == len(direct) == 1
    assert captured != direct, "a replay may run beside a direct call"


def test_a_framework_whose_graphs_own_memory_gets_a_fresh_piece_each_time(gpu: Any) -> None:
    stream = gpu.other_stream(9)
    stream.recording = []
    caller = CallerContext(stream, lambda size: gpu.allocate(size, stream), graphs_own_memory=True)
    sequence = _sequence(gpu)
    for _ in range(2):
        sequence.run(POINTERS, SCALARS, caller=caller)
    assert len(gpu.memory) == 2


def test_an_explicit_graph_is_independent_of_direct_calls(gpu: Any) -> None:
    sequence = _sequence(gpu)
    graph = sequence.capture(POINTERS, SCALARS, keep_alive="arrays")
    assert not gpu.launches
    sequence.run(POINTERS, SCALARS)
    graph.launch()
    graph.launch(gpu.other_stream(5))
    assert [stream for stream, _ in gpu.graph_launches] == [0, 5]
    (captured,) = gpu.graphs
    assert int(captured.launches[0].arguments[1]) - 256 != _workspaces(gpu)[0]


def test_modules_are_loaded_once_for_each_device(gpu: Any) -> None:
    one_cubin = {"blur_x": b"both", "blur_y": b"both"}
    sequence = LaunchSequence(one_cubin, STEPS, workspace_bytes=4096, driver=gpu)
    for device in (0, 1, 0, None, 1):
        sequence.run(POINTERS, SCALARS, device=device)
    assert gpu.modules == [(0, b"both"), (1, b"both")]
    assert gpu.current_device() == 0
    assert [launch.function.device for _, launch in gpu.launches] == [0, 0, 1, 1]
    assert [graph.launches[0].function.device for graph in gpu.graphs] == [0, 1]


def test_nothing_is_launched_for_an_empty_grid(gpu: Any) -> None:
    empty = LaunchStep("blur_x", (0, 1, 1), (32, 1, 1), 0, (BufferArgument("img"),))
    LaunchSequence({"blur_x": b""}, [empty], driver=gpu).run({"img": 1})
    CudaModule(b"", gpu).launch("blur_x", (4, 0, 1), (32, 1, 1), ())
    assert not gpu.launches


def test_large_shared_memory_is_asked_for_once(gpu: Any) -> None:
    module = CudaModule(b"cubin", gpu)
    for shared_bytes in (1024, 48 * 1024, 100_000, 100_000, 60_000, 120_000):
        module.launch("k", (1, 1, 1), (32, 1, 1), (), shared_bytes)
    assert gpu.allowed == [("k", 100_000), ("k", 120_000)]
    assert [launch.shared_bytes for _, launch in gpu.launches][-1] == 120_000


def test_too_much_shared_memory_is_refused_before_the_launch(gpu: Any) -> None:
    gpu.shared_limit = 64 * 1024
    with pytest.raises(LaunchError, match=r"kernel k needs 70000 bytes .* this GPU has 65536"):
        CudaModule(b"cubin", gpu).launch("k", (1, 1, 1), (32, 1, 1), (), 70_000)
    assert not gpu.launches


def test_errors_name_the_kernel(gpu: Any) -> None:
    gpu.fail_launch = "blur_y"
    with pytest.raises(LaunchError, match="kernel blur_y: the driver refuses"):
        _sequence(gpu).run(POINTERS, SCALARS)


def test_missing_values_are_named(gpu: Any) -> None:
    with pytest.raises(LaunchError, match="no value is given for 'out'"):
        _sequence(gpu).run({"img": 1}, SCALARS)
    with pytest.raises(LaunchError, match="no value is given for 'sigma'"):
        _sequence(gpu).run(POINTERS)


def test_calls_of_several_threads_do_not_mix(gpu: Any) -> None:
    gpu.slow = True
    sequence = _sequence(gpu)
    threads = [
        threading.Thread(target=sequence.run, args=({**POINTERS, "img": number}, SCALARS)) for number in range(1, 9)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [name for _, name in gpu.ran] == ["blur_x", "blur_y"] * 8
    assert sorted(int(launch.arguments[0]) for _, launch in gpu.launches[::2]) == list(range(1, 9))
    assert len(gpu.memory) == 1


@pytest.mark.parametrize(
    ("grid", "block", "shared_bytes"),
    [((1, 1, 1), (0, 1, 1), 0), ((-1, 1, 1), (1, 1, 1), 0), ((1, 1), (1, 1, 1), 0), ((1, 1, 1), (1, 1, 1), -1)],
)
def test_impossible_steps_are_refused(grid: Any, block: Any, shared_bytes: int) -> None:
    with pytest.raises(ValueError, match="k: "):
        LaunchStep("k", grid, block, shared_bytes, ())


def test_scalars_take_their_kernels_type() -> None:
    binding = Binding({}, {"a": 3, "b": True, "c": 1.5})
    step = LaunchStep(
        "k",
        (1, 1, 1),
        (1, 1, 1),
        0,
        (LaunchScalar("a", uint8), LaunchScalar("b", int32), LaunchScalar("c", float16)),
    )
    arguments = binding.arguments_of(step, 0)
    assert [argument.dtype for argument in arguments] == [np.uint8, np.int32, np.float16]
    assert [argument.item() for argument in arguments] == [3, 1, 1.5]
    with pytest.raises(InputError, match="parameter 'a' of type uint8: 256 is not in 0 to 255"):
        Binding({}, {"a": 256, "b": 0, "c": 0}).arguments_of(step, 0)


def test_a_signature_names_what_is_taken_once() -> None:
    signature = Signature.of(STEPS * 2)
    assert signature.buffers == ("img", "out")
    assert signature.scalars == (LaunchScalar("sigma", float32),)
    same = [signature.key(Binding(POINTERS, {"sigma": float("nan")})) for _ in range(2)]
    assert same[0] == same[1]


def test_the_caller_without_tensors_works_with_cupy(gpu: Any) -> None:
    gpu.stream = gpu.other_stream(5)
    caller = context_of([np.zeros(1)], gpu, 0)
    assert caller.stream.ptr == 5
    assert caller.allocate(100).ptr == gpu.memory[0].ptr
    assert not caller.graphs_own_memory


def test_the_caller_with_tensors_works_on_pytorchs_stream(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: type("S", (), {"cuda_stream": 77 + device}))
    made: list[tuple[int, str]] = []

    def empty(size: int, dtype: Any, device: str) -> Any:
        made.append((size, device))
        return torch.zeros(size, dtype=dtype)

    monkeypatch.setattr(torch, "empty", empty)
    caller = context_of([np.zeros(1), torch.zeros(1)], gpu, 1)
    assert caller.stream.ptr == 78
    assert caller.graphs_own_memory
    assert caller.allocate(100).ptr != 0
    assert made == [(100, "cuda:1")]


def test_a_kernel_is_launched_once_for_each_step_and_told_which(gpu: Any) -> None:
    step = LaunchStep("scan", (4, 1, 1), (32, 1, 1), 0, (BufferArgument("out"), StepArgument()), launches=3)
    sequence = LaunchSequence({"scan": b"a cubin"}, [step], driver=gpu)
    sequence.run(POINTERS)
    assert [launch.arguments for _, launch in gpu.launches] == [(0x2000, n) for n in range(3)]
    assert all(launch.arguments[1].dtype == np.int32 for _, launch in gpu.launches)
    sequence.run(POINTERS)
    (graph,) = gpu.graphs
    assert len(graph.launches) == 3, "several launches of one kernel are worth a graph"
