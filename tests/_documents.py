"""The examples in documents, and what they print."""

from __future__ import annotations

import contextlib
import io
import itertools
import linecache
import re
import traceback
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


class Example(NamedTuple):
    """A block of Python, and the block after it that says what it prints, if there is one."""

    source: str
    printed: str | None
    line: int
    end: int  # of the block of Python, in the text


def examples(text: str) -> list[Example]:
    """The examples of a document."""
    found = []
    blocks = list(FENCED.finditer(text))
    for block, after in itertools.pairwise([*blocks, None]):
        if block is None or block[1] != "python":
            continue
        follows = after is not None and not text[block.end() : after.start()].strip()
        says = after[2] if after is not None and follows and after[1] in ("", "text") else None
        line = text.count("\n", 0, block.start()) + 2
        found.append(Example(block[2], says, line, block.end()))
    return found


def run(source: str, namespace: dict[str, Any], may_fail: bool) -> str:
    """What an example prints; of an error that ends it, what a traceback ends with."""
    name = "example.py"  # as which error messages quote its lines
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            exec(compile(source, name, "exec"), namespace)
        except Exception as error:
            if not may_fail:
                raise
            output.writelines(traceback.format_exception_only(error))
    return output.getvalue()
