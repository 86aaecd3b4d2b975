"""The page as a file: what a user wrote shows as text, nothing is loaded, and it is saved whole."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import _viz_stories as stories
import pytest
from _viz_browser import Open, read

from retrograd.viz._page import Page, page_of

# -- what a user writes is text ------------------------------------------------------------------


def test_hostile_texts_show_as_text(opened: Open) -> None:
    told = stories.hostile()
    page = opened(told)
    assert page.title() == stories.HOSTILE[0]
    assert page.inner_text("#title") == stories.HOSTILE[0]
    shown = page.locator(".line code").evaluate_all("all => all.map(c => c.textContent)")
    expected = json.loads(json.dumps(stories.HOSTILE))
    assert [s.encode("utf-16", "replace") for s in shown] == [
        s.encode("utf-16", "replace") for s in expected
    ]
    count = len(stories.HOSTILE)
    for number in range(count):
        page.keyboard.press("ArrowRight")
        told_text = stories.HOSTILE[count - 1 - number]
        found = page.evaluate("document.querySelector('.rule .formula').textContent")
        assert found.encode("utf-16", "replace") == told_text.encode("utf-16", "replace")
        values = read(page)["saved"][0]["data"]
        assert values[0] == "nan"
    page.fill("#search", "<img")
    found = page.locator("#found [role=option] bdi").first.evaluate("b => b.textContent")
    assert found == stories.HOSTILE[1]
    assert page.evaluate("window.broken") is None
    assert page.locator("img, script:not([type]):not(:last-of-type)").count() == 0


def test_a_script_cannot_be_ended_by_data() -> None:
    whole = page_of(stories.hostile(), stories.HOSTILE[0])
    assert whole.count("</script>") == 2
    assert whole.count("<script") == 2
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', whole)
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy[1]
    assert "\ufffd" not in whole
    assert page_of(stories.small(), "x") == Page(stories.small(), "x").html
    Page(stories.small(), "half a character: \ud800").html.encode("utf-8")


def test_the_policy_holds(browser: Any) -> None:
    context = browser.new_context()  # not watched: the browser says in the console what it stops
    page = context.new_page()
    page.set_content(Page(stories.small()).html)
    blocked = page.evaluate("""async () => {
        const found = [];
        const note = (event) => found.push(event.violatedDirective);
        document.addEventListener("securitypolicyviolation", note);
        const script = document.createElement("script");
        script.textContent = "window.broken = 1";
        document.body.append(script);
        await fetch("data:,x").catch(() => null);
        const image = new Image();
        image.src = "https://example.invalid/x.png";
        await new Promise((done) => { image.onerror = done; });
        while (found.length < 3) await new Promise((go) => setTimeout(go, 20));
        return found;
    }""")
    assert blocked == ["script-src-elem", "connect-src", "img-src"]
    assert page.evaluate("window.broken") is None
    context.close()


# -- where the page goes -------------------------------------------------------------------------


def test_in_a_notebook_it_has_a_frame_of_its_own(browser: Any) -> None:
    made = Page(stories.small())
    context = browser.new_context()
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(f"<p>before</p>{made._repr_html_()}<p>after</p>")
    frame = page.frame_locator("iframe")
    frame.locator("#next").click()
    frame.locator("#theme").click()  # nothing can be remembered in there, which is no error
    assert frame.locator("#count").inner_text() == "step 1 of 4"
    assert complaints == []
    context.close()
    source = re.search(r'srcdoc="([^"]*)"', made._repr_html_())
    assert source is not None
    assert html.unescape(source[1]) == made.html
    assert 'sandbox="allow-scripts"' in made._repr_html_()


def test_saving_is_all_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    Page(stories.small()).save(path)
    before = path.read_text(encoding="utf-8")
    broken = Page(stories.small() | {"marks": [float("nan")]})  # which JSON has no number for
    with pytest.raises(ValueError, match="Out of range float"):
        broken.save(path)
    assert path.read_text(encoding="utf-8") == before
    assert list(tmp_path.iterdir()) == [path]


def test_showing_opens_a_browser(monkeypatch: Any, tmp_path: Path, capsys: Any) -> None:
    asked: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: asked.append(address) or len(asked) == 1)
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: str(tmp_path))
    Page(stories.small()).show()
    assert asked == [(tmp_path / "page.html").as_uri()]
    assert capsys.readouterr().out == ""
    Page(stories.small()).show()
    assert str(tmp_path / "page.html") in capsys.readouterr().out
