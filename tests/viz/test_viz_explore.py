"""Real programs on the page: what it shows is compared with what hooks of the engine saw.

A program is run twice: once with hooks on every node, which note the gradients as they come and go,
and once recorded for the page. Step by step, the page must show those very numbers.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _viz_stories as stories
import numpy as np
import pytest
from _viz_browser import OVERLAPS, Open, agrees, clicked_through, read

import retrograd as torch
from retrograd import _modes, tour, viz
from retrograd.autograd import _backward
from retrograd.tour._programs import NOTES
from retrograd.utils.checkpoint import checkpoint
from retrograd.viz._node_info import recorded_info

# -- what hooks see ------------------------------------------------------------------------------


class Hooked:
    """The gradients of all passes that are run in a block, as hooks on the nodes see them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passes: list[list[tuple[list[Any], list[Any]]]] = []
        self.accumulated: list[list[Any]] = []
        differentiate = _backward.differentiate

        def watched(roots: Any, *args: Any, **options: Any) -> Any:
            handles = self._hook([node for node, *_ in roots])
            try:
                return differentiate(roots, *args, **options)
            finally:
                for handle in handles:
                    handle.remove()

        monkeypatch.setattr(_backward, "differentiate", watched)

    def _hook(self, todo: list[Any]) -> list[Any]:
        steps: list[Any] = []
        accumulated: list[Any] = []
        self.passes.append(steps)
        self.accumulated.append(accumulated)
        seen, handles = set(todo), []
        while todo:
            node = todo.pop()
            if hasattr(node, "variable"):
                handles.append(node.register_prehook(lambda came: steps.append((arrays(came), []))))
                note = lambda leaf: accumulated.append(array(leaf.grad))
                handles.append(node.variable.register_post_accumulate_grad_hook(note))
            else:
                note = lambda sent, came: steps.append((arrays(came), arrays(sent)))
                handles.append(node.register_hook(note))
            for origin, _ in node.next_functions:
                if origin is not None and origin not in seen:
                    seen.add(origin)
                    todo.append(origin)
        return handles


def array(x: Any) -> Any:
    return None if x is None else np.array(x.detach().numpy())


def arrays(xs: Any) -> list[Any]:
    return [array(x) for x in xs]


def is_shown(shown: dict[str, Any] | None, seen: Any) -> bool:
    """Whether the page has just these elements."""
    if shown is None or seen is None:
        return shown is None and seen is None
    if (shown["dtype"], shown["shape"]) != (str(seen.dtype), str(list(seen.shape))):
        return False
    entries = np.array([complex(t) if "j" in t else t for t in shown["data"]]).astype(seen.dtype)
    return np.array_equal(entries, seen.reshape(-1), equal_nan=seen.dtype.kind in "fc")


def compare(page: Any, told: dict[str, Any], hooked: Hooked) -> None:
    """Click through all passes and compare every gradient."""
    assert len(told["passes"]) == len(hooked.passes)
    for number, one in enumerate(told["passes"]):
        if len(told["passes"]) > 1:
            page.select_option("#pass", str(number))
        shown = clicked_through(page)
        agrees(shown, told, number)
        ran = [step["done"] and not step["captured"] for step in one["steps"]]
        pairs = [
            (s["incoming"], s["outgoing"]) for s, is_so in zip(shown, ran, strict=True) if is_so
        ]
        same_as_seen(pairs, hooked.passes[number])
        after = [([value], []) for step in shown for value in step["after"]]
        same_as_seen(after, [([grad], []) for grad in hooked.accumulated[number]])


def same_as_seen(shown: list[Any], seen: list[Any]) -> None:
    """Assert that what came and went is the same: for operations in the same order, for leaves,
    whose turn comes in any order, in some order."""
    operations = [pair for pair in shown if pair[1]]
    for pair, hooked in zip(operations, [pair for pair in seen if pair[1]], strict=True):
        assert is_shown_pair(pair, hooked), (pair, hooked)
    waiting = [pair for pair in seen if not pair[1]]
    for pair in shown:
        if not pair[1]:
            at = [i for i, hooked in enumerate(waiting) if is_shown_pair(pair, hooked)]
            assert at, (pair, waiting)
            del waiting[at[0]]
    assert waiting == []


def is_shown_pair(pair: Any, hooked: Any) -> bool:
    return all(
        len(a) == len(b) and all(map(is_shown, a, b)) for a, b in zip(pair, hooked, strict=True)
    )


# -- the programs of the notes -------------------------------------------------------------------


def sessions() -> Iterator[tuple[str, list[Any]]]:
    """The programs of the notes that make a backward pass, with those that they continue."""
    for note in NOTES:
        together: list[Any] = []
        for program in [*note.programs, None]:
            if together and (program is None or not program.continues):
                if any("backward(" in p.source or "autograd.grad(" in p.source for p in together):
                    yield together[0].title, together
                together = []
            together.append(program)


def run(programs: list[Any]) -> None:
    namespace = {"__name__": "__main__"}
    for program in programs:
        tour.run(program, namespace)


SESSIONS = list(sessions())


def test_the_notes_have_programs_to_show() -> None:
    assert len(SESSIONS) >= 15


@pytest.mark.parametrize("programs", [p for _, p in SESSIONS], ids=[t for t, _ in SESSIONS])
def test_programs_of_the_notes(
    opened: Open, monkeypatch: pytest.MonkeyPatch, programs: list[Any]
) -> None:
    with monkeypatch.context() as patched:
        hooked = Hooked(patched)
        run(programs)
    with viz.recording(max_passes=200) as story:
        run(programs)
    if not hooked.passes:  # it shows an error that comes before the pass
        assert story.passes == []
        return
    told = story.to_json()
    assert all(value["data"] is not None for value in values_of(told))
    page = opened(viz.explore(story))
    compare(page, told, hooked)
    assert page.locator(".line.made").count() > 0


def values_of(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for one in told["passes"]:
        for step in one["steps"]:
            yield from filter(None, step["incoming"])
            yield from (o["value"] for o in step["outgoing"] if o["value"])


# -- networks ------------------------------------------------------------------------------------


def two_layers() -> Callable[[], Any]:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    x, target = torch.randn(5, 3), torch.randn(5, 1)
    return lambda: ((net(x) - target) ** 2).mean() + 0.1 * net[0].weight.pow(2).sum()


def test_a_network_of_two_layers(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        hooked = Hooked(patched)
        loss = two_layers()()
        loss.backward()
    make = two_layers()
    with viz.recording() as story:
        loss = make()
        loss.backward()
    page = opened(viz.explore(story, title="Two layers"))
    assert page.title() == "Two layers"
    compare(page, story.to_json(), hooked)
    assert page.evaluate(OVERLAPS)[1] == []
    names = page.locator(".now th").all_inner_texts()
    assert sorted(names) == ["0.bias", "0.weight", "2.bias", "2.weight"]


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


def all_sorts() -> Any:
    """Views, writes, several outputs, hooks, a custom Function, complex numbers, checkpoints."""
    torch.manual_seed(0)
    x = torch.randn(4, 3, requires_grad=True)
    x.register_hook(lambda grad: grad.clamp(-1, 1))
    z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    first, second = x.unbind(0)[:2]
    values, _ = x.sort(dim=1)
    written = torch.zeros(4, 3)
    written[1] = x[1] * 2
    attention = torch.nn.MultiheadAttention(3, 1)
    out, _ = attention(x[None], x[None], x[None])
    return (
        Cube.apply(x).sum() + (first * second).sum() + x.split(2)[0].exp().mean() + out.sum()
        + x[torch.tensor([1, 2, 1])].sum() + (z * z.conj()).real.sum() + written.sum()
        + (values * values).sum() + checkpoint(lambda t: t.sin().sum(), x, use_reentrant=False)
    )  # fmt: skip


def test_all_sorts_of_operations(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        hooked = Hooked(patched)
        all_sorts().backward()
    with viz.recording() as story:
        all_sorts().backward()
    page = opened(viz.explore(story))
    compare(page, story.to_json(), hooked)
    page.fill("#search", "leaf 4x3")
    page.keyboard.press("Enter")
    shown = page.inner_text(".arrives")
    assert "A hook changed it to:" in shown
    assert page.locator(".arrives .parts .part").count() >= 9


def test_hooks_on_gradients_that_are_summarised(opened: Open) -> None:
    def arrives(hook: Callable[[Any], Any] | None) -> list[str]:
        x = torch.linspace(-1, 1, 300, requires_grad=True)
        with viz.recording() as story:
            y = x * 2
            if hook is not None:
                y.register_hook(hook)
            (y * y).sum().backward()
        page = opened(viz.explore(story))
        assert page.locator(".step-card .column").count() == 0  # the first step has a scalar
        page.click("[data-phase=backward]")  # the first step
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        assert page.locator(".arrives .column").count() > 0
        found: list[str] = page.locator(".arrives .hooked").all_inner_texts()
        return found

    assert arrives(None) == []
    assert arrives(lambda grad: grad.flip(0)) == ["A hook changed it to:"]  # the same sum, and norm
    assert arrives(lambda grad: None) == []


def test_integers_that_a_browser_would_round(opened: Open) -> None:
    large = 2**53 + 1
    told = stories.small()
    told["passes"][0]["steps"][0]["saved"] = [
        {"name": "index", "value": stories.value(large, -large, 2**53, dtype="int64")}
    ]
    page = opened(told)
    page.keyboard.press("ArrowRight")
    assert read(page)["saved"][0]["data"] == [str(large), str(-large), str(2**53)]


def test_what_cannot_be_explored() -> None:
    x = torch.ones(2, requires_grad=True)
    for wrong, kind in ((5, "a int"), ([], "an empty list"), ([x, 5], "a list with a int in it")):
        with pytest.raises(TypeError, match=rf"takes a loss .*, but got {kind}"):
            viz.explore(wrong)
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        viz.explore(x * 2)
    made = viz.explore(x * 2, grad_tensors=torch.tensor([3.0, 4.0]))
    assert made.story["passes"][0]["steps"][-1]["accumulate"]["after"]["data"] == [6.0, 8.0]
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(RuntimeError, match="Look before calling backward"):
        viz.explore(loss)


def test_exploring_a_loss_changes_nothing(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        hooked = Hooked(patched)
        two_layers()().backward()
    loss = two_layers()()
    made = viz.explore(loss)
    assert all(leaf.grad is None for leaf in leaves(loss))
    compare(opened(made), made.story, hooked)
    loss.backward()
    assert all(leaf.grad is not None for leaf in leaves(loss))


def leaves(loss: Any) -> list[Any]:
    todo, seen, found = [loss.grad_fn], {loss.grad_fn}, []
    while todo:
        node = todo.pop()
        if hasattr(node, "variable"):
            found.append(node.variable)
        for origin, _ in node.next_functions:
            if origin is not None and origin not in seen:
                seen.add(origin)
                todo.append(origin)
    return found


def test_a_story_has_its_names_already() -> None:
    x = torch.tensor(2.0, requires_grad=True)
    with viz.recording() as story:
        (x * x).backward()
    with pytest.raises(TypeError, match=r"viz\.recording\(params\)"):
        viz.explore(story, params={"x": x})


@pytest.mark.parametrize(("width", "height"), [(1280, 800), (1920, 1080), (800, 600), (360, 740)])
def test_labels_of_fifty_nodes_do_not_overlap(opened: Open, width: int, height: int) -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 4) for _ in range(5)]
    x = torch.randn(3, 4)
    for layer in layers:
        x = torch.relu(layer(x)) + x
    page = opened(viz.explore(x.sum(), params=torch.nn.ModuleList(layers)), width, height)
    count, wrong = page.evaluate(OVERLAPS)
    assert count >= 50
    assert wrong == []


def test_nan_is_marked_and_found(opened: Open) -> None:
    x = torch.tensor([1.0, 0.0], requires_grad=True)
    with viz.recording() as story:
        (x.sqrt() * 0).sum().backward()
    page = opened(viz.explore(story))
    assert page.locator("#marks .chip.nan").count() >= 1
    page.locator("#marks .chip.nan").last.click()
    assert "nan" in [n for v in read(page)["outgoing"] + read(page)["incoming"] for n in v["data"]]
    page.fill("#search", "nan")
    assert page.locator("#found [role=option]").count() >= 1


def test_a_deep_network_folds(opened: Open) -> None:
    torch.manual_seed(0)
    block = lambda: torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    net = torch.nn.Sequential(*(block() for _ in range(120)))
    page = opened(viz.explore(net(torch.ones(1, 2)).sum(), params=net))
    assert page.locator(".node").count() < 400
    assert page.locator(".node.group").count() > 0
    page.keyboard.press("End")
    assert page.locator(".node[data-state=running]").count() == 1
    page.keyboard.press("f")
    assert page.locator("#crumbs .crumb").count() > 1
    page.keyboard.press("Home")
    page.keyboard.press("f")
    page.locator("#crumbs .crumb").first.click()
    group = page.locator(".node.group").first
    group.dblclick()
    assert page.locator("#crumbs .crumb").count() == 2
    assert page.locator(".node").count() > 0


# -- the command ---------------------------------------------------------------------------------

PROGRAM = """\
import sys
import retrograd as torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
for _ in range(3):
    loss = (w * w).sum()
    loss.backward()
print(__name__, sys.argv[1:], w.grad.tolist())
"""


def explain(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "retrograd", "explain", *arguments], cwd=folder, timeout=120,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables, capture_output=True, text=True,
    )  # fmt: skip


def test_explaining_a_script(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    result = explain(tmp_path, "program.py", "--out", "why.html", "--pass", "2", "--out", "a.html")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "__main__ [] [6.0, 12.0]"
    assert lines[1] == "passes 1 to 3: loss.backward() (program.py:6), 3 steps each"
    assert lines[-1] == "The page is a.html"
    result = explain(tmp_path, "program.py", "1", "--out", "b", "--", "c")
    assert result.stdout.splitlines()[0] == "__main__ ['1', '--out', 'b', '--', 'c'] [6.0, 12.0]"
    assert result.stdout.splitlines()[-1] == "The page is program-explained.html"
    assert explain(tmp_path, "program.py", "--", "--pass").stdout.startswith("__main__ ['--pass']")
    page = opened((tmp_path / "a.html").as_uri())
    assert page.input_value("#pass") == "1"
    shown = clicked_through(page)[-1]
    assert (shown["before"][0]["data"], shown["after"][0]["data"]) == (["2", "4"], ["4", "8"])
    assert "loss = (w * w).sum()" in page.inner_text(".line[data-line='5']")


def test_explaining_passes_in_threads(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import threading\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "import retrograd as torch\n"
        "w = torch.tensor([1.0, 2.0], requires_grad=True)\n"
        "model = torch.nn.Linear(2, 1)\n"
        "def work(scale):\n"
        "    model(w * scale).sum().backward()\n"
        "def late():\n"
        "    threading.main_thread().join(0.5)\n"
        "    (w * w).sum().backward()\n"
        "thread = threading.Thread(target=work, args=(3,))\n"
        "thread.start()\n"
        "thread.join()\n"
        "with ThreadPoolExecutor(1) as pool:\n"
        "    list(pool.map(work, [1, 2]))\n"
        "threading.Thread(target=late).start()  # nobody waits for it\n",
        encoding="utf-8",
    )
    result = explain(tmp_path, "program.py")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    told = "model(w * scale).sum().backward() (program.py:7), 9 steps each"
    assert lines[0] == f"passes 1 to 3: {told}"
    assert lines[1] == "pass 4: (w * w).sum().backward() (program.py:10), 3 steps"


def test_recording_threads() -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())

    def work() -> None:
        model(w).sum().backward()

    def in_threads(count: int) -> None:
        threads = [threading.Thread(target=work) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for recorded, threads in ((0, False), (4, True)):
        with viz.recording(model, threads=threads) as story:
            in_threads(4)
        in_threads(1)
        assert len(story.passes) == recorded
        for one in story.passes:
            info = [recorded_info(step.node) for step in one.steps]
            paths = {known.module for known in info if known is not None}
            assert {"0", "1"} <= paths
    assert threading.getprofile() is None
    assert not _modes.switch.active


def test_a_script_that_imports_torch(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import torch.nn.functional as F, torch, torch.nn as nn\n"
        "from torch.utils.data import DataLoader\n"
        "import retrograd\n"
        "assert torch.Tensor is retrograd.Tensor and nn is retrograd.nn\n"
        "assert nn.__spec__.name == 'retrograd.nn'\n"
        "F.relu(torch.ones(2, requires_grad=True)).sum().backward()\n",
        encoding="utf-8",
    )
    result = explain(tmp_path, "--as-torch", "program.py")
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "program-explained.html").exists()
    (tmp_path / "other.py").write_text("import torch.distributed.nonsense\n", encoding="utf-8")
    result = explain(tmp_path, "--as-torch", "other.py")
    assert result.returncode == 1
    assert "No module named 'torch.distributed.nonsense'" in result.stderr


def test_a_script_that_fails(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM + "1 / 0\n", encoding="utf-8")
    result = explain(tmp_path, "program.py")
    assert result.returncode == 1
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "command.py" not in result.stderr
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert result.stdout.endswith("The page is program-explained.html\n")
    assert (tmp_path / "program-explained.html").exists()
    (tmp_path / "early.py").write_text("1 / 0\n", encoding="utf-8")
    result = explain(tmp_path, "early.py")
    assert result.returncode == 1
    assert result.stderr.endswith("no backward pass came before that, so no page\n")
    assert not (tmp_path / "early-explained.html").exists()
    (tmp_path / "exit.py").write_text(PROGRAM + "sys.exit(7)\n", encoding="utf-8")
    assert explain(tmp_path, "exit.py").returncode == 7
    assert (tmp_path / "exit-explained.html").exists()
    (tmp_path / "stop.py").write_text(PROGRAM + "raise KeyboardInterrupt\n", encoding="utf-8")
    result = explain(tmp_path, "stop.py")
    assert (result.returncode, result.stderr) == (130, "retrograd: interrupted\n")
    assert (tmp_path / "stop-explained.html").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "specify a script: retrograd explain program.py"),
        (["nothing.py"], "there is no file 'nothing.py'"),
        (["folder"], "folder is a folder; give the name of a script"),
        (["broken.py"], "broken.py:1: '(' was never closed"),
        (["zero.py"], "source code string cannot contain null bytes"),
        (["quiet.py"], "the script made no backward pass, and no variable of it holds a result"),
        (["quiet.py", "--out", "no/x.html"], "the folder no does not exist"),
        (["quiet.py", "--out=folder"], "folder is a folder; give the name of a file"),
        (["quiet.py", "--pass", "0"], "'0' is not a whole number of at least 1"),
        (["quiet.py", "--pass"], "argument --pass: expected one argument"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken.py").write_text("x = (\n", encoding="utf-8")
    (tmp_path / "zero.py").write_bytes(b"x = 1\0\n")
    (tmp_path / "quiet.py").write_text("x = 1\n", encoding="utf-8")
    result = explain(tmp_path, *arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert not list(tmp_path.glob("*.html"))


FORWARD = """\
import retrograd as torch
from retrograd import nn

model = nn.Linear(3, 2)
data = torch.ones(4, 3)
hidden = model(data).tanh()
out = hidden.sum()
other = model.weight.exp()
"""


def test_a_script_without_a_backward_pass(tmp_path: Path, opened: Open) -> None:
    (tmp_path / "forward.py").write_text(FORWARD, encoding="utf-8")
    result = explain(tmp_path, "forward.py")
    assert (result.returncode, result.stderr) == (0, "")
    said = "no backward pass was run: the page shows what the program computed\n"
    assert result.stdout == f"{said}\nThe page is forward-explained.html\n"
    page = opened((tmp_path / "forward-explained.html").as_uri())
    names = page.eval_on_selector_all(".node .label", "(all) => all.map((one) => one.textContent)")
    assert {"model.weight", "model.bias", "data", "hidden", "out", "other", "Tanh", "Exp"} <= set(
        names
    )
    assert page.text_content("#count") == "5 steps"
    assert page.text_content("#panel h2") == "The graph"
    assert not page.query_selector_all("#legend .state")
    page.click(".node:has-text('hidden')")
    card = page.text_content(".card.picked")
    assert "hidden" in card
    assert "step" not in card
    page.click(".line:has-text('model.weight.exp()')")
    assert page.get_attribute(".line.picked", "data-line") == "8"


def test_the_page_is_opened_if_asked_for(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" >> "{tmp_path}/opened"\n', encoding="utf-8")
    browser.chmod(0o755)
    assert explain(tmp_path, "program.py", BROWSER=f"{browser} %s").returncode == 0
    assert not (tmp_path / "opened").exists()
    assert explain(tmp_path, "program.py", "--open", BROWSER=f"{browser} %s").returncode == 0
    page = (tmp_path / "program-explained.html").as_uri()
    assert (tmp_path / "opened").read_text(encoding="utf-8") == f"{page}\n"


@pytest.mark.parametrize("variables", [{"TERM": "xterm"}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_there_is_colour_in_a_terminal(tmp_path: Path, variables: dict[str, str]) -> None:
    pty = pytest.importorskip("pty", reason="this system has no terminals of that kind")
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    ours, theirs = pty.openpty()
    known = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    subprocess.run(
        [sys.executable, "-m", "retrograd", "explain", "program.py"], cwd=tmp_path, timeout=120,
        env=known | {"OMP_NUM_THREADS": "1"} | variables, stdout=theirs, check=True,
    )  # fmt: skip
    os.close(theirs)
    said = os.read(ours, 10_000).decode().replace("\r\n", "\n")
    os.close(ours)
    line = "passes 1 to 3: loss.backward() (program.py:6), 3 steps each\n"
    assert line in re.sub(r"\x1b\[\d+m", "", said)
    coloured = "\x1b[36mpasses 1 to 3\x1b[0m: loss.backward()\x1b[2m (program.py:6)\x1b[0m"
    assert (coloured in said) == ("NO_COLOR" not in variables)
    assert ("\x1b" in said) == ("NO_COLOR" not in variables)


def test_a_pass_that_was_not_made(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    result = explain(tmp_path, "--pass", "4", "program.py")
    assert result.returncode == 2
    assert result.stderr == (
        "retrograd: there is no pass 4: 3 backward passes were recorded; the page opens at pass 3\n"
    )
    assert (tmp_path / "program-explained.html").exists()


def test_one_of_something_is_in_the_singular(tmp_path: Path) -> None:
    source = "import retrograd as torch\ntorch.ones((), requires_grad=True).backward()\n"
    (tmp_path / "one.py").write_text(source, encoding="utf-8")
    result = explain(tmp_path, "--pass", "2", "one.py")
    assert result.stdout.startswith(
        "pass 1: torch.ones((), requires_grad=True).backward() (one.py:2), 1 step\n"
    )
    assert result.stderr == (
        "retrograd: there is no pass 2: 1 backward pass was recorded; the page opens at pass 1\n"
    )
