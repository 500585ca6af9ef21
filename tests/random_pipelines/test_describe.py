"""Statistics of random pipelines, and the script that prints them."""

from __future__ import annotations

from pathlib import Path

import pytest
from drawings.random_pipelines import main

import autosched as a
from autosched.random_pipelines import RandomPipeline, describe, random_pipeline
from autosched.random_pipelines.graph import InputRange
from autosched.random_pipelines.settings import SMALL

ROOT = Path(__file__).parents[2]


def test_measures_of_one_pipeline() -> None:
    y, x = a.Var("y"), a.Var("x")
    image = a.Input("in0", a.uint8, 2)
    padded, r = image.clamped(), a.RDom("r", x=5)
    twice, total, out = a.Func("twice"), a.Func("total"), a.Func("out")
    twice[y, x] = a.cast(a.float32, padded[y, x]) * 2
    total[y] = 0.0
    total[y] += twice[y, r.x]
    out[y, x] = twice[y, x] + total[y]
    pipeline = a.Pipeline([out.over(y=(0, 10), x=(0, 20))])
    p = RandomPipeline(pipeline, {"in0": (10, 20)}, {}, 0, ("cast", "reduce_dim"), {"in0": InputRange((10, 20), 0, 9)})
    found = describe([p])
    measured = {name: values[0] for name, values in found.measures.items()}
    assert measured == {
        "kinds": 2, "stages": 4, "funcs": 3, "boundaries": 1, "inputs": 1, "depth": 3, "fan_out": 2, "read_twice": 1,
        "operations": 200 + 50 + 200, "compulsory_bytes": 200 + 800, "intensity": 0.45,
        "intermediate_bytes": 4 * (200 + 10), "largest_points": 200, "longest_extent": 20,
    }  # fmt: skip
    assert found.occurrences["dtype"] == {"float32": 3}
    assert found.occurrences["input dtype"] == {"uint8": 1}
    assert found.occurrences["form"] == {"pure": 2, "reduction": 1}
    assert found.occurrences["boundary"] == {"clamped": 1}
    assert found.occurrences["layout"] == {"y x": 1}


def test_quantiles_and_shares() -> None:
    found = describe([random_pipeline(seed, SMALL) for seed in range(11)])
    assert found.count == 11
    stages = found.measures["stages"]
    assert found.quantile("stages", 0.5) == stages[5]
    assert found.quantile("stages", 1.0) == max(stages)
    assert found.pipelines["outputs"].total() == 11
    assert found.tables().count("| share | in pipelines |") == len(found.occurrences)


def test_script_writes_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n<!-- tables -->\nearlier text\n")
    assert main(["--seeds", "5", "--settings", "small", "--page", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("# Title\n\n<!-- tables -->\n")
    assert "earlier" not in text
    assert "5 distinct pipelines of 5 seeds" in text
    assert main(["--seeds", "3", "--settings", "small"]) == 0
    assert "| kind of stage | occurrences |" in capsys.readouterr().out
