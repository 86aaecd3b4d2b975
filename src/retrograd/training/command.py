"""``retrograd train``: options and implementation."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from retrograd._errors import UserError, one_line

TASKS = ("digits", "chars")
ABOUT = "train a model to recognize handwritten digits, or to write text character by character"
DESCRIPTION = """\
Train a model, and write its weights, learning curves and figures to a folder. Train one of

  digits   a convolutional network that recognizes handwritten digits (1,797 images)
  chars    a small GPT that learns to continue a text, character by character
  CONFIG   a TOML or JSON file that names one of them and its settings

A run can be stopped at any time, by Ctrl-C or otherwise, and resumed."""
EPILOG = """\
examples:
  retrograd train digits
  retrograd train chars --text shakespeare.txt --steps 2000
  retrograd train --resume runs/chars-0

A configuration file contains some or all settings. Every run writes its own to its folder:
  task = "digits"
  epochs = 20
  [optimizer]
  name = "SGD"
  lr = 0.1
  momentum = 0.9"""


# fmt: off
def add_to(commands: Any) -> None:
    """Add the command to a parser's others."""
    command = commands.add_parser(
        "train", help=ABOUT, description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False,
        usage="retrograd train [digits | chars | CONFIG] [options]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("what", nargs="?", help=argparse.SUPPRESS)
    length = command.add_mutually_exclusive_group()
    length.add_argument("--epochs", type=_positive, metavar="N", help="passes over the data")
    length.add_argument("--steps", type=_positive, metavar="N", help="total number of batches")
    add = command.add_argument
    add("--seed", type=_whole, metavar="N",
        help="seed of the initial weights and the order of the data (default: 0)")
    add("--text", type=Path, metavar="FILE",
        help="the text that chars learns (default: the sources of this package)")
    add("--out", type=Path, metavar="DIR",
        help="output folder (default: runs/digits-0 and so on)")
    add("--resume", nargs="?", const="", metavar="PATH",
        help="continue a run, given its folder, or start a new run from one of its checkpoints "
        "(default: the latest run of this name)")
    add("--threads", type=_positive, metavar="N", default=1,
        help="number of threads (default: 1, the fastest for small models)")
    add("--quiet", action="store_true", help="print nothing but errors")
    command.set_defaults(run=run)
# fmt: on


def _positive(text: str) -> int:
    if not text.isdecimal() or not 0 < int(text) < 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def _whole(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**63:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Train. Whatever is the user's to put right is a ``UserError``."""
    try:
        return _run(options)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UserError(one_line(error)) from None


def _run(options: argparse.Namespace) -> int:
    import retrograd as torch
    from retrograd.training import _folder
    from retrograd.training._run import Run

    torch.set_num_threads(options.threads)
    say: Callable[[str], None] = (lambda text: None) if options.quiet else print
    with contextlib.ExitStack() as stack:
        if options.resume is None:
            settings = _settings(options)
            training = Run(settings, say)
            folder = _folder.new(options.out, _name(options, settings))
            stack.enter_context(_folder.claimed(folder))
        else:
            source, in_place = _to_resume(options)
            if in_place:
                stack.enter_context(_folder.claimed(source))
            checkpoint = _checkpoint_in(source)
            settings = _resumed_settings(options, checkpoint)
            training = Run(settings, say)
            training.resume(checkpoint)
            folder = source
            if not in_place:
                folder = _folder.new(options.out, _name(options, settings))
                stack.enter_context(_folder.claimed(folder))
        say(training.announcement(folder))
        training.train(folder, options.quiet)
        training.finish(folder)
    return 0


# -- settings ----------------------------------------------------------------------------------


def _settings(options: argparse.Namespace) -> dict[str, Any]:
    """Those of a new run: from the file or the task, and from the command line."""
    from retrograd.training import _config
    from retrograd.training._settings import complete

    if options.what is None:
        raise UserError(f"specify what to train: {', '.join(TASKS)}, or a configuration file")
    given = _given(options)
    if options.what in TASKS:
        settings = complete({"task": options.what, **given})
    else:
        settings = _config.read(_config_file(options.what), given)
    if settings["data"].get("file") is not None:
        settings["data"]["file"] = str(Path(settings["data"]["file"]).absolute())
    return settings


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives."""
    names = ("seed", "epochs", "steps")
    given = {n: v for n in names if (v := getattr(options, n)) is not None}
    if options.text is not None:
        if options.what == "digits":
            raise UserError("--text is only for chars")
        given["data"] = {"file": str(options.text.absolute())}
    return given


def _config_file(name: str) -> Path:
    path = Path(name)
    if path.suffix not in (".toml", ".json") or not path.exists():
        near = get_close_matches(name, TASKS, 1)
        advice = f"did you mean {near[0]}?" if near else f"choose from {', '.join(TASKS)}, or give "
        advice += "" if near else "the name of a .toml or .json file"
        what = "there is no file" if path.suffix in (".toml", ".json") else "cannot train"
        raise UserError(f"{what} {name!r}; {advice}")
    return path


def _name(options: argparse.Namespace, settings: dict[str, Any]) -> str:
    """What a run is called where no folder is named."""
    what = options.what
    name = settings["task"] if what is None or what in TASKS else Path(what).stem
    return f"{name}-{settings['seed']}"


# -- resuming ----------------------------------------------------------------------------------


def _to_resume(options: argparse.Namespace) -> tuple[Path, bool]:
    """The folder of a run or a checkpoint, and whether to go on in that very folder."""
    from retrograd.training import _folder

    if options.resume:
        source = Path(options.resume)
        if not source.exists():
            raise UserError(f"there is nothing to resume: {source} does not exist")
        return source, source.is_dir() and options.out is None
    if options.out is not None:
        if not (options.out / _folder.CONFIG).exists():
            raise UserError(f"there is nothing to resume: {options.out} has no run")
        return options.out, True
    name = _name(options, _settings(options))
    result = _folder.latest(name)
    if result is None:
        raise UserError(f"there is nothing to resume: {_folder.RUNS / name} has no run")
    return result, True


def _checkpoint_in(source: Path) -> Path:
    """The last checkpoint of a run."""
    from retrograd.files import Checkpoints
    from retrograd.training._run import CHECKPOINTS

    if source.is_file():
        return source
    result = Checkpoints(source / CHECKPOINTS).latest()
    if result is None:
        raise UserError(
            f"there is nothing to resume: {source} has no checkpoint; remove it and start again"
            if (source / "config.json").exists()
            else f"there is nothing to resume: {source} is not the folder of a run"
        )
    return Path(result)


def _resumed_settings(options: argparse.Namespace, checkpoint: Path) -> dict[str, Any]:
    """Those of the checkpoint. What the command line asks for must agree with them, since a run
    that goes on differently is another run."""
    from retrograd.training._run import read_values

    settings: dict[str, Any] = read_values(checkpoint)["settings"]
    if options.what is None or options.what in TASKS:
        asked = _given(options) | ({} if options.what is None else {"task": options.what})
    else:
        asked = _settings(options)
    for path, value in _flat(asked):
        there: Any = settings
        for name in path:
            there = there.get(name) if isinstance(there, dict) else None
        if there != value:
            raise UserError(
                f"{checkpoint} is of a run with {'.'.join(path)} = {there}, not {value}: resume it "
                "without changes, or start a new run"
            )
    return settings


def _flat(settings: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[Any, Any]]:
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, (*path, name))
        else:
            yield (*path, name), value
