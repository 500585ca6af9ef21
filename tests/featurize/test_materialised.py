"""Features of materialised producers, against counts of the emulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched import Func, Input, Pipeline, float32
from autosched.analysis.bind import bind
from autosched.analysis.bound_pipeline import BoundPipeline
from autosched.featurize.featurizer import Featurizer
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.kernel_from_sketch import build_kernel
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.schedule.types import Kernel
from autosched.target import get_target
from tests.lower.run_backends import traced
from tests.schedule.building import block, kernel, member, root, schedule, x, y

H200 = get_target("h200")


def blurred_and_sharp(rows: int, columns: int) -> BoundPipeline:
    """Two outputs, one of which reads the other at three points."""
    image, blurred, sharp = Input("image", float32, 2), Func("blurred"), Func("sharp")
    blurred[y, x] = image[y, x] * 3.0
    sharp[y, x] = blurred[y, x] - blurred[y + 1, x] - blurred[y, x + 1]
    outputs = [blurred.over(y=(0, rows + 1), x=(0, columns + 1)), sharp.over(y=(0, rows), x=(0, columns))]
    return bind(Pipeline(outputs), {"image": (rows + 1, columns + 1)})


def storing(bound: BoundPipeline, threads: str) -> Kernel:
    m = replace(member(block("sharp", 2), "yx", blurred=threads), materialised=True)
    return kernel(bound, [root("sharp", "by=16 bx=8 tx=32 ty=8")], [m])


@pytest.mark.parametrize("threads", ["tx=32 ty=9 sx=2", "tx=33 ty=9"])
def test_sectors_stored_match_the_emulator(threads: str) -> None:
    bound = blurred_and_sharp(128, 256)
    found = storing(bound, threads)
    sketch, params = describe_kernel(bound, found)
    assert sketch.location("blurred") is not None and sketch.location("blurred").stored  # type: ignore[union-attr]
    model = Featurizer(bound, H200, amortised=False).model(sketch)
    assert build_kernel(model, np.array(params, np.int64)).fused[0].materialised
    features = model.evaluate(np.array([params], np.int64)).features[0]
    stores = features[:, INDEX["num_global_mem_stores_per_block"]]
    trace = traced(bound, lower(bound, schedule(bound, found)))
    assert stores[1] > 0, "the Member's row"
    assert stores.sum() * 128 == pytest.approx(trace.global_store_sectors, rel=0.2)
    written = features[:, INDEX["global_bytes_written_by_kernel"]]
    assert written.tolist() == [128 * 256 * 4, 129 * 257 * 4]
    assert features[1, INDEX["live_out_bytes"]] == 129 * 257 * 4


def test_producers_that_are_not_materialised_write_no_global_memory() -> None:
    bound = blurred_and_sharp(128, 256)
    found = storing(bound, "tx=33 ty=9")
    found = replace(found, fused=(replace(found.fused[0], materialised=False),))
    sketch, params = describe_kernel(bound, found)
    features = Featurizer(bound, H200).model(sketch).evaluate(np.array([params], np.int64)).features[0]
    assert features[1, INDEX["num_global_mem_stores_per_block"]] == 0
    assert features[1, INDEX["live_out_bytes"]] == 0
