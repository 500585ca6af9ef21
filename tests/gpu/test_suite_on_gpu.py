"""The suite on a real GPU: same schedules and inputs as everywhere, within the tolerance that FMA contraction needs."""

from __future__ import annotations

import numpy as np
import pytest

import autosched
from autosched.analysis.bind import bind
from autosched.analysis.pipeline_rewrites import RFactor
from autosched.analysis.rewrites.rfactor import apply_rfactors
from autosched.apps import get_app, load_apps
from autosched.lang.dtypes import as_dtype
from autosched.reference import interpret
from autosched.schedule.legality.validate import violations
from autosched.schedule.sampling.random_schedule import sample_schedule
from autosched.scheduled_pipeline import ScheduledPipeline
from autosched.search.strategies.compute_root import schedule_roots
from autosched.target import Target
from tests.analysis.test_atomic_updates import TYPED, binned, binned_inputs, in_shared_memory
from tests.featurize.test_sliding_window_scaling import BUFFERED, planes, walking
from tests.lower.hybrid_cases import stencils, stencils_kernel
from tests.lower.test_materialised import FINE, FIRST, SECOND, pyramid, storing_kernels
from tests.schedule.building import schedule
from tests.schedule.mainloop_cases import in_steps, product
from tests.schedule.test_validate_warp_reductions import GOOD
from tests.schedule.warp_reduction_cases import TYPED as SHUFFLED
from tests.schedule.warp_reduction_cases import at_root, inputs_of, rows_of

pytestmark = pytest.mark.gpu

SAMPLES = 6


def scheduled(name: str, seed: int | None) -> tuple[ScheduledPipeline, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return an app with the `roots` schedule (seed None) or a random legal one, its inputs and expected outputs."""
    app = get_app(name)
    pipeline, params = app.configure({"stages": 4} if "stages" in app.structure else {})
    inputs = app.make_inputs(app.small_sizes, 0)
    target = Target.detect()
    result = autosched.schedule(pipeline, inputs=inputs, target=target, params=params, strategy="roots")
    if seed is not None:
        drawn = sample_schedule(result.bound, target, np.random.default_rng(seed))
        result = ScheduledPipeline(result.bound, drawn, target, params)
    return result, inputs, interpret(pipeline, inputs, params)


@pytest.mark.parametrize("seed", [None, *range(SAMPLES)])
@pytest.mark.parametrize("name", load_apps())
def test_app_matches_the_interpreter(name: str, seed: int | None) -> None:
    import cupy

    result, inputs, expected = scheduled(name, seed)
    kernel = result.compile("cuda")
    got = kernel({n: cupy.asarray(a) for n, a in inputs.items()})
    outputs = [got] if len(expected) == 1 else list(got)
    for array, (output, want) in zip(outputs, expected.items(), strict=True):
        # Integers may be rounded floats as well: contraction may move these across a half.
        mismatch = get_app(name).tolerance.mismatch(cupy.asnumpy(array), want)
        assert mismatch is None, f"{output}: {mismatch}"


def test_repeated_calls_agree_once_a_graph_replays() -> None:
    import cupy

    result, inputs, _ = scheduled("unsharp", None)
    kernel = result.compile("cuda")
    arrays = {n: cupy.asarray(a) for n, a in inputs.items()}
    out = cupy.empty_like(kernel(arrays))
    first = cupy.asnumpy(kernel(arrays, out=out)).copy()
    for _ in range(4):
        out.fill(0)
        np.testing.assert_array_equal(cupy.asnumpy(kernel(arrays, out=out)), first)


@pytest.mark.parametrize("filling", ["in each step", "a step ahead", "past registers"])
@pytest.mark.parametrize(("rows", "columns", "terms"), [(48, 72, 24), (41, 65, 48), (515, 333, 240)])
def test_reductions_in_steps(rows: int, columns: int, terms: int, filling: str) -> None:
    """Sums in another order than NumPy's, so as many digits as products of whole numbers have."""
    import cupy

    bound = product(rows, columns, terms)
    found = in_steps(bound, tile=f"by={-(-rows // 16)} bx={-(-columns // 24)}", walked=f"rr.k={terms // 4}")
    if filling != "in each step":
        found = found.with_double_buffering() if filling == "a step ahead" else found.with_async_copies()
    target = Target.detect()
    assert violations(bound, schedule(bound, found), target) == []
    kernel = ScheduledPipeline(bound, schedule(bound, found), target, {}).compile("cuda")
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float32) for shape in ((rows, terms), (terms, columns)))
    for _ in range(3):  # a race may not show in the first run
        got = cupy.asnumpy(kernel({"a": cupy.asarray(a), "b": cupy.asarray(b)}))
        np.testing.assert_array_equal(got, np.maximum(a @ b * 2, 0))


@pytest.mark.parametrize("filling", BUFFERED)
@pytest.mark.parametrize("rows", [1, 2, 4])
def test_windows_that_slide(rows: int, filling: str) -> None:
    import cupy

    bound = planes()
    found = BUFFERED[filling](walking(bound, rows, 64 // (4 * rows), staged=filling == "past registers"))
    kernel = ScheduledPipeline(bound, schedule(bound, found), Target.detect(), {}).compile("cuda")
    volume = np.random.default_rng(0).integers(-8, 8, (66, 16, 64)).astype(np.float32)
    got = cupy.asnumpy(kernel({"volume": cupy.asarray(volume)}))
    np.testing.assert_array_equal(got, interpret(bound.pipeline, {"volume": volume})["out"])


@pytest.mark.parametrize(("rows", "columns"), [(50, 90), (56, 96)])
def test_members_that_are_stored(rows: int, columns: int) -> None:
    import cupy

    bound = pyramid(rows, columns)
    chosen = schedule(bound, *storing_kernels(bound, FINE, FIRST, SECOND))
    kernel = ScheduledPipeline(bound, chosen, Target.detect(), {}).compile("cuda")
    inputs = {"image": np.random.default_rng(0).integers(-8, 8, (rows, columns)).astype(np.float32)}
    got = cupy.asnumpy(kernel({n: cupy.asarray(a) for n, a in inputs.items()}))
    np.testing.assert_array_equal(got, interpret(bound.pipeline, inputs)["out"])


@pytest.mark.parametrize("name", GOOD)
def test_lanes_share_terms(name: str) -> None:
    import cupy

    bound, chosen = GOOD[name]
    inputs = inputs_of(bound)
    kernel = ScheduledPipeline(bound, chosen, Target.detect(), {}).compile("cuda")
    got = cupy.asnumpy(kernel({n: cupy.asarray(a) for n, a in inputs.items()}))
    np.testing.assert_array_equal(got, *interpret(bound.pipeline, inputs).values())


@pytest.mark.parametrize(("op", "name"), SHUFFLED)
def test_lanes_share_terms_of_all_types(op: str, name: str) -> None:
    import cupy

    bound = rows_of((5, 70), op, name)
    chosen, inputs = at_root(bound, "by=3 ty=2", "by=3 rr.k=5 tr.k=16 ty=2"), inputs_of(bound)
    kernel = ScheduledPipeline(bound, chosen, Target.detect(), {}).compile("cuda")
    got = cupy.asnumpy(kernel({n: cupy.asarray(a) for n, a in inputs.items()}))
    np.testing.assert_array_equal(got, *interpret(bound.pipeline, inputs).values())


@pytest.mark.parametrize("warps", [(1, 1), (2, 2)])
@pytest.mark.parametrize("lanes", [(32, 1), (8, 4), (10, 3)])
@pytest.mark.parametrize("dim", ["x", "y"])
@pytest.mark.parametrize("name", ["float32", "float64", "uint8", "int16"])
def test_hybrid_tiles(name: str, dim: str, lanes: tuple[int, int], warps: tuple[int, int]) -> None:
    import cupy

    bound = stencils(dtype=as_dtype(name))
    rng = np.random.default_rng(0)
    inputs = {"img": rng.integers(0, 50, bound.inputs["img"].shape).astype(name)}
    for share in ((1, 1), (2, 1), (9, 9)):
        chosen = schedule(bound, stencils_kernel(bound, lanes, (2, 2), dim, share, warps))
        kernel = ScheduledPipeline(bound, chosen, Target.detect(), {}).compile("cuda")
        got = cupy.asnumpy(kernel({n: cupy.asarray(a) for n, a in inputs.items()}))
        np.testing.assert_array_equal(got, *interpret(bound.pipeline, inputs).values())


@pytest.mark.parametrize("place", ["shared memory", "global memory"])
@pytest.mark.parametrize(("op", "name"), TYPED)
def test_atomic_updates(op: str, name: str, place: str) -> None:
    import cupy

    dtype, target = as_dtype(name), Target.detect()
    pipeline, inputs = binned(op, dtype), binned_inputs(dtype)
    bound = bind(pipeline, {n: a.shape for n, a in inputs.items()})
    view = apply_rfactors(bound, (RFactor("f", 1, (("r.y", 3),), atomic=True),))
    chosen = in_shared_memory(view, "f", 3, (3, 37), 11) if place == "shared memory" else schedule_roots(view, target)
    kernel = ScheduledPipeline(bound, chosen, target, {}).compile("cuda")
    got = cupy.asnumpy(kernel({n: cupy.asarray(a) for n, a in inputs.items()}))
    expected = interpret(pipeline, inputs)["f"]
    if dtype.is_float:
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    else:
        np.testing.assert_array_equal(got, expected)
