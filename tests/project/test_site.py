"""The documentation site: it builds without a warning, its links lead somewhere, and it works in a
browser, on a phone, and in the dark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from _documents import ROOT
from _viz_browser import started

pytestmark = pytest.mark.long
LINKS = {"a": "href", "link": "href", "script": "src", "img": "src", "iframe": "src"}


class Links(HTMLParser):
    """What a page refers to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.anchors.add(values.get("id") or "")
        target = values.get(LINKS.get(tag, ""))
        if target is not None and values.get("rel") != "canonical":
            self.targets.append(target)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, with a part of the reference."""
    for module, package in (("sphinx", "sphinx"), ("furo", "furo"), ("myst_parser", "myst-parser")):
        pytest.importorskip(module, reason=f"{package} is not installed, which the site needs")
    folder = tmp_path_factory.mktemp("docs") / "site"
    script = ROOT / "docs" / "_site" / "build_site.py"
    command = [sys.executable, str(script), str(folder), "--reference", "func,fft"]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    yield from started()


def test_links_of_the_site_lead_somewhere(site: Path) -> None:
    pages = {p: Links(p.read_text(encoding="utf-8")) for p in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for target in page.targets:
            if "://" in target or target.startswith(("data:", "mailto:")):
                continue
            parts = urlsplit(target)
            there = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchored = parts.fragment and there in pages and "passes" not in there.parts
            if not there.exists() or (
                anchored and unquote(parts.fragment) not in pages[there].anchors
            ):
                broken.append(f"{path.relative_to(site)}: {target}")
    assert broken == []
    assert len(pages) > 40


def test_the_site_in_a_browser(site: Path, browser: Any) -> None:
    """Every page, on a phone: none is wider than the screen, and none complains."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on("request", lambda request: _only_files(request.url, complaints))
    for path in sorted(site.rglob("*.html")):
        if "passes" in path.parts:
            continue
        page.goto(path.as_uri(), wait_until="domcontentloaded")
        width = page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            complaints.append(f"{path.relative_to(site)} is {width} pixels wide")
    assert complaints == []
    context.close()


def _only_files(address: str, complaints: list[str]) -> None:
    if not address.startswith(("file:", "data:", "about:", "blob:")):
        complaints.append(f"loads {address}")


def test_search_and_dark_mode_and_passes(site: Path, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    colors = {}
    for _ in range(3):  # light, dark, as the system
        page.locator(".theme-toggle:visible").first.click()
        theme = page.evaluate("document.body.dataset.theme")
        colors[theme] = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colors["auto"] == colors["light"] != colors["dark"]

    page.locator("input[name=q]").first.fill("irfft")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a")
    found = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
    assert any("reference/fft.html#torch.fft.irfft" in address for address in found)

    page.goto((site / "theory" / "backward.html").as_uri())
    page.locator("iframe.pass").first.scroll_into_view_if_needed()
    inside = page.frame_locator("iframe.pass").first
    inside.locator("html[data-ready]").wait_for(state="attached")
    assert "Exp" in inside.locator("body").inner_text()
    context.close()
