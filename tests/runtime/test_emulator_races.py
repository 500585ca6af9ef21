"""Races, conflicting writes and divergent barriers are found whatever order the threads run in."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.runtime.compile.host_compiler import have_compiler
from autosched.runtime.emulator import EmulatedKernel, EmulatorError, ErrorKind, ParamSpec, compile_emulated

pytestmark = pytest.mark.skipif(not have_compiler("c++"), reason="no C++ compiler")

F32 = np.dtype(np.float32)
U8 = np.dtype(np.uint8)
I32 = np.dtype(np.int32)


def out(name: str, count: int, dtype: np.dtype = F32) -> ParamSpec:
    return ParamSpec("out", dtype, name, count)


def into(name: str, count: int, dtype: np.dtype = F32) -> ParamSpec:
    return ParamSpec("in", dtype, name, count)


def compile_text(body: str, *params: ParamSpec) -> EmulatedKernel:
    return compile_emulated(body, body.split("KERNEL(")[1].split(",")[0], params, common_prelude="")


def line_of(body: str, text: str) -> int:
    """Return the line, from 1, that holds ``text``, which only one line does."""
    (line,) = [number for number, line in enumerate(body.splitlines(), 1) if text in line]
    return line


def errors_over_seeds(
    body: str, shared_bytes: int = 4, grid: int = 1, params: tuple[ParamSpec, ...] = (), workers: int = 1
) -> set[tuple[ErrorKind, int]]:
    """Launch blocks of 32 threads in 24 orders, each of which must fail; return the errors by kind and line."""
    params = params or (out("b", 32, I32),)
    kernel = compile_text(body, *params)
    found = set()
    for seed in range(24):
        with pytest.raises(EmulatorError) as caught:
            kernel.launch(
                (grid, 1, 1),
                (32, 1, 1),
                shared_bytes,
                [np.zeros(p.count, p.dtype) for p in params],
                seed=seed,
                single_writer=False,
                workers=workers,
            )
        found.add((caught.value.kind, caught.value.line))
    return found


# Each pair of statements conflicts, whichever thread comes first; `x` is shared or global.
CONFLICTS = {
    "read and write": ("if (t == 3) { sum = LOAD(2, x, 0); }", "if (t == 20) { STORE(3, x, 0, 7); }"),
    "write and write": ("if (t == 3) { STORE(2, x, 0, 5); }", "if (t == 20) { STORE(3, x, 0, 7); }"),
    "read, and update": ("if (t == 3) { sum = LOAD(2, x, 0); }", "if (t == 20) { STORE(3, x, 0, LOAD(4, x, 0)); }"),
}
DECLARE_X = {"shared": "SHARED(int, x, 1, 0);", "global": ""}


@pytest.mark.parametrize("space", DECLARE_X)
@pytest.mark.parametrize("conflict", CONFLICTS)
def test_conflicts_are_found_in_either_order(space: str, conflict: str) -> None:
    one, other = CONFLICTS[conflict]
    body = f"""
KERNEL(conflict, 32)(GLOBAL_OUT(int, b, 32), GLOBAL_OUT(int, {"unused" if space == "shared" else "x"}, 1)) {{
    {DECLARE_X[space]}
    const int t = threadIdx.x;
    int sum = 0;
    if (t == 9) {{ STORE(0, x, 0, 1); }}
    BARRIER();
    {one}
    {other}
    STORE(1, b, t, sum);
}}
"""
    params = (out("b", 32, I32), out("unused" if space == "shared" else "x", 1, I32))
    found = errors_over_seeds(body, params=params)
    # The thread that comes second is stopped, so both lines turn up when the order is shuffled.
    assert found == {(ErrorKind.RACE, line_of(body, one)), (ErrorKind.RACE, line_of(body, other))}

    ordered = body.replace(other, f"BARRIER();\n    {other}")
    compile_text(ordered, *params).launch(
        (1, 1, 1), (32, 1, 1), 4, [np.zeros(32, np.int32), np.zeros(1, np.int32)], single_writer=False
    )


def test_threads_of_a_kernel_without_barriers_run_in_a_shuffled_order_too() -> None:
    body = """
KERNEL(unordered, 32)(GLOBAL_OUT(int, b, 32)) {
    if (threadIdx.x == 3) { STORE(0, b, 5, 1); }
    if (threadIdx.x == 20) { STORE(1, b, 6, LOAD(2, b, 5)); }
}
"""
    assert errors_over_seeds(body) == {(ErrorKind.RACE, 3), (ErrorKind.RACE, 4)}


@pytest.mark.parametrize("barrier", ["", "BARRIER();"])
def test_the_thread_order_follows_from_seed_and_block_alone(barrier: str) -> None:
    body = f"""
KERNEL(fifth, 32)(GLOBAL_OUT(int, b, 32)) {{
    {barrier}
    if (blockIdx.x == 5) {{ STORE(0, b, 0, 1); }}
}}
"""
    kernel = compile_text(body, out("b", 32, I32))
    found = set()
    for seed in range(8):
        pairs = set()
        for blocks in (None, [(5, 0, 0)], [(4, 0, 0), (5, 0, 0)]):
            with pytest.raises(EmulatorError) as caught:
                kernel.launch((6, 1, 1), (32, 1, 1), 0, [np.zeros(32, np.int32)], seed=seed, blocks=blocks)
            pairs.add((caught.value.thread, caught.value.other_thread))
        assert len(pairs) == 1
        found |= pairs
    assert len(found) > 4


def test_reads_of_several_blocks_conflict_with_a_write_of_the_last() -> None:
    body = """
KERNEL(last, 32)(GLOBAL_OUT(int, b, 32)) {
    if (threadIdx.x == 0) { STORE(0, b, blockIdx.x, LOAD(1, b, 9)); }
    BARRIER();
    if (threadIdx.x == 1 && blockIdx.x == 2) {
        const int old = LOAD(2, b, 9);
        STORE(3, b, 9, old);
    }
}
"""
    for workers in (1, 3):
        found = errors_over_seeds(body, grid=3, workers=workers)
        assert {kind for kind, _ in found} == {ErrorKind.RACE}
    assert errors_over_seeds(body, grid=3) == {(ErrorKind.RACE, line_of(body, "STORE(3"))}


def test_a_removed_second_barrier_is_found_although_everything_is_initialised() -> None:
    body = """
KERNEL(rotate, 64)(GLOBAL_OUT(int, out, 64)) {
    SHARED(int, s, 64, 0);
    const int t = threadIdx.x;
    STORE(0, s, t, t);
    BARRIER();
    const int next = LOAD(1, s, (t + 1) % 64);
    BARRIER();  // nobody may overwrite s before all have read it
    STORE(2, s, t, next + 100);
    BARRIER();
    STORE(3, out, t, LOAD(4, s, (t + 1) % 64));
}
"""
    result = np.zeros(64, np.int32)
    compile_text(body, out("out", 64, I32)).launch((1, 1, 1), (64, 1, 1), 256, [result])
    np.testing.assert_array_equal(result, (np.arange(64) + 2) % 64 + 100)

    broken = compile_text(body.replace("    BARRIER();  //", "    //"), out("out", 64, I32))
    for seed in range(5):
        with pytest.raises(EmulatorError, match="race") as caught:
            broken.launch((1, 1, 1), (64, 1, 1), 256, [result], seed=seed)
        error = caught.value
        assert error.buffer == "s"
        # A thread overwrites an element that another has read, or reads one that another has overwritten.
        assert error.line in (line_of(body, "next ="), line_of(body, "next +"))
        assert error.other_thread is not None and error.other_thread != error.thread


def test_shared_bytes_reused_with_another_element_type_are_tracked() -> None:
    body = """
KERNEL(reuse, 32)(GLOBAL_OUT(float, b, 32), GLOBAL_OUT(unsigned char, c, 32)) {
    SHARED(unsigned char, bytes, 32, 0);
    SHARED(float, floats, 32, 0);
    const int t = threadIdx.x;
    STORE(0, bytes, t, t);
    BARRIER();
    STORE(1, c, t, LOAD(2, bytes, 31 - t));
    BARRIER();
    STORE(3, floats, t, t * 0.5f);
    BARRIER();
    STORE(4, b, t, LOAD(5, floats, 31 - t));
}
"""
    b, c = np.zeros(32, np.float32), np.zeros(32, np.uint8)
    params = out("b", 32), out("c", 32, U8)
    compile_text(body, *params).launch((1, 1, 1), (32, 1, 1), 128, [b, c])
    np.testing.assert_array_equal(b, np.arange(31, -1, -1) * np.float32(0.5))
    np.testing.assert_array_equal(c, np.arange(31, -1, -1))

    too_early = compile_text(body.replace("31 - t));\n    BARRIER();\n    STORE(3", "31 - t));\n    STORE(3"), *params)
    with pytest.raises(EmulatorError, match="race"):
        too_early.launch((1, 1, 1), (32, 1, 1), 128, [b, c])


@pytest.mark.parametrize("workers", [1, 4])
def test_a_barrier_in_a_divergent_branch_is_found(workers: int) -> None:
    body = """
KERNEL(some, 64)(GLOBAL_OUT(int, out, 128)) {
    if (threadIdx.x != 9 || blockIdx.x == 0) {
        BARRIER();
    }
    STORE(0, out, blockIdx.x * 64 + threadIdx.x, 1);
}
"""
    result = np.zeros(128, np.int32)
    with pytest.raises(EmulatorError, match=r"not reached by thread \(9, 0, 0\), which has returned") as caught:
        compile_text(body, out("out", 128, I32)).launch((2, 1, 1), (64, 1, 1), 0, [result], workers=workers)
    assert caught.value.kind is ErrorKind.DIVERGENT_BARRIER
    assert caught.value.block == (1, 0, 0)
    assert caught.value.thread == (0, 0, 0)
    assert caught.value.line == line_of(body, "BARRIER")
    assert caught.value.other_thread == (9, 0, 0)


def test_threads_waiting_at_two_barriers_are_divergent_even_on_one_line() -> None:
    body = """
KERNEL(two, 64)(GLOBAL_OUT(int, out, 64)) {
    if (threadIdx.x < 32) { BARRIER(); } else { BARRIER(); }
    STORE(0, out, threadIdx.x, 1);
}
"""
    with pytest.raises(EmulatorError, match="waits at line 3") as caught:
        compile_text(body, out("out", 64, I32)).launch((1, 1, 1), (64, 1, 1), 0, [np.zeros(64, np.int32)])
    assert caught.value.other_thread == (32, 0, 0)
    assert caught.value.other_line == 3


def test_two_writers_of_one_global_element() -> None:
    body = """
KERNEL(twice, 32)(GLOBAL_OUT(int, b, 8)) {
    if (threadIdx.x == 3 || threadIdx.x == 20) { STORE(0, b, 0, threadIdx.x); }
}
"""
    kernel = compile_text(body, out("b", 8, I32))
    with pytest.raises(EmulatorError, match=r"b\[0\] is written by this thread and by thread") as caught:
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [np.zeros(8, np.int32)])
    assert caught.value.kind is ErrorKind.WRITE_CONFLICT
    assert {caught.value.thread, caught.value.other_thread} == {(3, 0, 0), (20, 0, 0)}
    with pytest.raises(EmulatorError, match="race"):
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [np.zeros(8, np.int32)], single_writer=False)


def test_global_accesses_of_different_blocks_are_never_ordered() -> None:
    body = """
KERNEL(chain, 32)(GLOBAL_OUT(int, b, 8)) {
    const int n = blockIdx.x;
    if (threadIdx.x == 0) { STORE(0, b, n, n); }
    BARRIER();
    if (threadIdx.x == 1) { STORE(1, b, n + 4, LOAD(2, b, n ^ 1)); }
}
"""
    kernel = compile_text(body, out("b", 8, I32))
    for workers in (1, 2):
        with pytest.raises(EmulatorError, match="race") as caught:
            kernel.launch((2, 1, 1), (32, 1, 1), 0, [np.zeros(8, np.int32)], workers=workers)
        assert caught.value.buffer == "b"

    own = compile_text(body.replace("n ^ 1", "n"), out("b", 8, I32))
    b = np.zeros(8, np.int32)
    own.launch((4, 1, 1), (32, 1, 1), 0, [b], workers=2)
    np.testing.assert_array_equal(b, [0, 1, 2, 3, 0, 1, 2, 3])


def test_global_element_rewritten_after_a_barrier_needs_single_writer_off() -> None:
    body = """
KERNEL(update, 32)(GLOBAL_OUT(int, b, 32)) {
    const int t = threadIdx.x;
    STORE(0, b, t, t);
    BARRIER();
    STORE(1, b, 31 - t, LOAD(2, b, 31 - t) + 100);
}
"""
    kernel = compile_text(body, out("b", 32, I32))
    b = np.zeros(32, np.int32)
    with pytest.raises(EmulatorError) as caught:
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [b])
    assert caught.value.kind is ErrorKind.WRITE_CONFLICT
    for seed in range(3):
        b[:] = 0
        kernel.launch((1, 1, 1), (32, 1, 1), 0, [b], seed=seed, single_writer=False)
        np.testing.assert_array_equal(b, np.arange(32) + 100)
    racing = compile_text(body.replace("BARRIER();", ""), out("b", 32, I32))
    with pytest.raises(EmulatorError, match="race"):
        racing.launch((1, 1, 1), (32, 1, 1), 0, [b], single_writer=False)


@pytest.mark.parametrize(("steps_of_37", "steps_of_38"), [(4_000_000, 12_000_000), (4_000_000, 1)])
def test_the_error_of_the_earliest_block_is_reported_whatever_the_workers(steps_of_37: int, steps_of_38: int) -> None:
    # While one worker is busy with block 37, another starts 38 and finds its error later or earlier.
    body = f"""
KERNEL(late, 32)(GLOBAL_OUT(int, b, 2048)) {{
    const int n = blockIdx.x;
    REGISTER(int, steps, 1);
    STORE(0, steps, 0, 0);
    for (int i = 0; i < (n == 37 ? {steps_of_37} : n == 38 ? {steps_of_38} : 1); i++) {{
        ITER(0, i);
        STORE(1, steps, 0, LOAD(2, steps, 0) + 1);
    }}
    STORE(3, b, n * 32 + threadIdx.x + (n > 36 ? 2048 : 0), LOAD(4, steps, 0));
}}
"""
    kernel = compile_text(body, out("b", 2048, I32))
    for workers in (1, 2, 7):
        with pytest.raises(EmulatorError) as caught:
            kernel.launch((64, 1, 1), (32, 1, 1), 0, [np.zeros(2048, np.int32)], workers=workers)
        assert caught.value.block == (37, 0, 0)
