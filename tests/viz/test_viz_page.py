"""The page, in a real browser: what it shows is what the engine computed, and it can be used.

Every page that a test opens is watched. Anything in its console, any error and any request to
anywhere fails the test.
"""

from __future__ import annotations

import re
from typing import Any

import _viz_stories as stories
import pytest
from _viz_browser import OVERLAPS, Open, agrees, read, until, walk

from retrograd.viz._page import Page

# -- stepping ------------------------------------------------------------------------------------


def test_steps_forwards_and_back(opened: Open) -> None:
    told = stories.small()
    page = opened(told)
    before = read(page)
    assert before["step"] == 0
    assert "4 steps" in page.inner_text("#panel")
    there = walk(page)
    agrees(there, told)
    assert [s["running"] for s in there] == [["5"], ["4"], ["2", "3"], ["0"]]
    assert [s["line"] for s in there] == ["5", "5", "4", "2"]
    assert there[-1]["count"] == "step 4 of 4"
    back = walk(page, "ArrowLeft")
    assert back == [*reversed(there[:-1]), before]
    page.keyboard.press("End")
    assert read(page) == there[-1]
    page.keyboard.press("Home")
    assert read(page) == before


def test_parts_are_added_up_in_sight(opened: Open) -> None:
    page = opened(stories.small())
    page.keyboard.press("End")
    shown = re.sub(r"\s+", " ", page.inner_text(".sum"))
    assert shown == "3.0 from Mul + 1.5 from Mul + 1.5 from Mul = 6.0 float32 []"
    change = re.sub(r"\s+", " ", page.inner_text(".accumulates .change"))
    assert change == "before None → after 6.0 float32 []"
    assert page.inner_text(".now tr[data-leaf='0']").split() == ["w", "6.0"]
    page.keyboard.press("ArrowLeft")
    assert page.inner_text(".now tr[data-leaf='0']").split() == ["w", "None"]


def test_numbers_are_short_and_have_all_their_digits(opened: Open) -> None:
    told = stories.small()
    numbers = [0.1234567890123456, -1.7976931348623157e150, 5e-324, 123456.0, 9007199254740993]
    told["passes"][0]["steps"][0]["incoming"] = [stories.value(*numbers, dtype="float64")]
    page = opened(told)
    page.keyboard.press("ArrowRight")
    cells = page.locator(".arrives .n")
    assert cells.all_inner_texts() == [
        "0.12346",
        "-1.7977e150",
        "4.9407e-324",
        "123456.0",
        "9007199254740993",
    ]
    titles = [cell.get_attribute("title") for cell in cells.all()]
    assert [float(title) for title in titles[:4]] == numbers[:4]
    assert titles[4] == "9007199254740993"
    assert read(page)["incoming"][0]["data"] == titles


def test_words_formulas_and_saved_values(opened: Open) -> None:
    page = opened(stories.small())
    page.click("#next")
    page.click("#next")
    assert page.inner_text(".rule .words") == "Each factor gets the gradient times the other."
    formulas = page.locator(".rule .formula").all_inner_texts()
    assert formulas == ["grad_self = grad · other", "grad_other = grad · self"]
    assert page.inner_text(".uses .which") == "self"


def test_looks_of_nodes_lines_and_edges(opened: Open) -> None:
    page = opened(stories.small())
    states = lambda: {
        n: page.get_attribute(f".node[data-id='{n}']", "data-state") for n in range(6)
    }
    assert states() == dict.fromkeys((0, 2, 3, 4, 5), "waiting") | {1: "none"}
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert states() == {
        0: "waiting",
        1: "none",
        2: "waiting",
        3: "waiting",
        4: "running",
        5: "done",
    }
    line = lambda n: page.get_attribute(f".line[data-line='{n}']", "data-state")
    assert (line(5), line(4)) == ("running", "waiting")
    assert page.get_attribute(".edge[data-from='0'][data-to='4']", "data-state") == "leaving"
    assert page.get_attribute(".edge[data-from='4'][data-to='5']", "data-state") == "arriving"
    page.keyboard.press("End")
    assert states() == {0: "running", 1: "none", 2: "done", 3: "done", 4: "done", 5: "done"}
    assert (line(5), line(4)) == ("done", "done")


def test_slider_and_buttons(opened: Open) -> None:
    page = opened(stories.small())
    assert page.is_disabled("#back")
    page.evaluate(
        "() => { const s = document.getElementById('slider'); s.value = 3;"
        " s.dispatchEvent(new Event('input')); }"
    )
    assert read(page)["step"] == 3
    page.click("#back")
    assert read(page)["step"] == 2
    page.click("#last")
    assert read(page)["step"] == 4
    assert page.is_disabled("#next")
    page.click("#first")
    assert read(page)["step"] == 0


def test_play(opened: Open) -> None:
    page = opened(stories.small())
    page.keyboard.press("Space")
    assert page.get_attribute("#play", "aria-pressed") == "true"
    until(page, "() => document.querySelector('.step-card').dataset.step === '4'")
    assert page.get_attribute("#play", "aria-pressed") == "false"


def test_a_chooser_for_passes(opened: Open) -> None:
    told = stories.small()
    page = opened(told)
    assert page.locator("#pass option").count() == 2
    page.select_option("#pass", "1")
    page.locator("#pass").blur()
    seen = walk(page)
    agrees(seen, told, 1)
    assert seen[-1]["before"][0]["data"] == ["6"]
    assert seen[-1]["after"][0]["data"] == ["12"]
    later = opened(Page(told, first_pass=1))
    assert later.input_value("#pass") == "1"


# -- picking, searching, marks -------------------------------------------------------------------


def test_a_line_shows_its_nodes_and_a_node_its_line(opened: Open) -> None:
    page = opened(stories.small())
    page.click(".line[data-line='5'] code")
    assert page.locator(".node.picked").evaluate_all("all => all.map(n => n.dataset.id)") == [
        "4",
        "5",
    ]
    listed = page.locator(".made-list li").all_inner_texts()
    assert [re.sub(r"\s+", " ", t).strip() for t in listed] == ["Mul [] step 2", "Add [] step 1"]
    page.click(".made-list .link >> nth=0")
    assert read(page)["step"] == 2
    page.click(".node[data-id='2']")
    assert (read(page)["step"], read(page)["line"]) == (3, "4")
    assert page.get_attribute(".line.picked", "data-line") == "4"
    page.click(".node[data-id='1']")  # data: nothing flows to it
    assert read(page)["step"] == 3
    assert "data, no gradient" in page.inner_text(".card.picked")
    assert page.get_attribute(".line.picked", "data-line") == "3"
    page.keyboard.press("Escape")
    assert page.locator(".picked").count() == 0


@pytest.mark.parametrize(
    ("query", "first", "count"),
    [("mul", "4", 2), ("w", "0", 5), ("line 4", "2", 2), ("add", "5", 1), ("tanh", None, 0)],
)
def test_search(opened: Open, query: str, first: str | None, count: int) -> None:
    page = opened(stories.small())
    page.keyboard.press("/")
    page.keyboard.type(query)
    options = page.locator("#found [role=option]")
    assert options.count() == count
    assert page.locator(".node.match").count() == count
    if first is None:
        assert "No matches" in page.inner_text("#found")
        page.keyboard.press("Escape")
        assert page.is_hidden("#found")
    else:
        assert options.first.get_attribute("data-item") == first
        page.keyboard.press("Enter")
        assert page.get_attribute(".node.picked", "data-id") == first
        assert first in read(page)["running"]


def test_search_by_shape_module_and_nan(opened: Open) -> None:
    told = stories.wide(12)
    told["graph"]["items"][3]["module"] = "layers.0"
    told["passes"][0]["steps"][5]["incoming"] = [stories.value("nan", 1.0)]
    page = opened(told)
    for query in ("[7, 2]", "7x2", "(7,2)", "7 × 2"):
        page.fill("#search", query)
        assert page.locator("#found [role=option]").all_inner_texts()[0].startswith("Operation7"), (
            query
        )
        assert page.locator("#found [role=option]").count() == 1
    page.fill("#search", "layers.0")
    assert page.locator("#found [role=option]").get_attribute("data-item") == "3"
    page.fill("#search", "NaN")
    assert page.locator("#found [role=option]").get_attribute("data-item") == "6"


def test_marks_lead_to_their_step(opened: Open) -> None:
    page = opened(stories.small())
    assert page.locator("#marks .chip").count() == 2
    page.click("#marks .chip.exploding")
    assert page.input_value("#pass") == "1"
    assert read(page)["step"] == 4
    page.click("#marks .chip.memory")
    assert page.get_attribute(".node.picked", "data-id") == "4"
    assert page.locator(".node[data-id='0'] .badge").count() == 1


# -- groups --------------------------------------------------------------------------------------


def crumbs(page: Any) -> list[str]:
    found: list[str] = page.locator("#crumbs .crumb").all_inner_texts()
    return found


def test_groups_open_and_close(opened: Open) -> None:
    page = opened(stories.nested(27, 3))
    assert crumbs(page) == ["whole graph"]
    assert page.locator(".node.group").count() == 3
    outer = page.locator(".node.group").nth(2)
    outer.dblclick()
    assert len(crumbs(page)) == 2
    page.focus("#canvas")
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    assert len(crumbs(page)) == 3
    assert page.locator(".node.operation").count() == 3
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    assert len(crumbs(page)) == 2
    page.click("#crumbs .crumb >> nth=0")
    assert crumbs(page) == ["whole graph"]


def test_a_group_runs_with_what_is_in_it(opened: Open) -> None:
    page = opened(stories.nested(27, 3))
    states = lambda: page.locator(".node.group").evaluate_all(
        "all => all.map(n => n.dataset.state)"
    )
    page.keyboard.press("ArrowRight")
    assert states() == ["waiting", "waiting", "running"]
    for _ in range(9):
        page.keyboard.press("ArrowRight")
    assert states() == ["waiting", "running", "done"]
    page.keyboard.press("f")  # now the picture follows into the groups
    assert len(crumbs(page)) == 3
    assert read(page)["running"] == ["17"]
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert read(page)["running"] == ["14"]


def test_a_step_elsewhere_leaves_the_group(opened: Open) -> None:
    page = opened(stories.nested(27, 3))
    page.locator(".node.group").nth(2).dblclick()
    page.locator(".node.group").nth(2).dblclick()
    assert len(crumbs(page)) == 3
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    assert len(crumbs(page)) == 2
    for _ in range(6):
        page.keyboard.press("ArrowRight")
    assert len(crumbs(page)) == 1


# -- looks ---------------------------------------------------------------------------------------


def ground(page: Any) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_light_and_dark(opened: Open) -> None:
    page = opened(stories.small(), color_scheme="light")
    dark = opened(stories.small(), color_scheme="dark")
    light_ground, dark_ground = ground(page), ground(dark)
    assert light_ground != dark_ground
    dark.close()
    page.bring_to_front()

    def wait_for(color: str) -> None:
        until(page, "color => getComputedStyle(document.body).backgroundColor === color", color)

    for _ in range(5):  # a busy browser may lose what was stored just before a reload
        page.keyboard.press("t")
        wait_for(dark_ground)
        page.wait_for_timeout(500)
        page.reload()
        page.wait_for_selector("html[data-ready]", state="attached")
        if ground(page) == dark_ground:
            break
    assert ground(page) == dark_ground  # it is remembered
    page.click("#theme")
    wait_for(light_ground)


def test_help_lists_the_keys(opened: Open) -> None:
    page = opened(stories.small())
    page.keyboard.press("?")
    assert page.is_visible("#help")
    for key in ("→", "←", "Home", "End", "Space", "/", "Esc", "+", "−", "0", "?"):
        assert key in page.locator("#keys kbd").all_inner_texts()
    page.keyboard.press("Escape")
    assert page.is_hidden("#help")


def scale(page: Any) -> float:
    return float(page.evaluate("document.querySelector('.layer').getCTM().a"))


def test_zoom_and_pan(opened: Open) -> None:
    page = opened(stories.wide(50))
    page.keyboard.press("0")
    whole = scale(page)
    page.keyboard.press("+")
    assert scale(page) == pytest.approx(1.3 * whole)
    page.keyboard.press("-")
    assert scale(page) == pytest.approx(whole)
    middle = page.locator("#canvas").bounding_box()
    at = (middle["x"] + middle["width"] / 2, middle["y"] + middle["height"] / 2)
    page.mouse.move(*at)
    page.mouse.wheel(0, -300)
    assert scale(page) > whole
    left = page.evaluate("document.querySelector('.layer').getCTM().e")
    page.mouse.down()
    page.mouse.move(at[0] + 60, at[1], steps=4)
    page.mouse.up()
    moved = page.evaluate("document.querySelector('.layer').getCTM().e")
    assert 40 < moved - left < 61
    assert read(page)["step"] == 0  # dragging is no click
    zoomed = scale(page)
    page.set_viewport_size({"width": 1180, "height": 760})
    until(page, f"() => document.querySelector('.layer').getCTM().e !== {moved}")
    assert scale(page) == zoomed
    page.set_viewport_size({"width": 1280, "height": 800})
    until(page, f"() => document.querySelector('.layer').getCTM().e === {moved}")
    page.click("#zoom-fit")
    assert scale(page) == pytest.approx(whole)


def test_pinch(opened: Open) -> None:
    page = opened(stories.wide(50), has_touch=True)
    page.keyboard.press("0")
    whole = scale(page)
    box = page.locator("#canvas").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    session = page.context.new_cdp_session(page)
    for kind, apart in (("touchStart", 40), ("touchMove", 60), ("touchMove", 80)):
        points = [{"x": x - apart, "y": y, "id": 0}, {"x": x + apart, "y": y, "id": 1}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    assert scale(page) == pytest.approx(2 * whole, rel=0.05)


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080), (800, 600), (360, 740)])
def test_labels_do_not_overlap(opened: Open, width: int, height: int) -> None:
    page = opened(stories.wide(50), width, height)
    count, wrong = page.evaluate(OVERLAPS)
    assert (count, wrong) == (50, [])


@pytest.mark.parametrize("width", [360, 412, 640, 800])
def test_no_sideways_scrolling_on_small_screens(opened: Open, width: int) -> None:
    page = opened(stories.small(), width, 740, has_touch=True)
    page.keyboard.press("End")
    wide = "[document.documentElement.scrollWidth, document.body.scrollWidth, innerWidth]"
    assert page.evaluate(wide) == [width] * 3
    for selector in ("#next", "#slider", "#canvas", "#search"):
        box = page.locator(selector).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width + 0.5, selector
    if width <= 640:
        assert page.is_hidden("#lines")
        page.click("#tab-source")
        assert page.is_visible("#lines")
        assert page.is_hidden("#panel")


def test_by_keyboard_alone(opened: Open) -> None:
    page = opened(stories.small())
    page.focus("#lines")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.get_attribute(".line.picked", "data-line") == "3"
    page.focus("#canvas")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowUp")  # from the root against the data
    assert page.get_attribute(".node.picked", "data-id") in ("3", "4")
    page.keyboard.press("Enter")
    assert read(page)["step"] in (2, 3)
    named = page.locator("button, input, select").evaluate_all(
        "all => all.filter(e => !(e.ariaLabel || e.innerText.trim() || e.closest('label')))"
        ".map(e => e.outerHTML)"
    )
    assert named == []
    assert page.inner_text("#live").startswith("step ")
