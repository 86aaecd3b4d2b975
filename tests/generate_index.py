"""Writes src/retrograd/ops/_index.py: the public names that modules declare which are not loaded
at import, so that they can be found without loading them.

``python tests/generate_index.py`` writes the file; a test asks that it is up to date. After a
declaration was added, changed or moved, run it again.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from pathlib import Path

import retrograd
from retrograd.ops import _index, _public

FILE = Path(_index.__file__)
BEGINNING, END = "INDEX: dict[str, dict[str, str]] = {", "}  # fmt: skip\n"


def index() -> dict[str, dict[str, list[str]]]:
    """The names that each module declares, by namespace. It must not have been loaded yet."""
    found: dict[str, dict[str, list[str]]] = {}
    _index.INDEX.clear()
    _index.names_of.cache_clear()
    enter = _public._enter

    def watched(face: _public.Face, public: str, names: tuple[str, ...]) -> None:
        before = {space: set(known) for space, known in _public.NAMES.items()}
        enter(face, public, names)
        module = _running_module().removeprefix("retrograd.")
        for space, known in _public.NAMES.items():
            new = [name for name in known if name not in before[space]]
            if new:
                found.setdefault(module, {}).setdefault(space, []).extend(new)

    _public._enter = watched
    try:
        for package in ("ops", "tensor"):
            folder = FILE.parents[1] / package
            for module in pkgutil.walk_packages([str(folder)], f"retrograd.{package}."):
                importlib.import_module(module.name)
    finally:
        _public._enter = enter
    return dict(sorted(found.items()))


def _running_module() -> str:
    """The module that is being loaded."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>":
        assert frame.f_back is not None
        frame = frame.f_back
    return str(frame.f_globals["__name__"])


def text() -> str:
    """The file, with the index put in."""
    lines = [BEGINNING]
    for module, spaces in index().items():
        groups: dict[str, list[str]] = {}
        for name in dict.fromkeys(name for names in spaces.values() for name in names):
            found = [s for s in _public.NAMESPACES if name in spaces.get(s, ())]
            groups.setdefault(" ".join(found), []).append(name)
        whole = ", ".join(f'"{found}": "{" ".join(names)}"' for found, names in groups.items())
        if len(whole) + len(module) < 85:
            lines.append(f'    "{module}": {{{whole}}},')
            continue
        lines.append(f'    "{module}": {{')
        for found, names in groups.items():
            first, *rest = _filled(names, len(found))
            lines.append(f'        "{found}": "{first}"' + ("" if rest else ","))
            for number, line in enumerate(rest, 1):
                lines.append(f'            " {line}"' + ("," if number == len(rest) else ""))
        lines.append("    },")
    before, _, after = FILE.read_text(encoding="utf-8").partition(BEGINNING)
    return before + "\n".join(lines) + "\n" + END + after.partition(END)[2]


def _filled(names: list[str], taken: int) -> list[str]:
    """Names in lines that are not too long. Of the first one, a part is taken."""
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > (80 - taken if len(lines) == 1 else 80):
            lines.append(name)
        else:
            lines[-1] = f"{lines[-1]} {name}".strip()
    return lines


if __name__ == "__main__":
    assert retrograd.__file__ is not None
    FILE.write_text(text(), encoding="utf-8")
