"""The report in headless Chromium: no error, nothing loaded, nothing wider than the window, links and marks work."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched.apps import get_app
from autosched.report.measured import Measured
from autosched.report.page import report_html
from tests.report.parsing import Page

pytest.importorskip("jinja2")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on the PATH: make test-report installs it")

WIDTHS = (1280, 400)
TIMEOUT_S = 120
APPS = ("harris", "camera_pipe", "local_laplacian")

# Probe of the rendered page. A frame gives it the width of a phone; windows cannot be that narrow.
PROBE = """
<script>
const errors = [];
window.addEventListener("error", e => errors.push(String(e.message)));
window.addEventListener("load", () => {
  const d = document, root = d.documentElement, nodes = [...d.querySelectorAll("svg.graph a.node")];
  nodes[nodes.length - 1].dispatchEvent(new FocusEvent("focusin", {bubbles: true}));
  const same = [...d.querySelectorAll(".same")].map(e => e.dataset.kernel);
  const unreadable = [...d.querySelectorAll("svg.graph text")].filter(e => e.getBoundingClientRect().height < 8);
  const outside = [...d.querySelectorAll("svg.graph a.node, svg.graph g.node")].filter(e => {
    const box = e.querySelector("rect").getBoundingClientRect();
    return [...e.querySelectorAll("text")].some(t => {
      const inner = t.getBoundingClientRect();
      return inner.left < box.left - 1 || inner.right > box.right + 1;
    });
  });
  parent.postMessage(JSON.stringify({
    errors, same, width: root.clientWidth, content: root.scrollWidth, unreadable: unreadable.length,
    outside: outside.length, loaded: performance.getEntriesByType("resource").length,
    focusable: nodes.every(e => e.tabIndex >= 0), last: nodes[nodes.length - 1].dataset.kernel,
  }), "*");
});
</script>
"""


def chromium(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a browser that can reach nothing."""
    assert CHROMIUM is not None
    flags = [
        "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
        "--host-resolver-rules=MAP * ~NOTFOUND", "--enable-logging=stderr", "--virtual-time-budget=5000",
    ]  # fmt: skip
    return subprocess.run([CHROMIUM, *flags, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S, check=True)


def framed(page: Path, width: int, height: int = 800) -> str:
    """Return a page that shows another one at some width, with the result of its probe."""
    return f"""<!doctype html><body style="margin: 0"><script>
    addEventListener("message", e => document.body.dataset.found = e.data);
    </script><iframe src="{page.name}" width="{width}" height="{height}" style="border: 0"></iframe>"""


@pytest.fixture(scope="module", params=APPS)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    app = get_app(request.param)
    scheduled = autosched.schedule(app.build(), app.shapes(), "h200", strategy="roots")
    count = len(scheduled.schedule.kernels)
    measured = Measured(1e-5 * count, (1e-5,) * count, (), "simulated:H200")
    file = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    file.write_text(report_html(scheduled, measured=measured), encoding="utf-8")
    return file


def test_the_page_is_parsed_as_written(report: Path) -> None:
    """Selectors match the intended elements, and the console stays empty."""
    done = chromium("--dump-dom", report.as_uri())
    assert "CONSOLE" not in done.stderr, done.stderr
    written, seen = Page(report.read_text(encoding="utf-8")), Page(done.stdout.strip())
    assert [tag for tag, _ in seen.tags] == [tag for tag, _ in written.tags]
    assert seen.text == written.text


@pytest.mark.parametrize("width", WIDTHS)
def test_from_inside(report: Path, width: int) -> None:
    probed = report.with_name(f"probed-{report.name}")
    probed.write_text(report.read_text(encoding="utf-8").replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    outer = report.with_name(f"frame-{width}-{report.name}")
    outer.write_text(framed(probed, width), encoding="utf-8")
    done = chromium("--dump-dom", "--allow-file-access-from-files", outer.as_uri())
    assert "CONSOLE" not in done.stderr, done.stderr
    match = re.search(r'data-found="([^"]*)"', done.stdout)
    assert match, done.stdout[:500]
    found: dict[str, Any] = json.loads(unescape(match[1]))
    assert found["errors"] == [] and found["loaded"] == 0
    assert found["width"] == width and found["content"] <= width, "the page scrolls sideways"
    assert found["unreadable"] == 0 and found["outside"] == 0
    assert found["focusable"] is True
    assert set(found["same"]) == {found["last"]} and len(found["same"]) >= 3, "box, row and section of a kernel"


@pytest.mark.parametrize("width", WIDTHS)
def test_a_picture_can_be_taken(report: Path, width: int) -> None:
    import PIL.Image

    outer = report.with_name(f"shown-{width}-{report.name}")
    outer.write_text(framed(report, width, 2000), encoding="utf-8")
    picture = outer.with_suffix(".png")
    chromium(f"--screenshot={picture}", f"--window-size={max(width, 600)},2000", outer.as_uri())
    with PIL.Image.open(picture) as taken:
        assert taken.size == (max(width, 600), 2000)
        colours = taken.convert("RGB").crop((0, 0, width, 2000)).getcolors(1 << 20)
    assert colours is not None and len(colours) > 100
    most, background = max(colours)
    assert background == (255, 255, 255) and most < 0.99 * width * 2000
