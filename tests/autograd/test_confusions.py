"""Programs with common mistakes: what is said about each names the cause, the line and the cure."""

from __future__ import annotations

import pytest
from _confusions import Confusion, answer, confusions
from confusions_page import PAGE, page

PROGRAMS = confusions()


def test_there_are_programs() -> None:
    assert len(PROGRAMS) >= 20


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.path.stem)
def test_the_answer_names_cause_line_and_cure(program: Confusion) -> None:
    text = answer(program)
    flat = " ".join(text.split())
    assert program.cause in flat, text
    assert program.cure in flat, text
    if program.line is not None:
        assert f"{program.path.name}:{program.line}" in flat, text


def test_the_table_in_the_documentation_is_that_of_today() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text, pytest.importorskip("torch")) == text
