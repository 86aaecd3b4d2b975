"""The settings of a training run, their defaults and checks."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from retrograd import optim

Path = tuple[str, ...]  # where a setting is: ("optimizer", "lr")


class BadSettingError(Exception):
    """A setting that cannot be: where it is, and what is wrong with it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{'.'.join(path)}: {problem}")
        self.path, self.problem = path, problem


# -- kinds of settings -------------------------------------------------------------------------


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = 0
    most: int = 2**63 - 1

    def accepts(self, value: Any) -> bool:
        return type(value) is int and self.least <= value <= self.most

    def __str__(self) -> str:
        if self.most == 2**63 - 1:
            return f"a whole number of at least {self.least}"
        return f"a whole number from {self.least} to {self.most:,}"


@dataclass(frozen=True)
class Real:
    """A number that may have a fraction."""

    least: float = -math.inf
    most: float = math.inf

    def accepts(self, value: Any) -> bool:
        return type(value) in (int, float) and self.least <= value <= self.most

    def __str__(self) -> str:
        if self.least == -math.inf:
            return "a number"
        if self.most == math.inf:
            return f"a number of at least {self.least:g}"
        return f"a number from {self.least:g} to {self.most:g}"


@dataclass(frozen=True)
class Flag:
    """Yes or no."""

    def accepts(self, value: Any) -> bool:
        return type(value) is bool

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True)
class Text:
    """Some text."""

    what: str

    def accepts(self, value: Any) -> bool:
        return type(value) is str and value != ""

    def __str__(self) -> str:
        return self.what


@dataclass(frozen=True)
class Choice:
    """One of some words."""

    words: tuple[str, ...]

    def accepts(self, value: Any) -> bool:
        return type(value) is str and value in self.words

    def __str__(self) -> str:
        return f"one of {', '.join(self.words)}"


@dataclass(frozen=True)
class Several:
    """So many of another kind."""

    count: int
    kind: Whole | Real

    def accepts(self, value: Any) -> bool:
        return (
            isinstance(value, (list, tuple))
            and len(value) == self.count
            and all(map(self.kind.accepts, value))
        )

    def __str__(self) -> str:
        return f"a list of {self.count}, each {self.kind}"


Kind = Whole | Real | Flag | Text | Choice | Several


@dataclass(frozen=True)
class Setting:
    """A kind, and the value where none is given. A default of None is "not set"."""

    kind: Kind
    default: Any


Section = Mapping[str, Setting]


# -- what there is to set ----------------------------------------------------------------------

_SCHEDULES: Section = {
    "name": Setting(Choice(("constant", "linear", "cosine")), "cosine"),
    "warmup": Setting(Real(0, 1), 0.1),
    "floor": Setting(Real(0, 1), 0.0),
}


def _top(epochs: int | None, steps: int | None, log: int, evaluate: int,
         clip: float) -> Section:  # fmt: skip
    return {
        "seed": Setting(Whole(0, 2**63 - 1), 0),
        "epochs": Setting(Whole(1), epochs),
        "steps": Setting(Whole(1), steps),
        "log_every": Setting(Whole(1), log),
        "evaluate_every": Setting(Whole(1), evaluate),
        "checkpoint_every": Setting(Whole(1), 100),
        "keep_checkpoints": Setting(Whole(1), 2),
        "clip_gradients": Setting(Real(0), clip),  # 0 is no clipping
    }


@dataclass(frozen=True)
class Schema:
    """The settings of one task: those at the top, and those in sections."""

    top: Section
    sections: Mapping[str, Section]
    optimizer: Mapping[str, Any]  # the name and the options, where nothing else is said


SCHEMAS: dict[str, Schema] = {
    "digits": Schema(
        _top(epochs=10, steps=None, log=1, evaluate=23, clip=0.0),
        {
            "model": {
                "channels": Setting(Whole(1, 1024), 32),
                "hidden": Setting(Whole(1, 65536), 64),
            },
            "data": {
                "batch_size": Setting(Whole(1, 1797), 64),
                "test_size": Setting(Whole(1, 1700), 360),
            },
            "schedule": _SCHEDULES,
        },
        {"name": "AdamW", "lr": 0.01, "weight_decay": 0.01},
    ),
    "chars": Schema(
        _top(epochs=None, steps=1000, log=10, evaluate=100, clip=1.0),
        {
            "model": {
                "layers": Setting(Whole(1, 100), 2),
                "heads": Setting(Whole(1, 256), 4),
                "width": Setting(Whole(1, 16384), 96),
                "context": Setting(Whole(1, 65536), 64),
                "dropout": Setting(Real(0, 0.99), 0.0),
                "tied": Setting(Flag(), False),
            },
            "data": {
                "file": Setting(Text("the name of a text file"), None),
                "batch_size": Setting(Whole(1, 65536), 16),
                "test_share": Setting(Real(0.001, 0.9), 0.1),
            },
            "sample": {
                "length": Setting(Whole(0, 100_000), 400),
                "temperature": Setting(Real(0, 100), 0.8),
                "start": Setting(Text("the text to begin with"), "\n"),
            },
            "schedule": _SCHEDULES,
        },
        {"name": "AdamW", "lr": 3e-3, "weight_decay": 0.1, "betas": [0.9, 0.95]},
    ),
}  # fmt: skip
TASKS = tuple(SCHEMAS)
OPTIMIZERS = tuple(sorted(set(optim.__all__) - {"LBFGS", "Muon", "Optimizer", "SparseAdam",
                                                "lr_scheduler", "swa_utils"}))  # fmt: skip


def _optimizer_section(name: str, usual: Mapping[str, Any]) -> Section:
    """The options of an optimizer, read off its constructor."""
    section = {"name": Setting(Choice(OPTIMIZERS), usual["name"])}
    for option in inspect.signature(getattr(optim, name)).parameters.values():
        kind = _kind_of(option.default)
        if option.name in ("params", "foreach", "capturable", "differentiable", "fused"):
            continue
        if kind is not None:
            default = usual.get(option.name) if name == usual["name"] else None
            section[option.name] = Setting(kind, default)
    return section


def _kind_of(default: Any) -> Kind | None:
    if type(default) is bool:
        return Flag()
    if type(default) in (int, float):
        return Real()
    if isinstance(default, tuple) and all(type(x) in (int, float) for x in default):
        return Several(len(default), Real())
    return None


# -- checking ----------------------------------------------------------------------------------


def complete(given: Mapping[str, Any]) -> dict[str, Any]:
    """All settings of a run: those given, checked, and the defaults of the rest.

    >>> complete({"task": "digits", "data": {"batch_size": 32}})["data"]
    {'batch_size': 32, 'test_size': 360}
    >>> complete({"task": "digits", "optimizer": {"name": "SDG"}})
    Traceback (most recent call last):
    retrograd.training._settings.BadSettingError: optimizer.name: "SDG" is not one of ASGD, ...
    """
    given = _without_nulls(given)
    rest = dict(given)
    task = rest.pop("task", None)
    if task is None:
        raise BadSettingError(("task",), f"it is missing; it must be one of {', '.join(TASKS)}")
    _check(("task",), Choice(TASKS), task)
    schema = SCHEMAS[task]
    sections = {**schema.sections, "optimizer": _optimizer_of(rest.get("optimizer"), schema)}
    _check_names((), rest, (*schema.top, *sections))
    settings: dict[str, Any] = {"task": task}
    settings |= _filled((), {k: v for k, v in rest.items() if k in schema.top}, schema.top)
    for name, section in sections.items():
        settings[name] = _filled((name,), rest.get(name, {}), section)
    _check_together(settings, given)
    return settings


def _without_nulls(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings without those that are not set, which are null in the configuration of a run."""
    return {
        name: _without_nulls(value) if isinstance(value, Mapping) else value
        for name, value in given.items()
        if value is not None
    }


def _optimizer_of(given: Any, schema: Schema) -> Section:
    name = given.get("name") if isinstance(given, Mapping) else None
    if name is not None:
        _check(("optimizer", "name"), Choice(OPTIMIZERS), name)
    return _optimizer_section(name or schema.optimizer["name"], schema.optimizer)


def _filled(path: Path, given: Any, section: Section) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise BadSettingError(path, f"it must be a section with settings, not {_shown(given)}")
    _check_names(path, given, tuple(section))
    values = {}
    for name, setting in section.items():
        values[name] = given.get(name, setting.default)
        if name in given:
            _check((*path, name), setting.kind, given[name])
    return values


def _check(path: Path, kind: Kind, value: Any) -> None:
    if not kind.accepts(value):
        raise BadSettingError(path, f"{_shown(value)} is not {kind}")


def _check_names(path: Path, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in given:
        if name not in known:
            near = get_close_matches(str(name), known, 1)
            advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
            raise BadSettingError((*path, str(name)), f"there is no such setting; {advice}")


def _check_together(settings: dict[str, Any], given: Mapping[str, Any]) -> None:
    """What no setting can break alone."""
    if "epochs" in given and "steps" in given:
        raise BadSettingError(("steps",), "give steps or epochs, not both")
    if "steps" in given:
        settings["epochs"] = None
    elif "epochs" in given:
        settings["steps"] = None
    if settings["task"] == "chars":
        width, heads = settings["model"]["width"], settings["model"]["heads"]
        if width % heads:
            raise BadSettingError(
                ("model", "heads"), f"{heads} heads do not divide a width of {width}"
            )


def _shown(value: Any) -> str:
    """A value as it stands in a file."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a section"
    return str(value)
