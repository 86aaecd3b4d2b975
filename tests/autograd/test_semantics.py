"""Programs in Markdown documents print with retrograd what PyTorch prints."""

import contextlib
import io
import re
import warnings
from pathlib import Path

import pytest

import retrograd

DOCUMENT = "\n".join(
    (Path(__file__).parents[1] / name).read_text(encoding="utf-8")
    for name in ("semantics.md", "custom_functions.md", "fuzzed_programs.md")
)
SECTIONS = re.findall(r"## (.*?)\n.*?```python\n(.*?)```\n```text\n(.*?)```", DOCUMENT, re.S)


def printed(code: str, torch: object) -> str:
    """What a program prints, with addresses and PyTorch's own file names left out."""

    def E(function):
        try:
            print("no error ->", function())
        except Exception as error:
            print(f"{type(error).__name__}: {error}")

    names = {"torch": torch, "E": E, "warnings": warnings, "contextlib": contextlib, "io": io}
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, "<semantics>", "exec"), {**names, "re": re})
    text = re.sub(r" \(Triggered internally[^)]*\)", "", out.getvalue())
    return re.sub(r"0x[0-9a-f]+", "0x...", text)


def without_our_lines(text: str) -> str:
    """Errors of retrograd say in lines of their own where in the program things happened."""
    return re.sub(r"\n  (saved|changed|recorded) at <semantics>:\d+", "", text)


def test_all_sections_are_read():
    assert len(SECTIONS) == DOCUMENT.count("\n## ")


@pytest.mark.parametrize(("title", "code", "expected"), SECTIONS, ids=[s[0] for s in SECTIONS])
def test_retrograd_prints_what_pytorch_prints(title, code, expected):
    assert without_our_lines(printed(code, retrograd)) == expected


@pytest.mark.parametrize(("title", "code", "expected"), SECTIONS, ids=[s[0] for s in SECTIONS])
def test_the_document_is_true_of_pytorch(title, code, expected):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed to compare with")
    torch.set_warn_always(True)  # some warnings come once a process, and a test before had them
    try:
        assert printed(code, torch) == expected
    finally:
        torch.set_warn_always(False)
