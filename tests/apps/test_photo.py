"""The shipped photograph and writing pictures."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from autosched.apps.photo import load_photo, save_png
from autosched.errors import InputError


def _read_png(path: Path) -> NDArray[np.uint8]:
    from PIL import Image

    with Image.open(path) as image:
        assert image.format == "PNG"
        return np.array(image)


def test_photo_is_a_real_rgb_picture() -> None:
    photo = load_photo()
    assert photo.shape == (512, 512, 3)
    assert photo.dtype == np.uint8
    assert photo.flags.c_contiguous
    assert photo.min() < 10
    assert photo.max() > 245
    assert photo.std(axis=(0, 1)).min() > 40
    assert not np.array_equal(photo[..., 0], photo[..., 2])


def test_photo_is_small_and_has_a_provenance() -> None:
    data = resources.files("autosched.apps") / "data"
    assert len((data / "photo.jpg").read_bytes()) < 400_000
    assert "public domain" in (data / "README.md").read_text()


@pytest.mark.parametrize("shape", [(5, 7, 3), (5, 7), (1, 1, 3)])
def test_png_keeps_every_value(tmp_path: Path, shape: tuple[int, ...]) -> None:
    picture = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    save_png(tmp_path / "picture.png", picture)
    np.testing.assert_array_equal(_read_png(tmp_path / "picture.png"), picture)


def test_png_takes_views_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    save_png(path, picture)
    save_png(str(path), picture[::-1, ::2])
    np.testing.assert_array_equal(_read_png(path), picture[::-1, ::2])
    assert [entry.name for entry in tmp_path.iterdir()] == ["picture.png"]


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 4), np.float32), np.zeros((4, 4, 2), np.uint8), np.zeros(4, np.uint8), np.zeros((0, 4), np.uint8)],
)
def test_png_refuses_what_is_no_picture(tmp_path: Path, array: NDArray[np.uint8]) -> None:
    with pytest.raises(InputError, match=r"a picture is a uint8 array"):
        save_png(tmp_path / "picture.png", array)
    assert not list(tmp_path.iterdir())


def test_png_names_a_directory_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "picture.png"
    with pytest.raises(InputError, match=f"cannot write {path}"):
        save_png(path, np.zeros((2, 2), np.uint8))


def test_png_leaves_nothing_behind_when_renaming_fails(tmp_path: Path) -> None:
    (tmp_path / "picture.png").mkdir()
    with pytest.raises(InputError, match=r"cannot write .*picture\.png"):
        save_png(tmp_path / "picture.png", np.zeros((2, 2), np.uint8))
    assert [entry.name for entry in tmp_path.iterdir()] == ["picture.png"]


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(InputError, match=r"autosched\[report\]"):
        load_photo()
    with pytest.raises(InputError, match=r"autosched\[report\]"):
        save_png(tmp_path / "picture.png", np.zeros((2, 2), np.uint8))
