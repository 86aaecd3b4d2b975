"""``retrograd pipeline plan``: what it says, and what it makes of mistakes."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from retrograd.__main__ import main
from retrograd.pipeline import _plan, command, schedules, simulate


def plan(capsys: Any, *options: str) -> str:
    assert main(["pipeline", "plan", *options]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return str(printed.out)


def rows(text: str) -> dict[str, list[str]]:
    """The table: what each schedule costs."""
    lines = text.split("\n\n")[1].splitlines()
    cells = [re.split(r"\s{2,}", line) for line in lines]
    return {line[0]: line[1:] for line in cells}


def test_schedules_are_compared(capsys: Any) -> None:
    text = plan(capsys, "--stages", "4", "--microbatches", "8", "--activation-mb", "100")
    assert rows(text) == {
        "schedule": ["time", "bubble", "activations", "memory", "for 5 %"],
        "gpipe": ["33", "37.5 %", "8", "800 MB", "60"],
        "1f1b": ["33", "37.5 %", "4", "400 MB", "60"],
        "interleaved x2": ["28.5", "18.8 %", "5.5", "550 MB", "30"],
        "zb-h1": ["27", "12.5 %", "4", "400 MB", "20"],
        "(no waiting)": ["24", "0 %"],
    }
    assert text.startswith("4 stages, 8 micro-batches: forward 1, backward twice that\n")
    words = " ".join(text.split())
    assert "Best: zb-h1, 5.56 % faster than interleaved x2, with 4 in place of 5.5" in words
    assert "For a bubble of at most 5 %, use 20 micro-batches or more." in words
    assert all(len(line) <= 100 for line in text.splitlines())


def test_one_schedule(capsys: Any) -> None:
    text = plan(capsys, "--stages", "3", "--microbatches", "4", "--schedule", "GPipe", "--show")
    assert list(rows(text)) == ["schedule", "gpipe", "(no waiting)"]
    assert "Best" not in text
    assert text.endswith(simulate(schedules.get("gpipe")(3, 4)).text() + "\n")


def test_chunks(capsys: Any) -> None:
    sizes = ("--stages", "4", "--microbatches", "8")
    assert rows(plan(capsys, *sizes, "--chunks", "3"))["interleaved x3"][0] == "27"
    # With one chunk it would be 1F1B once more.
    assert list(rows(plan(capsys, *sizes, "--chunks", "1"))) == [
        "schedule", "gpipe", "1f1b", "zb-h1", "(no waiting)",
    ]  # fmt: skip


def test_memory_rules_schedules_out(capsys: Any) -> None:
    sizes = ("--stages", "4", "--microbatches", "8", "--chunks", "4", "--activation-mb", "1")
    costs = ("--backward-weight", "0.1")
    words = " ".join(plan(capsys, *sizes, *costs).split())
    assert "Best: interleaved x4" in words
    assert "If memory is short, zb-h1 keeps 4 activations in place of 4.75" in words
    words = " ".join(plan(capsys, *sizes, *costs, "--memory-mb", "4").split())
    assert "Best: zb-h1" in words
    assert re.search(r"interleaved x4 would be faster by [\d.]+ %, but does not fit", words)
    words = " ".join(plan(capsys, *sizes, "--memory-mb", "3").split())
    assert "None fits into 3 MB a stage: zb-h1 needs the least, 4 MB." in words


def test_equally_fast(capsys: Any) -> None:
    """Where weights cost nothing, ZB-H1 has nothing to fill gaps with."""
    options = ("--stages", "4", "--microbatches", "8", "--chunks", "1", "--backward-weight", "0")
    words = " ".join(plan(capsys, *options).split())
    assert "Best: 1f1b, as fast as gpipe and zb-h1 with as many activations." in words


def test_what_helps(capsys: Any) -> None:
    words = " ".join(
        plan(capsys, "--stages", "4", "--microbatches", "3", "--forward", "1,1,1,2").split()
    )
    assert "Stage 3 works 60 % more than the mean" in words
    assert "There are fewer micro-batches than stages: never more than 3 of 4" in words
    assert "No number of micro-batches brings the bubble of" in words
    words = " ".join(
        plan(capsys, "--stages", "2", "--microbatches", "4", "--schedule", "1f1b",
             "--communication", "0.5", "--latency", "0.25").split()
    )  # fmt: skip
    alone = simulate(schedules.get("1f1b")(2, 4)).time
    slower = simulate(schedules.get("1f1b")(2, 4), communication=0.5, latency=0.25).time / alone - 1
    assert f"Messages make it {_plan.percent(Fraction(slower))} longer" in words
    assert "a message 0.75" in words


def test_one_stage(capsys: Any) -> None:
    text = plan(capsys, "--stages", "1", "--microbatches", "2")
    assert "One stage has nobody to wait for" in text
    assert rows(text)["zb-h1"] == ["6", "0 %", "1", "1"]


@pytest.mark.parametrize("name", schedules.TRAINING)
@pytest.mark.parametrize("costs", [{}, {"communication": Fraction(1, 50)}, {"forward": 2}])
@pytest.mark.parametrize("stages", [2, 3, 5])
def test_smallest_number_of_micro_batches(name: str, costs: Any, stages: int) -> None:
    """Against trying them all."""
    costs = {"communication": 0, "latency": 0, **costs}
    asked = _plan.Plan([name], stages, 4, 2, costs, Fraction(1, 10), None)
    needed = _plan.compare(asked, lambda name, done: None)[0].needed
    make = schedules.get(name)
    chunks = 2 if make.takes_chunks else 1
    good = (
        m
        for m in range(1, 101)
        if Fraction(simulate(make(stages, m, chunks), **costs).bubble) <= Fraction(1, 10)
    )
    smallest = next(good, None)
    assert needed.microbatches == smallest
    assert smallest is None or needed.exact


def test_large_numbers_are_estimated_as_the_formula_says(capsys: Any) -> None:
    text = plan(capsys, "--stages", "32", "--microbatches", "64", "--bubble", "1")
    assert [row[-1] for row in rows(text).values()] == [
        "for 1 %", "~3,100", "~3,100", "~1,550", "~1,034", "0 %",
    ]  # fmt: skip


# -- pictures ----------------------------------------------------------------------------------


def test_drawing(capsys: Any, tmp_path: Path) -> None:
    sizes = ("--stages", "2", "--microbatches", "2")
    one = tmp_path / "one.svg"
    text = plan(capsys, *sizes, "--schedule", "zb-h1", "--draw", str(one))
    assert text.endswith(f"\nDrawn: {one}\n")
    assert one.read_text() == simulate(schedules.get("zb-h1")(2, 2)).svg()
    plan(capsys, *sizes, "--draw", str(tmp_path / "all.txt"))
    assert sorted(path.name for path in tmp_path.glob("all*")) == [
        "all-1f1b.txt", "all-gpipe.txt", "all-interleaved.txt", "all-zb-h1.txt",
    ]  # fmt: skip


DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", [*schedules.TRAINING, "large"])
def test_pictures_of_the_documents_are_up_to_date(name: str) -> None:
    """Draw them anew by saving what this compares with."""
    if name == "large":
        timeline = simulate(schedules.get("zb-h1")(32, 128), communication=0.1)
    else:
        timeline = simulate(schedules.get(name)(4, 8, 2 if name == "interleaved" else 1))
    assert (DOCS / "pictures" / f"pipeline-{name}.svg").read_text() == timeline.svg()


@pytest.mark.long
def test_plan_of_the_documents_is_what_is_printed(capsys: Any) -> None:
    text = (DOCS / "pipeline.md").read_text(encoding="utf-8")
    options, printed = re.findall(r"^\$ retrograd pipeline plan (.*)\n([^`]*)", text, re.M)[0]
    assert plan(capsys, *options.split()) == printed


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    for stream, expected in (
        (Terminal(), "\r\x1b[Ksimulating 1f1b: 50%\r\x1b[K"),
        (io.StringIO(), ""),
    ):
        with command._Progress(stream) as progress:
            progress.show("1f1b", 0.1)  # too early
            now[0] += 2.5
            progress.show("1f1b", 0.5)
            progress.show("1f1b", 0.6)  # too soon after that
        assert stream.getvalue() == expected


# -- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "the following arguments are required: --stages, --microbatches"),
        ("--stages 0 --microbatches 2", "'0' is not a whole number of at least 1"),
        ("--stages 2 --microbatches 2.5", "'2.5' is not a whole number of at least 1"),
        ("--stages 2 --microbatches 2 --schedule gpip", "invalid choice: 'gpip'"),
        ("--stages 2 --microbatches 2 --forward x", "'x' is not a number of at least 0"),
        ("--stages 2 --microbatches 2 --forward 1/0", "'1/0' is not a number"),
        ("--stages 2 --microbatches 2 --backward -1", "'-1' is not a number of at least 0"),
        ("--stages 2 --microbatches 2 --latency inf", "'inf' is not a number of at least 0"),
        ("--stages 2 --microbatches 2 --latency 1e99", "'1e99' is not a number"),
        ("--stages 2 --microbatches 2 --forward 1,2,3", "forward has 3 numbers; give 2"),
        ("--stages 2 --microbatches 2 --backward 1 --backward-weight 2", "longer than all of it"),
        ("--stages 2 --microbatches 2 --schedule 1f1b --chunks 2", "is for the interleaved"),
        ("--stages 2 --microbatches 2 --memory-mb 2", "--memory-mb needs --activation-mb"),
        ("--stages 2 --microbatches 2 --draw plan.gif", "plan.gif: a timeline is drawn as .svg"),
        ("--stages 2 --microbatches 2 --draw no/where/plan.svg", "there is no folder no/where"),
        ("--stages 5000 --microbatches 5000", "simulating more than 2,000,000 takes too long"),
        ("--stages 2 --microbatches 2 --colour red", "unrecognized arguments: --colour red"),
    ],
)
def test_a_mistake_is_one_line(capsys: Any, options: str, message: str) -> None:
    try:
        code: Any = main(["pipeline", "plan", *options.split()])
    except SystemExit as stopped:
        code = stopped.code
    printed = capsys.readouterr()
    assert code == 2
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_a_command_is_needed(capsys: Any) -> None:
    assert main(["pipeline"]) == 2
    assert capsys.readouterr().err == (
        "retrograd: specify a command: retrograd pipeline plan --help\n"
    )


def test_command_line_does_not_load_what_it_does_not_run() -> None:
    program = (
        "import sys, retrograd.__main__ as m; m.parser(); import retrograd.pipeline as p;"
        "print([n for n in [*p._NAMES, 'schedules'] if f'retrograd.pipeline.{n}' in sys.modules]);"
        "print([n for n in p.__all__ if getattr(p, n) is None],"
        "set(p.__all__) - {n for names in p._NAMES.values() for n in names})"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("[]\n[] {'schedules'}\n", "")


def test_help_names_every_schedule(capsys: Any) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["pipeline", "plan", "--help"])
    assert stopped.value.code == 0
    text = capsys.readouterr().out
    assert all(name in text for name in schedules.TRAINING)
    assert command.NAMES == schedules.TRAINING
