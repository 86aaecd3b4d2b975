"""Programs with common mistakes: ``retrograd explain`` says of each, in its text and in the page,
the cause, the line and the cure."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from _confusions import Confusion, confusions
from _viz_browser import Open

from retrograd.__main__ import main
from retrograd.viz import _page

PUT = "(body) => { document.body.innerHTML = body; delete document.documentElement.dataset.ready; }"


def explained(program: Confusion, out: Path) -> None:
    """Run ``retrograd explain`` on a program."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", UserWarning)
        main(["explain", "--as-torch", str(program.path), "--out", str(out)])


def missing(program: Confusion, said: str) -> list[str]:
    """What is not said of the answer."""
    flat = " ".join(said.split())
    wanted = [program.cause, program.cure]
    if program.line is not None:
        wanted.append(f"{program.path.name}:{program.line}")
    return [text for text in wanted if text not in flat]


def shown(page: Any, out: Path) -> str:
    """What a page says that is put in the place of one that is open, which is faster than to open
    it."""
    text = out.read_text(encoding="utf-8")
    page.evaluate(PUT, text.partition("<body>")[2].partition("</body>")[0])
    page.evaluate(_page._script(_page.SCRIPTS))
    assert page.get_attribute("html", "data-ready")
    found: str = page.inner_text("#panel")
    return found


def test_the_text_and_the_page_name_cause_line_and_cure(
    opened: Open, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong: dict[str, Any] = {}
    page = None
    for program in confusions():
        out = tmp_path / f"{program.path.stem}.html"
        explained(program, out)
        printed = capfd.readouterr()
        page = page or opened(out.as_uri())
        said = shown(page, out)
        lost = missing(program, printed.out + printed.err), missing(program, said)
        if lost != ([], []):
            wrong[program.path.name] = (*lost, said)
    assert wrong == {}
