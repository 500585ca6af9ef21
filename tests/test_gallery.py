"""The gallery: its page lists every image app, its script draws one, and drawings have the form they claim."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from autosched.analysis.bind import bind
from autosched.apps import get_app
from autosched.apps.hand_schedules.schedules import HAND
from autosched.apps.sizes import H, Size, W

pytest.importorskip("matplotlib")
gallery = pytest.importorskip("drawings.gallery")
nest = pytest.importorskip("drawings.nest")
ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference"


def test_page_is_up_to_date() -> None:
    page = (REFERENCE / "gallery.md").read_text(encoding="utf-8")
    assert page == gallery.page(gallery.image_apps()), "run `make gallery`"


def test_page_shows_every_image_app() -> None:
    page = (REFERENCE / "gallery.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\w+)$", page, re.MULTILINE) == list(gallery.image_apps())
    shown = re.findall(r"\]\((gallery/[^)]+)\)", page)
    assert {str(path.relative_to(REFERENCE)) for path in (REFERENCE / "gallery").iterdir()} == set(shown)


def test_pictures_are_small() -> None:
    assert sum(path.stat().st_size for path in (REFERENCE / "gallery").iterdir()) < 3e6


def test_image_apps_are_told_by_their_inputs() -> None:
    assert {"blur", "harris", "stencil_chain"} <= gallery.image_apps().keys()
    assert "sgemm" not in gallery.image_apps()
    assert all(gallery.is_image(e) for e in ((H, W), (H + 2, W + 2), (3, H, W), (1, H + 4, W + 4)))
    others = ((W,), (W, H), (Size("D"), H, W), (16, H, W), (Size("N"), 3, H, W), (3, 4), (Size("K"), Size("N")))
    assert not any(gallery.is_image(e) for e in others)


def test_script_draws_one_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import PIL.Image

    monkeypatch.setattr("sys.argv", ["gallery.py", "--apps", "harris", "--out", str(tmp_path)])
    gallery.main()
    drawn = {}
    for path in (tmp_path / "gallery").iterdir():
        with PIL.Image.open(path) as picture:
            drawn[path.name] = picture.size
    assert drawn.keys() == {
        "harris-input-input.png", "harris-output-output.png", "harris-stages.png", "harris-loops.png",
        "harris-by-hand.png",
    }  # fmt: skip
    assert max(drawn["harris-input-input.png"]) == gallery.LONGER_SIDE
    assert drawn["harris-output-output.png"][0] == drawn["harris-input-input.png"][0] - 6
    assert (tmp_path / "gallery.md").read_text(encoding="utf-8") == gallery.page(gallery.image_apps())


def test_pictures_of_arrays() -> None:
    scaled = gallery.in_unit_range(np.arange(1001, dtype=np.float32) * 4 - 2000)
    assert (scaled.min(), scaled.max(), scaled[500]) == (0, 1, pytest.approx(0.5))
    assert gallery.in_unit_range(np.float32([0.25, 0.5])).tolist() == [0.25, 0.5]
    assert gallery.in_unit_range(np.uint8([0, 51])).tolist() == [0, 0.2]
    assert gallery.in_unit_range(np.full((2, 2), 7, np.uint16)).tolist() == [[0, 0], [0, 0]]
    assert gallery.as_rgb(np.ones((2, 5, 6))).shape == (5, 6)
    weighted = gallery.as_rgb(np.stack([np.ones((5, 6))] * 3 + [np.zeros((5, 6))]))
    assert weighted.shape == (5, 6, 3) and not weighted.any()


def test_loop_nests_are_nested() -> None:
    app = get_app("harris")
    bound = bind(app.build(), app.shapes())
    (panel,) = nest.panels(bound, HAND["harris"](bound))
    texts = [box.text for box in panel.boxes]
    assert texts[:3] == ["block y 80  (step 32), x 12  (step 128)", "gray[y 36, x 132]: in shared memory, 19008 bytes",
                         "thread x 132  (threadIdx.x)"]  # fmt: skip
    assert texts.count("barrier") == 2
    open_: list[tuple[int, float]] = []  # depth and end of the boxes around the next one
    for box in panel.boxes:
        while open_ and open_[-1][0] >= box.depth:
            open_.pop()
        assert all(box.top + box.height <= bottom for _, bottom in open_)
        open_.append((box.depth, box.top + box.height))


def test_columns_keep_the_order() -> None:
    drawn = [nest.Panel(str(k), [], 1.0) for k in range(46)]
    columns = nest.in_columns(drawn)
    assert [p for column in columns for p in column] == drawn
    assert max(map(len, columns)) - min(map(len, columns)) <= 1
