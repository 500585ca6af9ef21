"""Features of row scans over all steps, against counts of their code."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.featurize.featurizer import Featurizer
from autosched.featurize.scaling.row_scans import Scan
from autosched.featurize.scaling.step_scaling import scaling_for
from autosched.featurize.schema import INDEX
from autosched.featurize.sketch.sketch_from_kernel import describe_kernel
from autosched.lower.program import lower
from autosched.measure.simulated.count import count_kernel
from autosched.model.data.features import featurize_problem
from autosched.schedule.io.serialise import to_json
from autosched.target import get_target
from tests.lower.test_row_scans import with_scan
from tests.schedule.scans import seam

H200 = get_target("h200")
ROWS, COLUMNS = 17, 1024


@pytest.mark.parametrize("text", ["bx=1 rr.y=16 tx=1024", "rr.y=16 bx=8 tx=128"])
def test_counts_of_all_steps_match_the_code(text: str) -> None:
    bound = seam(ROWS, COLUMNS)
    found = with_scan(bound, text)
    repeated = scaling_for(bound, found.kernels[-1])
    assert repeated is not None
    scan, step = repeated
    assert isinstance(scan, Scan)
    sketch, params = describe_kernel(scan.bound, step)
    model = Featurizer(scan.bound, H200).model(sketch)
    features = scan.repeated(model.tables.evaluate([model], [np.array([params], np.int64)])).features[0]
    code = lower(bound, found).kernels[-1]
    work = count_kernel(code)

    def summed(name: str) -> float:
        return float(features[:, INDEX[name]].sum())

    steps = code.launches  # the code of one launch has one step
    requests = work.total("load_requests") + work.total("store_requests")
    assert summed("global_requests_per_block") == pytest.approx(requests * steps, rel=0.1)
    assert summed("num_global_mem_stores_per_block") == work.total("store_sectors") * steps
    assert summed("num_global_mem_loads_per_block") == pytest.approx(work.total("load_sectors") * steps, rel=0.1)
    assert summed("global_bytes_written_by_kernel") == 4 * (ROWS - 1) * COLUMNS


def test_training_keys_differ_between_forms() -> None:
    bound = seam(ROWS, COLUMNS)
    texts = {t: to_json(bound, with_scan(bound, t)) for t in ("bx=1 rr.y=16 tx=1024", "rr.y=16 bx=8 tx=128")}
    found = featurize_problem(bound, H200, texts)
    assert len(found.kernels) == 3  # the copy, and the scan in two forms
    assert all(np.isfinite(k.schedule).all() for k in found.kernels.values())
