"""Configuration files in TOML or JSON, with the line of each setting."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from retrograd._errors import UserError, one_line
from retrograd.training._settings import BadSettingError, complete

LARGEST = 1_000_000  # bytes; whoever names a larger file has named the wrong one


def read(path: Path, overrides: dict[str, Any]) -> dict[str, Any]:
    """The settings in a file, with those of the command line in their place."""
    text = _text(path)
    given = _parsed(path, text)
    for name in ("epochs", "steps"):
        if name in overrides:  # either of them settles how long
            given.pop("epochs", None), given.pop("steps", None)
    merged = merge(given, overrides)
    try:
        settings = complete(merged)
    except BadSettingError as error:
        line = line_of(text, error.path, path.suffix == ".json")
        where = f"{path}, line {line}" if line else str(path)
        raise UserError(f"{where}: {error}") from None
    file = settings["data"].get("file")
    if file is not None and "file" not in overrides.get("data", {}):
        settings["data"]["file"] = str(path.parent / file)  # next to the configuration
    return settings


def merge(given: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """Settings with others in their place, section by section.

    >>> merge({"seed": 1, "data": {"a": 1, "b": 2}}, {"data": {"b": 3}})
    {'seed': 1, 'data': {'a': 1, 'b': 3}}
    """
    merged = dict(given)
    for name, value in overrides.items():
        old = merged.get(name)
        both = isinstance(value, dict) and isinstance(old, dict)
        merged[name] = old | value if both else value
    return merged


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path} is too large for a configuration file")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(one_line(error)) from None
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a text file in UTF-8") from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        result = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: {error.msg}") from None
    except tomllib.TOMLDecodeError as error:
        match = re.fullmatch(r"(.*) \(at line (\d+), column \d+\)", str(error))
        where, what = (f"{path}, line {match[2]}", match[1]) if match else (str(path), str(error))
        raise UserError(f"{where}: {what}") from None
    except RecursionError:
        raise UserError(f"{path} is nested too deeply for a configuration file") from None
    if not isinstance(result, dict):
        raise UserError(f'{path}: a configuration is an object, such as {{"task": "digits"}}')
    return result


def line_of(text: str, path: tuple[str, ...], is_json: bool) -> int | None:
    """The line in which a setting stands, or the section it would be in; None if there is none.

    >>> line_of('task = "digits"\\n[data]\\nbatch_size = 0', ("data", "batch_size"), False)
    3
    """
    lines = dict(reversed(list((_json_keys if is_json else _toml_keys)(text))))
    return next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), None)


def _toml_keys(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The keys of a TOML file and their lines, as far as one can tell without reading values."""
    section: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), start=1):
        header = re.match(r"\s*\[\s*([\w.\"-]+)\s*\]", line)
        key = re.match(r"\s*([\w.\"-]+)\s*=", line)
        if header:
            section = tuple(header[1].replace('"', "").split("."))
            yield section, number
        elif key:
            yield (*section, *key[1].replace('"', "").split(".")), number


def _json_keys(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """The keys of a JSON file and their lines."""
    path: list[str] = []
    last = ""
    for mark in re.finditer(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[{}]', text):
        if mark[0] == "{":
            path.append(last)
        elif mark[0] == "}":
            path.pop()
        elif mark[2]:
            last = mark[1]
            yield (*path[1:], last), text.count("\n", 0, mark.start()) + 1
