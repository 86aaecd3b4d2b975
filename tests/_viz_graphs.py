"""The graphs of which pictures are kept: those of the notes of the tour, and of small networks.

``python tests/_viz_graphs.py`` writes ``tests/golden`` and ``docs/pictures`` anew.
"""

from __future__ import annotations

import contextlib
import io
import json
import linecache
from pathlib import Path
from typing import Any

from retrograd.tour._programs import NOTES

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "golden"
PICTURES = ROOT / "docs" / "pictures"

# Note, program in it, what to draw when it has run.
OF_NOTES = {
    "note1-sum": (0, 0, "l"),
    "note1-stages": (0, 4, "[loss, outputs]"),
    "note2-function": (1, 0, "out"),
    "note2-custom": (1, 3, "y"),
    "note2-training": (1, 4, "l"),
    "note3-relu": (2, 0, "y"),
    "note3-jacobian": (2, 3, "y"),
    "note4-sigmoid": (3, 0, "y"),
    "note4-circuit": (3, 1, "L"),
    "note4-product": (3, 3, "y"),
    "note4-orders": (3, 4, "y"),
    "note4-second": (3, 5, "slopes"),
    "note5-mean": (4, 0, "out"),
    "note5-twice": (4, 1, "out"),
}

NETWORK = """\
import retrograd as torch
from retrograd import nn

torch.manual_seed(0)
x = torch.randn(8, 3)
labels = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
loss = nn.functional.cross_entropy(model(x), labels)
"""

TRANSFORMER = """\
import retrograd as torch
from retrograd import nn

torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)
words = torch.randn(5, 1, 8)
encoded = layer(words)
"""

RECURRENT = """\
import retrograd as torch
from retrograd import nn

torch.manual_seed(0)
cell = nn.LSTMCell(3, 4)
words = torch.randn(5, 2, 3)
h = c = torch.zeros(2, 4)
for word in words:
    h, c = cell(word, (h, c))
loss = h.square().sum()
"""

DEEP = """\
import retrograd as torch
from retrograd import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x):
        return self.norm(x + torch.relu(self.linear(x)))

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), *[Block() for _ in range(12)], nn.Linear(8, 1))
loss = model(torch.randn(4, 3)).square().mean()
"""

OF_PROGRAMS = {
    "network": (NETWORK, "loss", ""),
    "network-values": (NETWORK + "loss.backward()\n", "loss", "show=['values', 'gradients']"),
    "transformer": (TRANSFORMER, "encoded", ""),
    "recurrent": (RECURRENT, "loss", ""),
    "deep": (DEEP, "loss", "max_nodes=12"),
}
# The same graphs, looking different.
LOOKS: dict[str, tuple[str, dict[str, Any]]] = {
    "network-compact": ("network", {"compact": True, "direction": "LR"}),
    "network-frames": ("network", {"compact": True, "direction": "LR", "frames": True}),
}
COMPILED = """\
import retrograd as torch
from retrograd.func import grad

def loss(w, x):
    h = torch.tanh(x @ w)
    return (h * h).sum()

slope = torch.compile(grad(loss))
slope(torch.ones(3, 2), torch.ones(4, 3))
"""
OF_COMPILED = {"program": (COMPILED, "slope", "")}
IN_DOCUMENTS = ("note2-function", "note4-circuit", "network", "network-values", "recurrent", "deep",
                "transformer", "program")  # fmt: skip


def source_of(name: str) -> tuple[str, str, str]:
    """A program, what it computes that is to be drawn, and how."""
    if name in OF_PROGRAMS or name in OF_COMPILED:
        return {**OF_PROGRAMS, **OF_COMPILED}[name]
    note, program, what = OF_NOTES[name]
    return NOTES[note].programs[program].source, what, ""


def run(name: str, replace: str = "retrograd") -> dict[str, Any]:
    """The variables of a program after it has run."""
    source, _, _ = source_of(name)
    file = f"{name}.py"
    source = source.replace("retrograd", replace)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    variables: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, file, "exec"), variables)
    return variables


def picture(name: str) -> Any:
    """The picture of a program's graph, drawn by the program itself."""
    return drawn_as(name)


def drawn_as(name: str, **look: Any) -> Any:
    """The same with other arguments of ``draw`` as well."""
    _, what, how = source_of(name)
    variables = run(name) | {"look": look}
    how = f"{how}, **look" if how else "**look"
    exec(f"from retrograd import viz\nresult = viz.draw({what}, {how})", variables)
    return variables["result"]


def structure(drawn: Any) -> str:
    """What does not vary from run to run: no values, no places on paper, no memory."""
    found = drawn.graph.to_json(pictures=False)
    for item in found["items"]:
        for varying in ("value", "grad", "bytes"):
            del item[varying]
    lines = [json.dumps(part, ensure_ascii=False) for part in found["items"]]
    rest = {key: found[key] for key in ("edges", "files")}
    body = ",\n".join(lines)
    return f'{{"items": [\n{body}\n],\n{json.dumps(rest, ensure_ascii=False)[1:-1]}}}\n'


NAMES = (*OF_NOTES, *OF_PROGRAMS)
WITHOUT_VALUES = tuple(name for name in NAMES if name != "network-values")


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    PICTURES.mkdir(exist_ok=True)
    for name in NAMES:
        drawn = picture(name)
        (GOLDEN / f"{name}.json").write_text(structure(drawn), encoding="utf-8")
        if name in WITHOUT_VALUES:
            (GOLDEN / f"{name}.dot").write_text(drawn.dot, encoding="utf-8")
    for name in IN_DOCUMENTS:
        picture(name).save(PICTURES / f"{name}.svg")
    for name, (of, look) in LOOKS.items():
        drawn_as(of, **look).save(PICTURES / f"{name}.svg")


if __name__ == "__main__":
    main()
