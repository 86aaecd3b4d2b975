"""Writes a story as one self-contained HTML file.

A content security policy in the file says what a browser may do: run this one script, whose hash it
contains, use this one style, and load nothing. The story is data in a script element that is not
run, with every ``<`` escaped, so that no text of the user can end the element.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import tempfile
import webbrowser
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from retrograd.files._atomic import write_whole

SCRIPTS = (
    "dom", "values", "copying", "story", "boxes", "inside", "camera", "overview", "graph", "source",
    "words", "phases", "panel", "norms", "legend", "dividers", "theme", "search", "keys", "address",
    "page",
)  # fmt: skip
HEIGHT = 760  # of the page inside a notebook, in pixels


class Page:
    """A page that steps through backward passes, as :func:`retrograd.viz.explore` makes it.

    A notebook shows it where it is the value of a cell. ``save`` writes it to a file, and ``show``
    opens it in the browser.
    """

    def __init__(
        self, story: dict[str, Any], title: str | None = None, first_pass: int = 0
    ) -> None:
        self.story = story
        text = str(story.get("title") or "retrograd") if title is None else title
        self.title = text.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
        self.first_pass = first_pass

    @property
    def html(self) -> str:
        """The whole file."""
        return page_of(self.story, self.title, self.first_pass)

    def save(self, path: Any) -> None:
        """Write the page to a file, atomically."""
        write_whole(path, self.html.encode("utf-8"))

    def save_steps(
        self, path: Any, number: int = 1, *, seconds: float = 1.5, theme: str = "auto"
    ) -> list[str]:
        """Write the steps of a backward pass as pictures, for slides and documents.

        Args:
            path: "pass.svg" is one animated file, "pass.png" a file for each step: pass-01.png and
                so on.
            number: the number of the pass, from 1 on.
            seconds: how long an animation shows each step.
            theme: as of ``viz.draw``.

        Returns:
            The names of the files.

        Example:
            >>> import os, tempfile
            >>> import retrograd as torch
            >>> from retrograd import viz
            >>> w = torch.tensor(2.0, requires_grad=True)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     page = viz.explore((w * w).sin())
            ...     files = page.save_steps(os.path.join(folder, "pass.svg"))
            ...     os.listdir(folder)
            ['pass.svg']
        """
        from retrograd.viz._draw import choose
        from retrograd.viz._steps import save_steps

        choose("theme", theme, ("auto", "light", "dark"))
        count = len(self.story["passes"])
        if not 1 <= number <= count:
            raise ValueError(f"there is no pass {number}: the page has {count}, counted from 1")
        return save_steps(self.story, os.fspath(path), number - 1, seconds, theme)

    def show(self) -> None:
        """Open the page in the browser, from a file in the system's folder for temporary ones."""
        path = Path(tempfile.mkdtemp(prefix="retrograd-")) / "page.html"
        self.save(path)
        if not webbrowser.open(path.as_uri()):
            print(f"No browser was found. The page is {path}")

    def _repr_html_(self) -> str:
        """The page in an isolated frame, which can neither read nor change the notebook."""
        return (
            f'<iframe title="{html.escape(self.title)}" sandbox="allow-scripts" width="100%" '
            f'height="{HEIGHT}" style="border: 1px solid #8884; border-radius: 8px" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )

    def __repr__(self) -> str:
        steps = sum(len(one["steps"]) for one in self.story["passes"])
        return f"<Page {self.title!r}: {steps} steps; .show() opens it, .save(path) writes it>"


def page_of(story: dict[str, Any], title: str, first_pass: int = 0) -> str:
    """The HTML of a story."""
    return filled("page", SCRIPTS, title, story, {"pass": str(first_pass)})


def filled(
    name: str, scripts: tuple[str, ...], title: str, data: dict[str, Any], more: dict[str, str]
) -> str:
    """The HTML file of a name with its style, scripts and data."""
    style, script = _file("base.css") + _file(f"{name}.css"), _script(scripts)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "title": html.escape(title),
        "style": style,
        "script": script,
        "story": as_data(data),
        **more,
    }
    # In one pass: inserted text is not searched for placeholders.
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _file(f"{name}.html"))


def as_data(story: dict[str, Any]) -> str:
    """JSON that is safe inside a script element.

    >>> print(as_data({"name": "</script>"}))
    {"name":"\\u003c/script>"}
    """
    text = json.dumps(story, separators=(",", ":"), allow_nan=False)
    if re.search(r"[\[,:]-?\d{16}", text):
        text = json.dumps(_large_as_text(story), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _large_as_text(part: Any) -> Any:
    """The same with integers that a browser would round as text. (Recursive: a story is not
    deep.)"""
    if isinstance(part, dict):
        return {name: _large_as_text(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_large_as_text(value) for value in part]
    return str(part) if isinstance(part, int) and abs(part) > 2**53 else part


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


@cache
def _script(names: tuple[str, ...]) -> str:
    """All scripts as one, in a scope of its own."""
    return '(() => {\n"use strict";\n' + "\n".join(_file(f"{s}.js") for s in names) + "})();\n"


@cache
def _file(name: str) -> str:
    return (resources.files("retrograd.viz") / "page" / name).read_text(encoding="utf-8")
