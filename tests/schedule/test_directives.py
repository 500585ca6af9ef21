"""Each directive of the schedule language is documented by a legal schedule and its JSON, as they are."""

from __future__ import annotations

from tests.schedule.directives import EXAMPLES, PAGE, sections, with_examples


def test_page_shows_real_schedules() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_examples(page) == page, "run `python -m tests.schedule.directives`"


def test_every_example_has_a_section_with_its_blocks() -> None:
    found = sections(PAGE.read_text(encoding="utf-8"))
    assert EXAMPLES.keys() <= found.keys()
    for heading, make in EXAMPLES.items():
        blocks = found[heading].count("```text") + found[heading].count("```json")
        assert blocks == len(make().blocks), heading
