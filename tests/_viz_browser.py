"""A browser for tests of pages, and what is read off a page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from retrograd.viz._page import Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 120_000  # milliseconds to wait for a page: other tests may take the processor
Open = Callable[..., Any]


def started() -> Iterator[Any]:
    """A browser; for a fixture."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed, which drives the browser"
    )
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def watched(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """A function that opens a story or an address, at a place ("#step=2"). Its pages are watched
    until the test is over; for a fixture."""
    complaints: list[str] = []
    contexts = []

    def open_(told: Any, width: int = 1280, height: int = 800, place: str = "", **look: Any) -> Any:
        if isinstance(told, str):
            address = told
        else:
            path = tmp_path / f"{len(contexts)}.html"
            (told if isinstance(told, Page) else Page(told)).save(path)
            address = path.as_uri()
        context = browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce", **look
        )
        context.set_default_timeout(PATIENCE)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda request: _watch(request, address, complaints))
        page.goto(address + place)
        page.wait_for_selector("html[data-ready]", state="attached")
        return page

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def _watch(request: Any, address: str, complaints: list[str]) -> None:
    if request.url.partition("#")[0] not in (address, "data:,"):
        complaints.append(f"a request for {request.url}")


def until(page: Any, condition: str, arg: Any = None) -> None:
    """Wait until a condition is true in a page or a frame. It is looked at by the clock, not when a
    frame is drawn: a browser under load may draw none."""
    page.wait_for_function(condition, arg=arg, polling=50, timeout=PATIENCE)


# -- reading the page ----------------------------------------------------------------------------

READ = """() => {
  const numbers = (box) => [...box.querySelectorAll("[data-value]")].map((n) => n.dataset.value);
  const values = (role) => [...document.querySelectorAll(`.step-card [data-role="${role}"]`)].map(
    (box) => box.classList.contains("none") ? null
      : { shape: box.dataset.shape, dtype: box.dataset.dtype, data: numbers(box) });
  const { step, phase } = document.querySelector(".step-card").dataset;
  return { step: Number(step), phase,
    count: document.getElementById("count").textContent,
    running: [...document.querySelectorAll(".node[data-state=running]")].map((n) => n.dataset.id),
    line: document.querySelector(".line.current")?.dataset.line ?? null,
    incoming: values("incoming"), part: values("part"), saved: values("saved"),
    outgoing: values("outgoing"), before: values("before"), after: values("after"),
    formulas: [...document.querySelectorAll(".step-card .formula")].map((p) => p.textContent),
    inside: Object.fromEntries([...document.querySelectorAll(".node:has(.live)")].map((node) =>
      [node.dataset.id, [...node.querySelectorAll(".live")].map((t) => t.textContent)])) };
}"""


def read(page: Any) -> dict[str, Any]:
    """What the panel shows of a step."""
    found: dict[str, Any] = page.evaluate(READ)
    return found


STEP = """() => {
  const next = document.getElementById("next");
  const seen = [];
  while (!next.disabled) { next.click(); seen.push((READ)()); }
  return seen;
}""".replace("READ", READ)


def clicked_through(page: Any, phase: str = "backward") -> list[dict[str, Any]]:
    """The steps of a phase from here on, by the button."""
    return [shown for shown in page.evaluate(STEP) if shown["phase"] == phase]


def walk(page: Any, key: str = "ArrowRight") -> list[dict[str, Any]]:
    """The steps of the backward pass, one after the other, by the keyboard."""
    count = int(page.get_attribute("#slider", "max"))
    seen = []
    for _ in range(count):
        page.keyboard.press(key)
        seen.append(read(page))
    return [shown for shown in seen if shown["phase"] == "backward"]


def text(entry: Any) -> str:
    """An entry of a Value as the page has it in data-value."""
    if isinstance(entry, list):
        real, imaginary = map(text, entry)
        return f"{real}{'' if imaginary[0] in '+-' else '+'}{imaginary}j"
    if isinstance(entry, str):
        return entry
    return repr(entry)


def same(shown: dict[str, Any] | None, value: dict[str, Any] | None) -> bool:
    """Whether a value on the page is one of the story, to the last digit."""
    if shown is None or value is None:
        return shown is None and value is None
    if shown["shape"] is not None and (shown["shape"], shown["dtype"]) != (
        str(value["shape"]), value["dtype"]
    ):  # fmt: skip
        return False
    if value["data"] is None:
        return True
    there, known = shown["data"], value["data"]
    return len(there) == len(known) and all(map(same_entry, there, known))


def same_entry(shown: str, entry: Any) -> bool:
    if isinstance(entry, list):
        return repr(complex(shown)) == repr(complex(text(entry)))
    return repr(float(shown)) == repr(float(entry))  # so that NaN is NaN and -0 is not 0


def agrees(seen: list[dict[str, Any]], told: dict[str, Any], number: int = 0) -> None:
    """Assert that the page showed every value of a pass."""
    steps = told["passes"][number]["steps"]
    assert [s["step"] for s in seen] == list(range(1, len(steps) + 1))
    for shown, step in zip(seen, steps, strict=True):
        wanted = {
            "incoming": step["incoming"],
            "part": [p["value"] for p in step["parts"]] if len(step["parts"]) > 1 else [],
            "saved": [s["value"] for s in step["saved"]],
            "outgoing": [o["value"] for o in step["outgoing"]],
            "before": [step["accumulate"]["before"]] if step["accumulate"] else [],
            "after": [step["accumulate"]["after"]] if step["accumulate"] else [],
        }
        for role, values in wanted.items():
            assert len(shown[role]) == len(values), (role, shown, step)
            for a, b in zip(shown[role], values, strict=True):
                assert same(a, b), (role, a, b)


# Texts that leave their box or lie over another, in the coordinates of the picture.
OVERLAPS = """() => {
  const texts = [...document.querySelectorAll(".node")].map((node) => ({
    id: node.dataset.id, body: node.querySelector(".body").getBBox(),
    texts: [...node.querySelectorAll(":scope > text")].filter((t) => t.textContent)
      .map((t) => t.getBBox()) }));
  const wrong = [];
  const apart = (a, b) => a.x + a.width <= b.x + 0.5 || b.x + b.width <= a.x + 0.5
    || a.y + a.height <= b.y + 0.5 || b.y + b.height <= a.y + 0.5;
  texts.forEach((a, i) => {
    for (const box of a.texts) {
      if (box.x < a.body.x - 0.5 || box.x + box.width > a.body.x + a.body.width + 0.5) {
        wrong.push(`${a.id} is wider than its box`);
      }
      for (const b of texts.slice(i + 1)) {
        if (!apart(box, b.body)) wrong.push(`${a.id} over ${b.id}`);
        for (const other of b.texts) if (!apart(box, other)) wrong.push(`${a.id} and ${b.id}`);
      }
    }
  });
  return [texts.length, wrong];
}"""
