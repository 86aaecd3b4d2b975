"""Text tables of events, and of their sums by operation, line or Module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.profiler._events import format_memory, format_time
from retrograd.profiler._ledger import OUTSIDE, Ledger

PROFILER = "the profiler itself"
UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def event_table(
    shown: Sequence[Any], events: Sequence[Any], ledgers: Sequence[Ledger], header: str,
    widths: tuple[int, int, int], unit: str | None,
) -> str:  # fmt: skip
    """Events or averages as PyTorch's table. ``events``: those that the shown were taken from."""
    if unit is not None and unit not in UNITS:
        raise ValueError(f"time_unit should be one of {', '.join(UNITS)}, not {unit!r}")
    total = sum(ledger.total_ns for ledger in ledgers) / 1000
    own = sum(ledger.own_ns for ledger in ledgers) / 1000
    memory = any(ledger.memory for ledger in ledgers)
    shapes = any(event.input_shapes for event in shown)
    stacks = any(event.stack for event in shown)

    def time(value: float) -> str:
        return format_time(value) if unit is None else f"{value / UNITS[unit]:.3f}{unit}"

    def share(value: float) -> str:
        return f"{100 * value / total:.2f}%" if total else "NaN"

    titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    titles += ["CPU Mem", "Self CPU Mem"] * memory
    titles += ["# of Calls", *["Input Shapes"] * shapes, *["Source Location"] * stacks]
    rows = []
    for event in shown:
        row = [
            shortened(event.key, widths[0]), share(event.self_cpu_time_total),
            time(event.self_cpu_time_total), share(event.cpu_time_total),
            time(event.cpu_time_total), time(event.cpu_time),
        ]  # fmt: skip
        if memory:
            row += [format_memory(event.cpu_memory_usage)]
            row += [format_memory(event.self_cpu_memory_usage)]
        row.append(str(event.count))
        if shapes:
            row.append(shortened(str(event.input_shapes), widths[1]))
        rows.append(row + [shortened(frame, widths[2]) for frame in event.stack[:1]])
        for frame in event.stack[1:]:
            rows.append([""] * (len(titles) - 1) + [shortened(frame, widths[2])])
    spent = sum(event.self_cpu_time_total for event in events)
    held = sum(event.self_cpu_memory_usage for event in events)
    own_bytes = sum(ledger.own_bytes for ledger in ledgers)
    rest = sum(ledger.total_bytes for ledger in ledgers) - own_bytes - held
    for name, value, count in ((OUTSIDE, total - own - spent, rest), (PROFILER, own, own_bytes)):
        more = [format_memory(count)] * 2 if memory else []
        rows.append([name, share(value), time(value), share(value), time(value), "", *more])
    lines = laid_out(titles, rows, header)
    lines += [f"Self CPU time total: {time(spent)}", f"Wall time: {time(total)}"]
    return "\n".join(lines) + "\n"


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def laid_out(titles: Sequence[str], rows: Sequence[Sequence[str]], header: str = "") -> list[str]:
    """The lines of a table whose last two rows are set apart."""
    columns = [list(column) for column in zip(titles, strict=True)]
    for row in rows:
        for i, cell in enumerate([*row, *[""] * (len(titles) - len(row))]):
            columns[i].append(cell)
    widths = [max(map(len, column)) for column in columns]
    rule = "  ".join("-" * width for width in widths)
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
        for cells in zip(*columns, strict=True)
    ]
    body = lines[1:]
    title = ["=" * len(rule), header] if header else []
    return [*title, rule, lines[0], rule, *body[:-2], rule, *body[-2:], rule]
