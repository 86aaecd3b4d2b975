"""Pages of programs with several passes, as training loops have them, in a real browser."""

from __future__ import annotations

from typing import Any

from _viz_browser import Open, read
from test_viz_marks import diverging

from retrograd import viz


def badges(page: Any) -> dict[str, str]:
    """The operations that have a badge, and what it is about."""
    found: dict[str, str] = page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".node .badge")].map((badge) =>
          [badge.parentElement.querySelector("text").textContent, badge.dataset.kind]))"""
    )
    return found


def test_marks_lead_to_their_pass(opened: Open) -> None:
    page = opened(viz.explore(diverging()))
    assert page.input_value("#pass") == "0"
    assert badges(page) == {}  # all is finite in the first pass
    chips = page.locator("#marks .chip")
    chips.nth(0).click()
    assert page.input_value("#pass") == "1"
    assert page.inner_text(".step-card h2") == "Log"
    assert badges(page) == {"Log": "inf", "Pow": "inf", "Abs": "nan"}
    chips.nth(3).click()
    assert page.input_value("#pass") == "2"
    assert badges(page) == {"Mul": "nan", "Pow": "nan"}
    page.select_option("#pass", "3")
    chips.nth(4).click()  # true of this pass, too
    assert page.input_value("#pass") == "3"
    assert read(page)["step"] == 2
    assert page.locator("#norms .tick.nan").count() == 1
    page.select_option("#pass", "0")
    assert badges(page) == {}
    page.click(".node:has(text:text-is('Log'))")
    assert page.locator(".step-card .chip").count() == 0
