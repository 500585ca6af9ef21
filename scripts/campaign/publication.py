"""Bring tables, labels, weights and figures of the repository up to date from the results of a campaign.

    python scripts/publish_campaign.py out/h200

Pages have blocks between ``<!-- campaign: NAME of DEVICE -->`` and ``<!-- end of campaign: NAME -->``. Those of the
device are replaced (`campaign.headlines.BLOCKS`). Text around them stays, and is listed where it has numbers.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from campaign.files import read_json, write_text
from campaign.headlines import BLOCKS
from campaign.paths import ROOT
from campaign.report import RESULTS_FILE, STATE_FILE, write_report
from campaign.sample_files import LARGEST_BYTES, sample_paths

WEIGHTS_FILE, SCHEDULES_FILE = "weights.safetensors", "schedules.json"
_BLOCK = re.compile(r"(<!-- campaign: (\w+) of (\w+) -->\n).*?(<!-- end of campaign: \2 -->)", re.DOTALL)
_DEVICE = "{device}"


class PublicationError(ValueError):
    """The results cannot be published."""


def slug_of(device: str) -> str:
    """Return the name of a device's files: ``h100`` for ``NVIDIA H100 80GB HBM3``.

    Raises:
        PublicationError: If the results are of no GPU.
    """
    words = device.split()
    if len(words) < 2 or words[0] != "NVIDIA":
        raise PublicationError(
            f"the results are of {device or 'no device'}: publish those of a GPU, whose name begins with NVIDIA"
        )
    return words[1].lower()


def publish(out: Path, root: Path) -> list[str]:
    """Update the files of a checkout; return what changed, and what to read again.

    Args:
        out: Directory of the results.
        root: The checkout.

    Raises:
        PublicationError: If there are no results of a GPU, or a page lacks its blocks.
        ValueError: If a file is damaged.
    """
    device = str(read_json(out / STATE_FILE, {}).get("device", ""))
    slug = slug_of(device)
    results: Mapping[str, Any] = read_json(out / RESULTS_FILE, {})
    if not results:
        raise PublicationError(f"{out} has no {RESULTS_FILE}: give the directory that was --out of the campaign")
    page = root / "docs" / "results" / f"{slug}.md"
    pages = {
        page: _with_blocks(page, results, slug),
        root / "README.md": _with_blocks(root / "README.md", results, slug),
    }
    said = list(_copied(out, root / "docs" / "results" / slug))
    said += _figures(results, root / "docs" / "results" / slug)
    said += _labels(out, root / "docs" / "results" / "data" / f"{slug}-labels.parquet", device)
    said += _weights(out, root / "model" / "weights" / f"{slug}-measured.safetensors")
    for path, text in pages.items():
        write_text(path, text)
        names = [match[2] for match in _BLOCK.finditer(text) if match[3] == slug]
        said.append(f"{path.name}: {', '.join(names) or 'no block of this device'}")
    return said + [f"read again: {page.name}, line {number}: {line}" for number, line in _numbers_in_prose(pages[page])]


def _with_blocks(path: Path, results: Mapping[str, Any], slug: str) -> str:
    """Return the text of a page with its blocks made anew."""
    if not path.is_file():
        raise PublicationError(f"there is no {path}: write the page, with blocks for the tables")
    text = path.read_text(encoding="utf-8")
    names = [match[2] for match in _BLOCK.finditer(text)]
    unknown = sorted(set(names) - set(BLOCKS))
    if not names or unknown:
        reason = f"has unknown blocks {', '.join(unknown)}" if unknown else "has no block"
        raise PublicationError(
            f"{path} {reason}: there is {', '.join(BLOCKS)}, as in <!-- campaign: times of {slug} --> and "
            "<!-- end of campaign: times -->"
        )

    def made(match: re.Match[str]) -> str:
        if match[3] != slug:
            return match[0]
        lines = "\n".join(BLOCKS[match[2]](results)).rstrip()
        return f"{match[1]}{lines.replace(_DEVICE, slug.upper())}\n{match[4]}"

    return _BLOCK.sub(made, text)


def _copied(out: Path, directory: Path) -> Iterator[str]:
    directory.mkdir(parents=True, exist_ok=True)
    for name in (RESULTS_FILE, STATE_FILE, SCHEDULES_FILE):
        if (out / name).is_file():
            shutil.copyfile(out / name, directory / name)
            yield f"{directory.name}/{name}"
    yield f"{directory.name}/{write_report(directory).name}"


def _figures(results: Mapping[str, Any], directory: Path) -> list[str]:
    """Draw the picture of speed-ups, if there are times for it."""
    from drawings.speedups import draw, speedups, with_means

    gains = speedups(results.get("timing", {}))
    if not gains:
        return []
    draw(with_means(gains), directory / "speedups.png")
    return [f"{directory.name}/speedups.png: {len(gains)} apps"]


def _labels(out: Path, path: Path, device: str) -> list[str]:
    """Replace the labels of a device by the samples of a campaign; those of other devices are refused.

    Raises:
        PublicationError: If the samples are of another device, or too many for a file of the repository.
    """
    paths = sample_paths(out)
    if not paths:
        return []
    import pyarrow as pa
    import pyarrow.parquet as pq

    samples = pa.concat_tables([pq.read_table(p) for p in paths])
    sources = sorted(set(samples["source"].to_pylist()))
    if sources != [f"measured:{device}"]:
        raise PublicationError(f"the samples are of {', '.join(sources)}, and the results of {device}: keep them apart")
    beside = path.with_name(f".{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(samples, beside, compression="zstd", compression_level=19)
    size = beside.stat().st_size
    if size > LARGEST_BYTES:
        beside.unlink()
        raise PublicationError(f"the labels take {size >> 20} MiB, over {LARGEST_BYTES >> 20}: leave some samples out")
    beside.replace(path)
    return [f"{path.name}: {samples.num_rows} samples"]


def _weights(out: Path, path: Path) -> list[str]:
    if not (out / WEIGHTS_FILE).is_file():
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(out / WEIGHTS_FILE, path)
    return [f"{path.name}: the weights of the step train"]


def _numbers_in_prose(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside of blocks and tables that have decimal numbers, with their numbers."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("<!-- campaign:") or line.startswith("<!-- end of campaign:"):
            inside = line.startswith("<!-- campaign:")
        elif not inside and not line.startswith("|") and re.search(r"\d\.\d", line):
            yield number, line.strip()


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path, help="results of scripts/gpu_campaign.py")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout to update (default: this one)")
    given = parser.parse_args(arguments)
    try:
        print("\n".join(publish(given.directory, given.root)))
    except (ValueError, json.JSONDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
