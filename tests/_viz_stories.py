"""Stories written by hand, for what a program would take long to make or would not make at all.

They follow the form that the page reads: items and edges with a picture for each group, and the
steps of each pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

WIDTH, HEIGHT, ACROSS, DOWN = 96, 38, 120, 66


def value(*data: Any, shape: Sequence[int] | None = None, dtype: str = "float32") -> dict[str, Any]:
    """A Value with all its elements; a number by default."""
    finite = [x for x in data if isinstance(x, (int, float))]
    return {
        "shape": list([] if shape is None and len(data) == 1 else shape or [len(data)]),
        "dtype": dtype, "data": list(data), "min": min(finite, default=None),
        "max": max(finite, default=None), "mean": sum(finite) / len(finite) if finite else None,
        "norm": sum(x * x for x in finite) ** 0.5 if finite else None,
        "nan": sum(x == "nan" for x in data), "inf": sum(x in ("inf", "-inf") for x in data),
    }  # fmt: skip


def item(number: int, kind: str, label: str, **more: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("name", "shape", "dtype", "place", "group", "bytes", "value", "grad"))
    return {"id": number, "kind": kind, "label": label, "module": "", **empty, **more}


def step(number: int, incoming: Any, **more: Any) -> dict[str, Any]:
    plain = {
        "parts": [],
        "rule": None,
        "saved": [],
        "outgoing": [],
        "accumulate": None,
        "marks": [],
    }
    return {"item": number, "incoming": [incoming], **plain, **more}


def grid(group: int | None, ids: Sequence[int], edges: Sequence[Sequence[int]]) -> dict[str, Any]:
    """A picture: boxes in rows by how far they are from a beginning."""
    inside = set(ids)
    depth: dict[int, int] = {}
    before: dict[int, list[int]] = {}
    for start, end in edges:
        if start in inside and end in inside:
            before.setdefault(end, []).append(start)
    for number in ids:  # given in the order of the data
        depth[number] = 1 + max((depth[p] for p in before.get(number, [])), default=-1)
    filled: dict[int, int] = {}
    boxes = {}
    for number in ids:
        row = depth[number]
        column = filled[row] = filled.get(row, -1) + 1
        boxes[str(number)] = [20 + column * ACROSS, 20 + row * DOWN, WIDTH, HEIGHT]
    lines = [
        {"from": a, "to": b, "points": [_end(boxes[str(a)], HEIGHT), _end(boxes[str(b)], 0)]}
        for b, starts in before.items() for a in starts
    ]  # fmt: skip
    return {
        "group": group, "width": 40 + (max(filled.values(), default=0) + 1) * ACROSS,
        "height": 40 + (max(filled, default=0) + 1) * DOWN, "boxes": boxes, "edges": lines,
    }  # fmt: skip


def _end(box: Sequence[float], down: float) -> list[float]:
    return [box[0] + box[2] / 2, box[1] + down]


def story(
    items: list[dict[str, Any]], edges: list[list[int]], passes: list[dict[str, Any]],
    lines: list[str], pictures: list[dict[str, Any]] | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    shown = pictures or [grid(None, [i["id"] for i in items], edges)]
    files = [{"name": "program.py", "first_line": 1, "lines": lines}]
    graph = {"items": items, "edges": edges, "files": files, "pictures": shown}
    plain = {"version": 1, "title": "program.py", "marks": [], "memory": {"total": 0, "items": []}}
    return {**plain, "files": files, "graph": graph, "passes": passes, **more}


def small() -> dict[str, Any]:
    """w = 1.5, x = 3: y = w*x + w*w, whose gradient of w arrives in parts, 3.0 + 1.5 + 1.5."""
    items = [
        item(0, "leaf", "w", name="w", shape=[], dtype="float32", place=[0, 2]),
        item(1, "data", "x", name="x", shape=[], dtype="float32", place=[0, 3]),
        item(2, "operation", "Mul", shape=[], dtype="float32", place=[0, 4], bytes=8),
        item(3, "intermediate", "a", name="a", shape=[], dtype="float32", place=[0, 4]),
        item(4, "operation", "Mul", shape=[], dtype="float32", place=[0, 5], bytes=8),
        item(5, "operation", "Add", shape=[], dtype="float32", place=[0, 5]),
    ]
    edges = [[0, 2], [1, 2], [2, 3], [0, 4], [3, 5], [4, 5]]
    one = value(1.0)
    into_w = [{"from": 2, "value": value(3.0)}, {"from": 4, "value": value(1.5)},
              {"from": 4, "value": value(1.5)}]  # fmt: skip
    rule = {"words": "Each factor gets the gradient times the other.",
            "formulas": ["grad_self = grad · other", "grad_other = grad · self"]}  # fmt: skip
    adding = {"words": "Both get it as it is.", "formulas": ["grad_self = grad"]}
    steps = [
        step(5, one, rule=adding, outgoing=[{"to": 2, "value": one}, {"to": 4, "value": one}]),
        step(4, one, rule=rule, saved=[{"name": "self", "value": value(1.5)}],
             outgoing=[{"to": 0, "value": value(1.5)}, {"to": 0, "value": value(1.5)}]),
        step(2, one, rule=rule, saved=[{"name": "other", "value": value(3.0)}],
             outgoing=[{"to": 0, "value": value(3.0)}, {"to": None, "value": None}]),
        step(0, value(6.0), parts=into_w,
             accumulate={"leaf": 0, "before": None, "after": value(6.0)}),
    ]  # fmt: skip
    again = [dict(one_step) for one_step in steps]
    again[3] = step(0, value(6.0), parts=into_w,
                    accumulate={"leaf": 0, "before": value(6.0), "after": value(12.0)})  # fmt: skip
    lines = ["import retrograd as torch", "w = torch.tensor(1.5, requires_grad=True)",
             "x = torch.tensor(3.0)", "a = w * x", "y = a + w * w", "y.backward()"]  # fmt: skip
    passes = [{"root": 5, "how": "y.backward()", "place": [0, 6], "steps": steps},
              {"root": 5, "how": "y.backward()", "place": [0, 6], "steps": again}]  # fmt: skip
    marks = [{"kind": "memory", "item": 4, "step": None, "place": [0, 5], "text": "keeps 8 bytes"},
             {"kind": "exploding", "item": 0, "step": [1, 3], "place": [0, 2],
              "text": "12.0 at w"}]  # fmt: skip
    memory = {"total": 16, "items": [[2, 8], [4, 8]]}
    return story(items, edges, passes, lines, marks=marks, memory=memory)


def wide(count: int, across: int = 10) -> dict[str, Any]:
    """As many operations in one picture, ``across`` in a row."""
    items = [item(i, "operation", f"Operation{i}", shape=[i, 2], dtype="float32", place=[0, i + 1])
             for i in range(count)]  # fmt: skip
    edges = [[i, j] for j in range(across, count) for i in {j - across, j - 1 - across} if i >= 0]
    edges = [e for e in edges if e[0] // across + 1 == e[1] // across]
    steps = [step(i, value(float(i), float(-i)), rule={"words": "as it is", "formulas": []},
                  outgoing=[{"to": i - across if i >= across else None, "value": value(1.0)}])
             for i in reversed(range(count))]  # fmt: skip
    passes = [{"root": count - 1, "how": "loss.backward()", "place": [0, 1], "steps": steps}]
    return story(items, edges, passes, [f"x{i} = f{i}(x)" for i in range(count)])


def nested(count: int, size: int) -> dict[str, Any]:
    """A chain of operations in groups of groups, ``size`` in each."""
    items = [item(i, "operation", "Tanh", shape=[], dtype="float32", place=[0, 2])
             for i in range(count)]  # fmt: skip
    edges = [[i - 1, i] for i in range(1, count)]
    level, next_id, pictures, inner = list(range(count)), count, [], edges
    while len(level) > size:
        above = []
        for start in range(0, len(level), size):
            inside = level[start : start + size]
            items.append(item(next_id, "group", f"layer {start // size}", count=len(inside)))
            for child in inside:
                items[child]["group"] = next_id
            pictures.append(grid(next_id, inside, list(pairwise(inside))))
            above.append(next_id)
            next_id += 1
        level, inner = above, [list(e) for e in pairwise(above)]
    pictures.append(grid(None, level, inner))
    one = value(1.0)
    steps = [step(i, one, outgoing=[{"to": i - 1 if i else None, "value": one}])
             for i in reversed(range(count))]  # fmt: skip
    passes = [{"root": count - 1, "how": "loss.backward()", "place": [0, 3], "steps": steps}]
    lines = ["for _ in range(n):", "    x = x.tanh()", "x.backward()"]
    return story(items, edges, passes, lines, pictures)


HOSTILE = [
    "</script><script>window.broken = 1</script>", "<img src=x onerror=window.broken=1>",
    "\"'`&amp;<b>bold</b>", "{{story}}{{script}}", "\u202eright to left\u202c",
    "שלום", "مرحبا", "日本語の名前", "\u2028\u2029", "a\x00b", "\ud800", "__proto__", "constructor",
    "<!-- <script>", "javascript:window.broken=1", "x" * 300,
]  # fmt: skip


def hostile() -> dict[str, Any]:
    """Texts that would do harm, or look wrong, if they were taken for more than text."""
    items = [item(i, "operation", text, name=text, module=text, shape=[], dtype=text,
                  place=[0, i + 1]) for i, text in enumerate(HOSTILE)]  # fmt: skip
    edges = [[i - 1, i] for i in range(1, len(items))]
    steps = [
        step(i, value(text, 1.0), rule={"words": text, "formulas": [text]},
             saved=[{"name": text, "value": value("nan", text, dtype=text)}],
             outgoing=[{"to": i - 1 if i else None, "value": value("inf")}], marks=[i])
        for i, text in reversed(list(enumerate(HOSTILE)))
    ]  # fmt: skip
    marks = [{"kind": "nan", "item": i, "step": [0, len(HOSTILE) - 1 - i], "place": [0, i + 1],
              "text": text} for i, text in enumerate(HOSTILE)]  # fmt: skip
    passes = [{"root": len(items) - 1, "how": HOSTILE[0], "place": [0, 1], "steps": steps}]
    made = story(items, edges, passes, list(HOSTILE), marks=marks, title=HOSTILE[0])
    made["files"][0]["name"] = HOSTILE[1]
    return made
