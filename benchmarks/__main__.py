"""The command line: `python -m benchmarks GROUP`, one subcommand for each group of benchmarks."""

from __future__ import annotations

import argparse
import datetime
import gc
import json
import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from benchmarks import (
    compile,
    device,
    large,
    ops,
    orders,
    overhead,
    pipeline,
    solvers,
    training,
    transforms,
)
from benchmarks._runner import Progress, Result
from benchmarks._workers import WorkerError
from benchmarks.libraries import BY_KEY, LIBRARIES, Library

HOW_TO_READ = """\
how to read the tables:
  Libraries take turns over many short rounds, so that noise of the machine hits all alike.
  "median" and "min" are times of one run over the rounds; "× NumPy" and "× PyTorch" are medians
  of the ratios within each round. Below 1 is faster. Each library has a process of its own (and
  three of them over time), with one thread (set OMP_NUM_THREADS and the like to change that) and
  with Python's garbage collector on, as users have it.

examples:
  python -m benchmarks overhead
  python -m benchmarks overhead --programs chain,mlp --libraries numpy,retrograd,torch
  python -m benchmarks overhead --rounds 20 --json result.json
"""


class Parser(argparse.ArgumentParser):
    """Errors in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: error: {message}\n")


def parser() -> Parser:
    main = Parser(prog="python -m benchmarks", description="Measure retrograd beside its peers.")
    groups = main.add_subparsers(dest="group", metavar="GROUP", required=True)
    group = groups.add_parser(
        "overhead",
        help="a library's own time and memory: small arrays, import, bytes per operation",
        description=overhead.__doc__,
        epilog=HOW_TO_READ,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [program.name for program in overhead.PROGRAMS]
    group.add_argument("--programs", metavar="NAMES", type=list_of(names, "program"),
                       help="which to run, separated by commas (default: all of "
                       f"{', '.join(names)})")  # fmt: skip
    group.add_argument("--libraries", metavar="NAMES", type=list_of(list(BY_KEY), "library"),
                       help="which to compare (default: those that are installed of "
                       f"{', '.join(BY_KEY)})")  # fmt: skip
    group.add_argument("--rounds", metavar="N", type=positive, default=200,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    group.add_argument("--memory-operations", metavar="N", type=positive,
                       default=overhead.MEMORY_OPERATIONS,
                       help="length of the chain of 'memory' (default: %(default)s)")  # fmt: skip
    add_json(group)
    add_ops(groups)
    add_transforms(groups)
    add_compile(groups)
    add_training(groups)
    add_pipeline(groups)
    add_orders(groups)
    add_solvers(groups)
    add_device(groups)
    return main


def add_json(group: argparse.ArgumentParser) -> None:
    group.add_argument(
        "--json", metavar="FILE", type=new_file, help="write all figures to FILE too"
    )


def add_ops(groups: Any) -> None:
    group = groups.add_parser(
        "ops",
        help="single operations on a thousand and a million elements, beside PyTorch",
        description=ops.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [case.name for case in ops.CASES]
    group.add_argument("--cases", metavar="NAMES", type=list_of(names, "case"),
                       help="which to run, separated by commas (default: all; there are "
                       f"{', '.join(names)})")  # fmt: skip
    group.add_argument("--sizes", metavar="NAMES", type=list_of(["small", "large"], "size"),
                       default=["small", "large"],
                       help="small (1,000 elements), large (1,000,000), or both")  # fmt: skip
    group.add_argument("--rounds", metavar="N", type=positive, default=20,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    add_json(group)


def add_transforms(groups: Any) -> None:
    group = groups.add_parser(
        "transforms",
        help="tangents, Jacobians, Hessians and gradients per sample, beside PyTorch and JAX",
        description=transforms.__doc__,
        epilog=HOW_TO_READ.split("examples:")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [program.name for program in transforms.PROGRAMS] + ["checkpoint"]
    group.add_argument("--programs", metavar="NAMES", type=list_of(names, "program"),
                       help="which to run, separated by commas (default: all of "
                       f"{', '.join(names)})")  # fmt: skip
    group.add_argument("--libraries", metavar="NAMES",
                       type=list_of(list(transforms.KEYS), "library"),
                       help="which to compare (default: those that are installed of "
                       f"{', '.join(transforms.KEYS)})")  # fmt: skip
    group.add_argument("--rounds", metavar="N", type=positive, default=30,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    add_json(group)


def add_compile(groups: Any) -> None:
    group = groups.add_parser(
        "compile",
        help="compiled functions beside eager ones, hand-written NumPy, PyTorch and JAX's jit",
        description=compile.__doc__,
        epilog=HOW_TO_READ.split("examples:")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*[program.name for program in compile.PROGRAMS], large.NAME]
    group.add_argument("--programs", metavar="NAMES", type=list_of(names, "program"),
                       help="which to run, separated by commas (default: all of "
                       f"{', '.join(names)})")  # fmt: skip
    group.add_argument("--rounds", metavar="N", type=positive, default=30,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    add_json(group)


def add_training(groups: Any) -> None:
    group = groups.add_parser(
        "training",
        help="seconds until digits are read well enough, and single steps, beside PyTorch",
        description=training.__doc__,
        epilog=HOW_TO_READ.split("examples:")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [program.name for program in training.PROGRAMS]
    group.add_argument("--programs", metavar="NAMES", type=list_of(names, "program"),
                       help="which to run, separated by commas (default: all of "
                       f"{', '.join(names)})")  # fmt: skip
    group.add_argument("--rounds", metavar="N", type=positive, default=30,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    add_json(group)


def add_pipeline(groups: Any) -> None:
    group = groups.add_parser(
        "pipeline",
        help="a model across processes, beside the same model in one",
        description=pipeline.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group.add_argument("--stages", metavar="N", type=positive, default=2,
                       help="how many ranks, each on a core (default: %(default)s)")  # fmt: skip
    group.add_argument("--rounds", metavar="N", type=positive, default=5,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    add_json(group)


def add_orders(groups: Any) -> None:
    group = groups.add_parser(
        "orders",
        help="Taylor series, Laplacians and sparse Jacobians, beside PyTorch and JAX",
        description=orders.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group.add_argument("--programs", metavar="NAMES", type=list_of(orders.NAMES, "program"),
                       help="which to run, separated by commas (default: all of "
                       f"{', '.join(orders.NAMES)})")  # fmt: skip
    add_json(group)


def add_solvers(groups: Any) -> None:
    group = groups.add_parser(
        "scipy",
        help="SciPy's solvers with derivatives from here, by hand and by differences",
        description=solvers.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group.add_argument("--programs", metavar="NAMES", type=list_of(solvers.NAMES, "program"),
                       help="which to run, separated by commas (default: all of "
                       f"{', '.join(solvers.NAMES)})")  # fmt: skip
    group.add_argument("--rounds", metavar="N", type=positive, default=5,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    add_json(group)


def add_device(groups: Any) -> None:
    group = groups.add_parser(
        "device",
        help="training steps and chains of operations on a GPU, beside JAX and PyTorch",
        description=device.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    group.add_argument("--programs", metavar="NAMES", type=list_of(device.NAMES, "program"),
                       help="which to run, separated by commas (default: all of "
                       f"{', '.join(device.NAMES)})")  # fmt: skip
    group.add_argument("--tiny", action="store_true", help="small sizes: do they run at all?")
    group.add_argument("--rounds", metavar="N", type=positive, default=20,
                       help="how many rounds (default: %(default)s)")  # fmt: skip
    add_json(group)


def list_of(known: Sequence[str], what: str) -> Any:
    """A converter for names separated by commas."""

    def convert(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",") if name.strip()]
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(
                    f"there is no {what} {name!r}; choose from {', '.join(known)}"
                )
        if not names:
            raise argparse.ArgumentTypeError(f"name at least one of {', '.join(known)}")
        return names

    return convert


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def new_file(text: str) -> Path:
    """A path that can be written to: better to know now than after the measurements."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is not a file in a folder that exists")
    return path


def choose_libraries(names: Sequence[str] | None) -> tuple[list[Library], list[str]]:
    """The libraries to compare, and a word on each that is not here. LookupError if one was
    asked for by name and cannot be used."""
    asked = [x for x in LIBRARIES if names is None or x.key in names]
    absent = {x.key: reason for x in asked if (reason := x.why_absent()) is not None}
    if names is not None and absent:
        key, reason = next(iter(absent.items()))
        raise LookupError(f"library {key!r} cannot be used: {reason}")
    words = [f"{key} ({reason})" for key, reason in absent.items()]
    return [x for x in asked if x.key not in absent], words


def environment(libraries: Sequence[Library]) -> dict[str, Any]:
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "garbage_collector": "on" if gc.isenabled() else "off",
        "versions": {x.module: x.version for x in libraries},
    }


def processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())


def heading(about: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    return (
        f"{about['date'][:10]}, Python {about['python']}, {about['cores']} cores "
        f"({about['processor']}), garbage collector {about['garbage_collector']}\n{versions}"
    )


def run_overhead(options: argparse.Namespace) -> None:
    libraries, absent = choose_libraries(options.libraries)
    progress = Progress()
    about = environment(libraries)
    print(heading(about))
    if absent:
        print(f"left out: {', '.join(absent)}")
    plan = overhead.Plan(libraries, options.rounds, progress, options.memory_operations)
    results: list[Result] = []
    for program in overhead.PROGRAMS:
        if options.programs is None or program.name in options.programs:
            results.append(program.measure(program, plan))
            progress.clear()
            print(f"\n{results[-1]}", flush=True)
    if options.json:
        programs = {result.name: result.as_json() for result in results}
        written = {"group": "overhead", **about, "rounds": options.rounds, "programs": programs}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_ops(options: argparse.Namespace) -> None:
    libraries, absent = choose_libraries(["retrograd"])
    peer = BY_KEY["torch"]
    if (reason := peer.why_absent()) is None:
        libraries.append(peer)
    else:
        absent = [f"torch ({reason})"]
    about = environment(libraries)
    print(heading(about))
    if absent:
        print(f"left out: {', '.join(absent)}")
    cases = [c for c in ops.CASES if options.cases is None or c.name in options.cases]
    progress, results = Progress(), []
    for size in (ops.SMALL, ops.LARGE):
        if ("small" if size == ops.SMALL else "large") in options.sizes:
            keys = [x.key for x in libraries]
            results.append(ops.measure_size(size, cases, keys, options.rounds, progress))
            print(f"\n{results[-1]}", flush=True)
    if options.json:
        tables = {result.name: result.as_json() for result in results}
        written = {"group": "ops", **about, "rounds": options.rounds, "tables": tables}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_transforms(options: argparse.Namespace) -> None:
    asked = options.libraries or [k for k in transforms.KEYS if BY_KEY[k].why_absent() is None]
    libraries, _ = choose_libraries(asked)
    about = environment(libraries)
    print(heading(about))
    left_out = [k for k in transforms.KEYS if options.libraries is None and k not in asked]
    if left_out:
        print(f"left out: {', '.join(left_out)} (not installed)")
    progress, results = Progress(), []
    for program in transforms.PROGRAMS:
        if options.programs is None or program.name in options.programs:
            results.append(transforms.time_program(program, libraries, options.rounds, progress))
            progress.clear()
            print(f"\n{results[-1]}", flush=True)
    if options.programs is None or "checkpoint" in options.programs:
        results.append(transforms.measure_checkpoint(libraries))
        print(f"\n{results[-1]}", flush=True)
    if options.json:
        programs = {result.name: result.as_json() for result in results}
        written = {"group": "transforms", **about, "rounds": options.rounds, "programs": programs}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_compile(options: argparse.Namespace) -> None:
    keys = [k for k in compile.KEYS if BY_KEY[k].why_absent() is None]
    libraries, _ = choose_libraries(keys)
    about = environment(libraries)
    print(heading(about))
    left_out = [k for k in compile.KEYS if k not in keys]
    if left_out:
        print(f"left out: {', '.join(left_out)} (not installed)")
    progress, results = Progress(), []
    for program in compile.PROGRAMS:
        if options.programs is None or program.name in options.programs:
            results.append(compile.time_program(program, libraries, options.rounds, progress))
            progress.clear()
            print(f"\n{results[-1]}", flush=True)
    if options.programs is None or large.NAME in options.programs:
        results.append(large.time_cases(libraries, options.rounds, progress))
        progress.clear()
        print(f"\n{results[-1]}", flush=True)
    if options.json:
        programs = {result.name: result.as_json() for result in results}
        written = {"group": "compile", **about, "rounds": options.rounds, "programs": programs}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_training(options: argparse.Namespace) -> None:
    keys = [k for k in training.KEYS if BY_KEY[k].why_absent() is None]
    libraries, _ = choose_libraries(keys)
    about = environment(libraries)
    print(heading(about))
    if len(keys) < len(training.KEYS):
        print("left out: torch (not installed)")
    progress, results = Progress(), []
    for program in training.PROGRAMS:
        if options.programs is None or program.name in options.programs:
            results.append(training.run_program(program, libraries, options.rounds, progress))
            progress.clear()
            print(f"\n{results[-1]}", flush=True)
    if options.json:
        programs = {result.name: result.as_json() for result in results}
        written = {"group": "training", **about, "rounds": options.rounds, "programs": programs}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_pipeline(options: argparse.Namespace) -> None:
    libraries, _ = choose_libraries(["retrograd"])
    about = environment(libraries)
    print(heading(about))
    progress = Progress()
    result = pipeline.measure(options.stages, options.rounds, progress)
    progress.clear()
    print(f"\n{result}", flush=True)
    if options.json:
        written = {"group": "pipeline", **about, "stages": options.stages, "rounds": options.rounds,
                   "programs": {result.name: result.as_json()}}  # fmt: skip
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_orders(options: argparse.Namespace) -> None:
    keys = [k for k in ("retrograd", "torch", "jax") if BY_KEY[k].why_absent() is None]
    libraries, _ = choose_libraries(keys)
    about = environment(libraries)
    print(heading(about))
    results = orders.run(options.programs or orders.NAMES, Progress())
    if options.json:
        programs = {result.name: result.as_json() for result in results}
        written = {"group": "orders", **about, "programs": programs}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_solvers(options: argparse.Namespace) -> None:
    libraries, _ = choose_libraries(["retrograd"])
    about = environment(libraries)
    print(heading(about))
    results = solvers.run(options.programs or solvers.NAMES, options.rounds, Progress())
    if options.json:
        programs = {result.name: result.as_json() for result in results}
        written = {"group": "scipy", **about, "programs": programs}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


def run_device(options: argparse.Namespace) -> None:
    keys = [k for k in ("retrograd", "torch", "jax") if BY_KEY[k].why_absent() is None]
    libraries, _ = choose_libraries(keys)
    about = environment(libraries)
    print(heading(about))
    results = device.run(options.programs or device.NAMES, options.tiny, options.rounds, Progress())
    if options.json:
        programs = {result.name: result.as_json() for result in results}
        written = {"group": "device", **about, "programs": programs}
        options.json.write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", "utf-8")


GROUPS = {"overhead": run_overhead, "ops": run_ops, "transforms": run_transforms,
          "compile": run_compile, "training": run_training, "pipeline": run_pipeline,
          "orders": run_orders, "scipy": run_solvers, "device": run_device}  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    prefix = f"python -m benchmarks {options.group}"
    try:
        GROUPS[options.group](options)
    except LookupError as error:
        print(f"{prefix}: error: {error.args[0]}", file=sys.stderr)
        return 2
    except WorkerError as error:
        print(*error.__notes__, f"{prefix}: error: {error}", sep="\n", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{prefix}: interrupted", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
