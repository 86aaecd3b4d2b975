"""``retrograd run``, and running a script as Python runs it, in this process."""

from __future__ import annotations

import argparse
import builtins
import importlib.util
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

from retrograd._alias import installed
from retrograd._errors import UserError, one_line
from retrograd._tracebacks import shortened

INTERRUPTED = 130  # the exit code after Ctrl-C
STYLES = {"bold": 1, "dim": 2, "red": 31, "yellow": 33, "cyan": 36}  # codes of terminals
ABOUT = "run a program that imports torch, with retrograd in its place"
DESCRIPTION = """\
Run a program written for PyTorch as it is: `import torch`, and the import of any submodule, gives
retrograd. `python -m retrograd program.py` is short for it."""
EPILOG = """\
examples:
  retrograd run train.py --epochs 1
  retrograd run -m package.train --epochs 1

Everything after the script is passed to it. The exit code is the program's. To do the same from
inside a program, put `import retrograd.as_torch` before its first import of torch."""


def add_to(commands: Any) -> None:
    """Add the command ``run`` to a parser's others."""
    command = commands.add_parser(
        "run", help=ABOUT, description=DESCRIPTION, epilog=EPILOG, allow_abbrev=False,
        usage="retrograd run (SCRIPT | -m MODULE) [arguments]",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument(
        "-m", dest="module", action="store_true", help="the program is a module, not a file"
    )
    command.add_argument("words", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run a script or a module with ``torch`` answered. The exit code is the program's."""
    if not options.words:
        what = "module" if options.module else "script"
        example = "-m package.train" if options.module else "train.py"
        raise UserError(f"specify a {what}: retrograd run {example}")
    name, *arguments = options.words
    script = _file_of(name) if options.module else Path(name).absolute()
    exit_code = outcome(script, compiled(script), arguments, True, name if options.module else "")
    if exit_code == INTERRUPTED:
        raise KeyboardInterrupt
    return exit_code


def _file_of(module: str) -> Path:
    """Where the source of a module is that can be run."""
    sys.path[0:1] = [str(Path.cwd())]  # as Python does for -m
    try:
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{module}.__main__")
    except ImportError:
        spec = None
    if spec is None or not spec.has_location or not spec.origin:
        raise UserError(f"there is no module {module!r} to run")
    return Path(spec.origin)


# -- any script ----------------------------------------------------------------------------------


def compiled(script: Path) -> Any:
    """The code of a script; a mistake in it is the user's to put right."""
    if not script.exists():
        raise UserError(f"there is no file {short(script)!r}")
    if script.is_dir():
        raise UserError(f"{short(script)} is a folder; give the name of a script")
    try:
        with open(script, "rb") as file:
            source = file.read()
    except OSError as error:
        raise UserError(one_line(error)) from None
    try:
        return compile(source, str(script), "exec", dont_inherit=True)
    except SyntaxError as error:
        where = f"{short(script)}:{error.lineno}" if error.lineno else short(script)
        raise UserError(f"{where}: {error.msg}") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise UserError(f"{short(script)} is not a Python script: {one_line(error)}") from None


def outcome(
    script: Path, code: Any, arguments: Sequence[str], as_torch: bool, module: str = "",
    failed: Callable[[Exception], None] | None = None,
    ended: Callable[[dict[str, Any]], None] | None = None,
) -> int:  # fmt: skip
    """Run the script, show the error that ends it, and wait for its threads. The exit code that it
    has by itself. ``module``: its name, if it is run by that. ``failed`` is told of the error, and
    ``ended`` of the variables if there was none."""
    with installed() if as_torch else nullcontext():
        try:
            variables = _run_as_main(script, code, arguments, module)
        except SystemExit as error:
            exit_code = _exit_code(error)
        except KeyboardInterrupt:
            exit_code = INTERRUPTED
        except Exception as error:
            _print_traceback(error, str(script))
            if failed is not None:
                failed(error)
            exit_code = 1
        else:
            exit_code = 0
            if ended is not None:
                ended(variables)
        _join_threads()
    return exit_code


def _join_threads() -> None:
    """Wait for the threads that the script has left, as Python does at the end of one.

    Except for those of executors, this package's among them: they wait for work until Python tells
    them at its exit that there is no more, and joins them itself.
    """
    futures = sys.modules.get("concurrent.futures.thread")
    own = threading.current_thread()
    while left := [
        t for t in threading.enumerate()
        if t is not own and not t.daemon and (futures is None or t not in futures._threads_queues)
    ]:  # fmt: skip
        left[0].join()


def _run_as_main(
    script: Path, code: Any, arguments: Sequence[str], module: str
) -> dict[str, Any]:
    """Run code as Python runs a script: as ``__main__``, with its own arguments and folder. Its
    variables."""
    main = ModuleType("__main__")
    main.__dict__.update(__file__=str(script), __builtins__=builtins)
    if module:
        main.__package__ = module if script.stem == "__main__" else module.rpartition(".")[0]
    before = sys.argv, sys.path[:], sys.modules.get("__main__")
    linecache.checkcache(str(script))
    try:
        sys.argv = [str(script), *arguments]
        if not module:
            sys.path[0:1] = [str(script.parent)]
        sys.modules["__main__"] = main
        exec(code, main.__dict__)
        return main.__dict__
    finally:
        sys.argv, sys.path[:] = before[0], before[1]
        if before[2] is not None:
            sys.modules["__main__"] = before[2]


def _exit_code(error: SystemExit) -> int:
    if error.code is None or isinstance(error.code, int):
        return error.code or 0
    print(error.code, file=sys.stderr)
    return 1


def _print_traceback(error: BaseException, script: str) -> None:
    """The traceback from the script on: how it was started is not its affair."""
    sys.stdout.flush()
    with shortened(error):
        shown = error.__traceback__
        while shown is not None and shown.tb_frame.f_code.co_filename != script:
            shown = shown.tb_next
        traceback.print_exception(type(error), error, shown or error.__traceback__)


def styled(words: str, style: str) -> str:
    """Words in a style of ``STYLES`` where standard output is a terminal, unless the environment
    sets ``NO_COLOR`` (https://no-color.org)."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    if not words or is_plain or not sys.stdout.isatty():
        return words
    return f"\x1b[{STYLES[style]}m{words}\x1b[0m"


def short(path: Path) -> str:
    """A path as the user would write it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
