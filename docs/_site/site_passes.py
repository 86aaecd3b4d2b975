"""Pages that step through a backward pass, made of the examples in the documents.

After an example, ``<!-- step through: loss -->`` shows the backward pass of ``loss`` in the text.
``<!-- gallery -->`` stands for the programs of ``tests/confusions``. Such comments are invisible
where a document is read as it is.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))
from _confusions import FOLDER, Confusion, answer, confusions, run
from _documents import examples
from _documents import run as run_example

import retrograd
from retrograd import viz

MARK = re.compile(r"^<!-- step through: (.+?) -->$", re.M)
GALLERY = "<!-- gallery -->\n"


def with_passes(text: str, name: str, folder: Path) -> str:
    """A document with a page in the place of each mark; the pages are written to ``folder``."""
    if GALLERY in text:
        text = text.replace(GALLERY, gallery(folder))
    marks = list(MARK.finditer(text))
    if not marks:
        return text
    todo, namespace = examples(text), dict[str, Any](viz=viz, __name__="__main__")
    shown = {}
    for count, mark in enumerate(marks):
        while todo and todo[0].end < mark.start():
            example = todo.pop(0)
            call = f"page = viz.explore({mark[1]})\n"
            more = call if not todo or todo[0].end > mark.start() else ""
            run_example(example.source + more, namespace, may_fail=False)
        shown[mark.start()] = _frame(namespace["page"], f"{name}-{count + 1}", folder)
    return MARK.sub(lambda mark: shown[mark.start()], text)


def gallery(folder: Path) -> str:
    """The programs of the gallery, by title, with what is said about each."""
    programs = sorted(confusions(), key=lambda program: program.title.lower())
    return "\n".join(line for program in programs for line in [*_confusion(program, folder), ""])


def _confusion(program: Confusion, folder: Path) -> list[str]:
    name = program.path.stem
    source = re.sub(r"\A(# .*\n)+", "", program.source).strip()
    first = program.source[: program.source.index(source)].count("\n")
    said = answer(program).replace(f"{FOLDER}{os.sep}", "").strip()
    said = re.sub(r"^RuntimeWarning: .* encountered in .*\n", "", said, flags=re.M)  # NumPy's
    said = re.sub(rf"{program.path.name}:(\d+)", lambda m: f"line {int(m[1]) - first}", said)
    asked = f" (`{program.ask}`)" if program.ask and program.ask != "anomaly" else ""
    asked = " in anomaly mode" if program.ask == "anomaly" else asked
    return [
        f"({name})=", f"## {program.title}", "", "```python", source, "```", "",
        f"What retrograd says{asked}:", "",
        "```{code-block} text", ":class: wrapped", "", said, "```", "",
        *_pass(program, folder),
    ]  # fmt: skip


def _pass(program: Confusion, folder: Path) -> list[str]:
    """The passes that a program ran, folded, if there are any."""
    with viz.recording() as story:
        run(program, retrograd)
    try:
        page = viz.explore(story, title=program.title)
    except RuntimeError:  # no pass was run
        return []
    frame = _frame(page, program.path.stem, folder)
    return ["````{admonition} Step through the pass", ":collapsible: closed", "", frame, "````", ""]


def _frame(page: Any, name: str, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    page.save(folder / f"{name}.html")
    address, title = f"../passes/{name}.html", "A page that steps through a backward pass"
    return (
        "```{raw} html\n"
        f'<iframe class="pass" src="{address}" title="{title}" loading="lazy"></iframe>\n'
        f'<p class="pass"><a href="{address}">Open on a page of its own</a></p>\n'
        "```"
    )
