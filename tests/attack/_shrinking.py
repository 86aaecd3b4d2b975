"""Reduces a program that differs to a few lines, and writes it down."""

from __future__ import annotations

import re

from ._comparing import Difference, as_array, is_tensor
from ._drawing import FLOATS, nested
from ._known import known
from ._machine import HEADER, Libraries, differs, run
from ._report import Report

TRIES = 400  # programs that are tried in place of one: seconds
_ASSIGNED = re.compile(r"^(?:with [^:]+: )?(\w+) = (.*)$")
_LITERAL = re.compile(r"^(\w+) = torch\.(tensor|zeros)\(")
_NAMES = re.compile(r"\b(?:[tc]\d\w*|f)\b")
_PLUMBING = {"=", "", "numel", "dtype", "reshape", "shape", "linspace", "["}
_CALLS = re.compile(r"(?:torch|\bt\d+|\)|\])\.([a-zA-Z_][\w.]*)\(?|( [-+*/%@&|^<>=]{1,3} )|(\[)")


def shrunk(
    lines: list[str], found: Difference, libraries: Libraries, report: Report
) -> tuple[list[str], Difference]:
    """The shortest program that could be found to differ in the same way; one with a reason that
    is known is not made shorter than it takes to see that."""
    return Shrinking(lines, found, libraries, report).done()


class Shrinking:
    def __init__(
        self, lines: list[str], found: Difference, libraries: Libraries, report: Report
    ) -> None:
        self.lines, self.found = list(lines), found
        self.libraries, self.report = libraries, report
        self.tries = TRIES

    def still(self, lines: list[str]) -> bool:
        """Take a program in place of the present one, if it differs in the same way."""
        if not self.tries:
            return False
        self.tries -= 1
        found, upto = differs(lines, self.libraries, self.report.watcher)
        self.report.trying("")
        if found is None or not self.found.same_way(found):
            return False
        self.lines, self.found = list(upto), found
        return True

    def done(self) -> tuple[list[str], Difference]:
        again, upto = differs(self.lines, self.libraries)
        if again is None or not self.found.same_way(again):
            return self.lines, self.found  # it is not there a second time
        self.lines, self.found = list(upto), again
        self.drop_unused()
        before: list[str] = []
        while before != self.lines and self.tries:
            before = list(self.lines)
            self.drop_lines()
            if known(self.found, self.lines, is_whole=True) is not None:
                break
            self.make_leaves()
            self.drop_lines()
            self.simplify_lines()
            self.simplify_values()
        return self.lines, self.found

    def drop_unused(self) -> None:
        """Drop all lines at once that the last one does not depend on by names."""
        names = set(_NAMES.findall(self.lines[-1]))
        kept = [self.lines[-1]]
        for line in self.lines[-2::-1]:
            own = set(_NAMES.findall(line))
            assigned = _ASSIGNED.match(line)
            if (assigned[1] in names) if assigned else bool(own & names or "grad_enabled" in line):
                names |= own
                kept.append(line)
        self.still(kept[::-1])

    def drop_lines(self) -> None:
        at = len(self.lines) - 1
        while at >= 0:
            if at < len(self.lines):
                self.still(self.lines[:at] + self.lines[at + 1 :])
            at -= 1

    def make_leaves(self) -> None:
        """Put the value of a line in its place, latest first."""
        at = len(self.lines) - 2
        while at >= 0:
            if at < len(self.lines) - 1 and not _LITERAL.match(self.lines[at]):
                text = self.value_of(at)
                if text is not None:
                    self.still([*self.lines[:at], text, *self.lines[at + 1 :]])
            at -= 1

    def value_of(self, at: int) -> str | None:
        """A line as a leaf with the value it has in PyTorch."""
        assigned = _ASSIGNED.match(self.lines[at])
        if assigned is None:
            return None
        space = {"torch": self.libraries.torch, "inf": float("inf"), "nan": float("nan")}
        for line in self.lines[: at + 1]:
            run(compile(line, "<program>", "exec"), space)
        self.libraries.reset()
        value = space.get(assigned[1])
        if not is_tensor(value) or value.numel() > 24:
            return None
        array = as_array(value)
        wants = ", requires_grad=True" if value.requires_grad else ""
        if 0 in array.shape:
            return f"{assigned[1]} = torch.zeros({array.shape}, dtype={value.dtype}{wants})"
        texts = [as_text(x) for x in array.ravel().tolist()]
        numbers = nested(texts, array.shape)
        return f"{assigned[1]} = torch.tensor({numbers}, dtype={value.dtype}{wants})"

    def simplify_lines(self) -> None:
        """Take modes, functions in functions, options and calls away."""
        for at in range(len(self.lines)):
            self.shorten_lists(at)
            for pattern, put in (
                (r"^with [^:]+: ", ""), (r", requires_grad=True", ""),
                (r"\.requires_grad_\(\)", ""),
                (r"(def f\(x\): )[^;]*; (.*;)", r"\1\2"), (r"; x = [^;]*(; return x)$", r"\1"),
                (r"; x = [^;]*(; x = [^;]*; return x)$", r"\1"), (r", keepdim=True", ""),
                (r", dtype=torch\.\w+(?=\)$)", ""), (r", alpha=[^)]*", ""), (r"\[::2\]$", ""),
                (r"\.permute\([^)]*\)$", ""), (r"float(16|32)", "float64"),
                (r"complex64", "complex128"), (r"complex128", "float64"),
            ):  # fmt: skip
                if at < len(self.lines):
                    changed = re.sub(pattern, put, self.lines[at])
                    if changed != self.lines[at]:
                        self.still([*self.lines[:at], changed, *self.lines[at + 1 :]])

    def shorten_lists(self, at: int) -> None:
        """Take names out of a list such as that of the inputs of ``autograd.grad``."""
        if at >= len(self.lines):
            return
        for name in re.findall(r"(?<=[\[ ])t\d+(?=, t\d|\])", self.lines[at]):
            if at < len(self.lines):
                changed = re.sub(rf"(?<=[\[ ]){name}, |, {name}(?=\])", "", self.lines[at], count=1)
                if changed != self.lines[at]:
                    self.still([*self.lines[:at], changed, *self.lines[at + 1 :]])

    def simplify_values(self) -> None:
        """Rounder numbers, and fewer."""
        for at in range(len(self.lines)):
            if at >= len(self.lines) or not _LITERAL.match(self.lines[at]):
                continue
            for pattern, put in (
                (r"-?\d+\.\d+(e-?\d+)?", "1.0"), (r"(\d+\.\d)\d+", r"\1"), (r"(\d+)\.\d+", r"\1.0"),
                (r"\b(inf|nan)\b", "1.0"),
            ):  # fmt: skip
                changed = re.sub(pattern, put, self.lines[at])
                if changed != self.lines[at]:
                    self.still([*self.lines[:at], changed, *self.lines[at + 1 :]])


def as_text(value: object) -> str:
    if isinstance(value, complex) and not (abs(value) < float("inf")):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value)


# -- writing down --------------------------------------------------------------------------------


def title_of(lines: list[str], found: Difference) -> str:
    """The operations that differ, and how: what one defect has in common."""
    names: list[str] = []
    for line in lines:
        if _LITERAL.match(line):
            continue
        for call, operator, bracket in _CALLS.findall(line):
            names.append(call or operator.strip() or bracket)
    calls = ", ".join(dict.fromkeys(n for n in names if n not in FLOATS and n not in _PLUMBING))
    if found.kind == "error":
        return f"{calls}: {kind_of(found.theirs)} in PyTorch, {kind_of(found.ours)} here"
    if found.kind in ("dtype", "requires_grad", "type"):
        return f"{calls}: {found.kind} {found.theirs} in PyTorch, {found.ours} here"
    return f"{calls}: {found.kind}"


def kind_of(error: str) -> str:
    return error.split(":")[0]


def reproduction(lines: list[str], found: Difference, libraries: Libraries) -> str:
    """A program that runs as it is, with what it gives in both libraries."""
    space = {"torch": libraries.torch, "inf": float("inf"), "nan": float("nan")}
    written = []
    for at, line in enumerate(lines):
        error = run(compile(line, "<program>", "exec"), space)
        if error is not None and at < len(lines) - 1:
            line = f"try: {line}\nexcept {type(error).__name__}: pass"
        written.append(line)
    libraries.reset()
    if found.what:
        shown = found.what
        if found.kind == "requires_grad":
            shown += ".requires_grad"
        elif found.kind == "version":
            shown += "._version"
        elif found.kind in ("dtype", "shape"):
            shown += f".{found.kind}"
        written.append(f"print({shown})")
    return (
        HEADER + "\n".join(written) + f"\n# PyTorch:   {found.theirs}\n# retrograd: {found.ours}\n"
    )
