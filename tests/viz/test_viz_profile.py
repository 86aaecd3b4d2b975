"""The page of a profile, in a browser: that it shows what was measured, and its keys."""

from __future__ import annotations

from typing import Any

import pytest
from _viz_browser import Open

import retrograd as torch
from retrograd import nn
from retrograd.profiler import profile, record_function
from retrograd.viz import _profile_page


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 30)
        self.second = nn.Linear(30, 1)

    def forward(self, x: Any) -> Any:
        return self.second(self.first(x).tanh())


@pytest.fixture(scope="module")
def prof() -> profile:
    torch.manual_seed(0)
    net, x = Net(), torch.randn(50, 20)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with profile(profile_memory=True) as measured:
        for _ in range(3):
            with record_function("</script> a step"):
                loss = net(x).pow(2).mean()
                loss.backward()
                optimizer.step()
    return measured


def cells(page: Any, view: str) -> list[list[str]]:
    found: list[list[str]] = page.evaluate(
        "(view) => [...document.querySelectorAll(`#view-${view} tbody tr`)]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))", view
    )  # fmt: skip
    return found


def nanoseconds(text: str) -> float:
    number, _, unit = text.partition(" ")
    return float(number) * {"s": 1e9, "ms": 1e6, "µs": 1e3, "ns": 1, "": 0}[unit]


def test_tables_show_what_was_measured(prof: profile, opened: Open) -> None:
    page = opened(prof.page("A net"))
    assert page.inner_text("h1") == "A net"
    for by in ("line", "operation", "module"):
        summary = prof.summary(by)
        page.click(f"#tab-{by}")
        shown = cells(page, by)
        assert len(shown) == len(summary)
        for row, measured in zip(shown, summary, strict=True):
            assert row[0].replace(" ", "") == (
                measured.name.replace(" ", "") if by != "line"
                else measured.name.replace(": ", "", 1).replace(" ", "")
            )  # fmt: skip
            assert nanoseconds(row[2]) == pytest.approx(1e9 * measured.seconds, rel=0.01, abs=1)
            assert nanoseconds(row[5]) == pytest.approx(1e9 * measured.backward, rel=0.01, abs=1)
            assert int(row[7]) == measured.count
        last = page.locator(f"#view-{by} tfoot tr").first.locator("td").nth(2).inner_text()
        assert nanoseconds(last) == pytest.approx(1e9 * summary.outside, rel=0.01, abs=1)
    times = [nanoseconds(x) for x in page.locator("#tiles dd").all_inner_texts() if " %" in x
             for x in [" ".join(x.split()[:2])]]  # fmt: skip
    assert len(times) == 5
    assert sum(times) == pytest.approx(1e9 * prof.summary().total, rel=0.02)


def test_sorting_and_filtering(prof: profile, opened: Open) -> None:
    page = opened(prof.page(), place="#operation")
    page.click("#view-operation th button[data-key=count]")
    counts = [int(row[7]) for row in cells(page, "operation")]
    assert counts == sorted(counts, reverse=True)
    assert page.get_attribute("#view-operation th:nth-child(8)", "aria-sort") == "descending"
    page.keyboard.press("Enter")  # the same column again, which still has the focus
    assert [int(row[7]) for row in cells(page, "operation")] == sorted(counts)
    page.keyboard.press("/")
    page.keyboard.type("addmm")
    assert [row[0] for row in cells(page, "operation")] == ["aten::addmm"]
    page.keyboard.type("xyz")
    assert cells(page, "operation") == [["No matches."]]


def test_views_by_keyboard(prof: profile, opened: Open) -> None:
    page = opened(prof.page())

    def shown() -> Any:
        return page.evaluate("document.querySelector('.view:not([hidden])').id")

    for number, name in enumerate(("line", "operation", "module", "flame", "timeline"), 1):
        page.keyboard.press(str(number))
        assert shown() == f"view-{name}"
        assert page.url.endswith(f"#{name}")
    page.focus("#tab-timeline")
    page.keyboard.press("ArrowRight")
    assert shown() == "view-line"
    page.keyboard.press("ArrowLeft")
    assert shown() == "view-timeline"
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    page.keyboard.press("t")
    assert page.get_attribute("html", "data-theme") == "dark"


def test_flame_graph(prof: profile, opened: Open) -> None:
    page = opened(prof.page(), place="#flame")
    step = prof.events()[0]
    frames = page.evaluate(
        "[...document.querySelectorAll('.frame')].map((g) => [g.getAttribute('aria-label'),"
        "g.querySelector('rect').getBBox().width, Number(g.getAttribute('aria-level'))])"
    )
    widths = {label.rpartition(",")[0]: (width, level) for label, width, level in frames}
    assert widths["program"][1] == 1
    assert widths["</script> a step"][1] == 2
    assert widths["Net"][1] == 3
    total = sum(e.cpu_time_total for e in prof.events() if e.name == step.name)
    whole = 1e6 * (prof.summary().total - prof.summary().profiler)
    ratio = widths["</script> a step"][0] / widths["program"][0]
    assert ratio == pytest.approx(total / whole, abs=0.01)
    page.focus(".frame")
    for key, name in (
        ("ArrowDown", "</script> a step"),
        ("ArrowDown", None),
        ("ArrowUp", "</script> a step"),
    ):
        page.keyboard.press(key)
        told = page.inner_text("#view-flame .told b")
        assert name is None or told == name
    page.keyboard.press("Enter")
    assert page.locator(".frame.above").count() == 1  # the program
    assert "3 calls" in page.inner_text("#view-flame .told")
    page.keyboard.press("Escape")
    assert page.locator(".frame.above").count() == 0


def test_timeline_and_memory(prof: profile, opened: Open) -> None:
    page = opened(prof.page(), place="#timeline")
    before = page.inner_text(".span")
    page.keyboard.press("n")
    assert page.inner_text("#view-timeline .told b") == "</script> a step"
    page.keyboard.press("n")
    assert page.inner_text("#view-timeline .told b") == "Net"
    page.keyboard.press("+")
    page.keyboard.press("+")
    assert page.inner_text(".span") != before
    page.keyboard.press("0")
    assert page.inner_text(".span") == before
    box = page.locator("#events").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 32)
    assert page.inner_text("#view-timeline .told b") == "</script> a step"
    assert "at most" in page.get_attribute("#memory", "aria-label")
    drawn = page.evaluate(
        "[...document.querySelectorAll('canvas')].map((c) => new Set(c.getContext('2d')"
        ".getImageData(0, 0, c.width, c.height).data).size)"
    )
    assert min(drawn) > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_phone(prof: profile, opened: Open, scheme: str) -> None:
    page = opened(prof.page(), width=360, height=700, color_scheme=scheme)
    for number in "12345":
        page.keyboard.press(number)
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        assert page.locator("[role=tab][aria-selected=true]").bounding_box()["x"] >= 0
    assert page.locator("#views").bounding_box()["height"] > 30


def test_without_memory_and_with_much(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_profile_page, "MAX_EVENTS", 10)
    monkeypatch.setattr(_profile_page, "MAX_ROWS", 1)
    x = torch.ones(3)
    with profile() as prof:
        for _ in range(30):
            x = (x * 2).sin()
    data = _profile_page.profile_data(prof._ledgers)
    assert (len(data["events"]), data["eventsLeftOut"]) == (10, 50)
    kept = min(e[1] for e in data["events"])
    assert sum(e.time_range.elapsed_us() * 1000 > kept + 1 for e in prof.events()) <= 10
    page = opened(prof.page(), place="#timeline")
    assert "10 longest events are shown; 50 are not" in page.inner_text("#view-timeline .told")
    assert "Memory was not measured" in page.inner_text("#view-timeline")
    page.keyboard.press("2")
    assert "1 more" in page.inner_text("#view-operation tfoot")


def test_points_are_thinned() -> None:
    points = [(i, i % 7) for i in range(10_000)]
    fewer = _profile_page.thinned(points)
    assert len(fewer) <= _profile_page.MAX_POINTS
    assert (fewer[-1], max(p[1] for p in fewer)) == (points[-1], 6)
    assert fewer == sorted(fewer)
    assert _profile_page.thinned(points[:100]) == points[:100]
