"""Marks: what deserves a look in a story, and in which words it is said."""

import re

from test_viz_story import document, kinds, leaf, two_layers

import retrograd as torch
from retrograd import nn, viz
from retrograd.viz._recording import record_pass
from retrograd.viz._story import Story


def test_nothing_special_is_not_marked() -> None:
    assert kinds(document(two_layers()[1])) == []


def test_the_first_nan_is_marked_forward_and_backward() -> None:
    x = leaf(-1.0, 4.0)
    with viz.recording() as story:
        a = x * 1
        b = a.sqrt()
        c = b * 2
        c.sum().backward()
    doc = document(story)
    forward, backward = doc["marks"]
    assert forward["kind"] == backward["kind"] == "nan"
    assert doc["graph"]["items"][forward["item"]]["label"] == "Sqrt"
    assert forward["text"] == (
        "Forward: NaN first appears in b, the result of Sqrt (1 of 2 elements)."
    )
    check_line(doc, forward["place"], "b = a.sqrt()")
    assert backward["step"] == [0, 2]
    assert doc["passes"][0]["steps"][2]["marks"] == [1]
    assert "first appears in a gradient that Sqrt passes on" in backward["text"]


def check_line(doc, place, text) -> None:
    number, line = place
    file = doc["files"][number]
    assert file["lines"][line - file["first_line"]].strip() == text


def test_inf_that_only_backward_makes_is_marked_there() -> None:
    x = leaf(0.0, 1.0)
    with viz.recording() as story:
        x.sqrt().sum().backward()
    (mark,) = document(story)["marks"]
    assert mark["kind"] == "inf"
    assert mark["step"] == [0, 1]


def test_nan_that_was_there_before_is_said_to_be_in_the_input() -> None:
    x, bad = leaf(1.0), torch.tensor(float("nan"))
    with viz.recording() as story:
        (x + bad).backward()
    (mark,) = document(story)["marks"]
    assert mark["text"] == "Forward: NaN first appears in bad, which Add was given."


def test_nan_is_found_in_saved_values_where_forward_was_not_recorded() -> None:
    x = leaf(-1.0, 4.0)
    b = x.sqrt() * 2
    doc = document(record_pass(b.exp().sum()))
    assert doc["marks"][0]["text"] == (
        "Forward: NaN first appears in the result of Sqrt (1 of 2 elements)."
    )
    check_line(doc, doc["marks"][0]["place"], "b = x.sqrt() * 2")


def test_nan_beyond_the_steps_that_are_kept_is_marked_too() -> None:
    x = leaf(0.0)
    with viz.recording(max_steps=2) as story:
        y = (x * 1).sqrt() * 0.0
        for _ in range(10):
            y = y * 1.0
        y.backward()
    (mark,) = [m for m in document(story)["marks"] if m["kind"] == "nan"]
    # Eleven operations, the square root after them, and at last the leaf, which is kept.
    assert mark["text"] == "Backward: NaN first appears in a gradient that Sqrt passes on, step 12."
    assert mark["step"] is None


def test_exploding_and_vanishing_gradients_are_marked() -> None:
    def run(factor):
        x = leaf(1.0, 1.0)
        with viz.recording() as story:
            y = x
            for _ in range(10):
                y = y * factor
            y.sum().backward()
        return document(story)

    large = run(10.0)
    assert kinds(large) == ["exploding", "exploding"]  # where it begins, and the leaf
    begins = large["marks"][0]
    norm = large["passes"][0]["steps"][begins["step"][1]]["incoming"][0]["norm"]
    assert norm / 1.0 > 1e4
    before = large["passes"][0]["steps"][begins["step"][1] - 1]["incoming"][0]["norm"]
    assert before <= 1e4
    assert kinds(run(0.01)) == ["vanishing", "vanishing"]
    assert kinds(run(1.0)) == []


def test_a_leaf_that_gets_only_zeros_is_marked() -> None:
    x = leaf(-1.0, -2.0)
    with viz.recording() as story:
        x.relu().sum().backward()
    (mark,) = document(story)["marks"]
    assert mark["text"] == "The gradient of x is exactly zero."


def test_leaves_of_which_the_same_is_to_be_said_are_named_in_one_mark() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(*(nn.Linear(2, 2) for _ in range(8)))
    with torch.no_grad():
        for layer in net:
            layer.weight.mul_(1e-2)
    with viz.recording() as story:
        net(torch.ones(1, 2)).sum().backward()
    marks = document(story)["marks"]
    assert [m["kind"] for m in marks] == ["vanishing", "vanishing"]
    assert marks[0]["text"].startswith("The gradient that arrives at Addmm in 4 is small: norm ")
    assert marks[1]["text"].startswith("The gradient that arrives at 0.")
    found = marks[1]["text"].rpartition(" The same is true of ")[2]
    assert re.fullmatch(r"(\d\.\w+, ){3}\d\.\w+ and \d+ more\.", found), found


def test_what_happens_in_every_pass_is_said_once() -> None:
    w = leaf(-1.0)
    with viz.recording() as story:
        for _ in range(3):
            (w.relu() * 2).sum().backward()
            w.grad = None
    (mark,) = document(story)["marks"]
    assert mark["text"] == "The gradient of w is exactly zero. The same happens in 2 later passes."
    assert mark["step"] == [0, 3]


def test_a_view_taken_in_no_grad_mode_lets_its_gradient_go() -> None:
    x = leaf(1.0, 2.0)
    base = x * 1
    with torch.no_grad():
        view = base.view(2)
    with viz.recording() as story:
        (view * 1e6 + x).sum().backward()
    (record,) = document(story)["passes"]
    assert [step["name"] for step in record["steps"]] == [
        "SumBackward0", "AddBackward0", "MulBackward0", "torch::autograd::AccumulateGrad"
    ]  # fmt: skip
    assert record["steps"][2]["outgoing"][0]["to"] is None
    assert record["steps"][2]["outgoing"][0]["value"]["data"] == [1e6, 1e6]
    assert document(story)["marks"] == []  # it is large only where it is let go


def test_cuts_are_marked_with_the_line_that_cut() -> None:
    x = leaf(1.0, 2.0)
    with viz.recording() as story:
        h = x * 2
        target = h.detach()
        with torch.no_grad():
            scale = h.sum()
        loss = ((h - target) * scale).sum()
        loss.backward()
    doc = document(story)
    marks = [m for m in doc["marks"] if m["kind"] in ("detached", "no_grad")]
    assert [m["kind"] for m in marks] == ["detached", "no_grad"]
    check_line(doc, marks[0]["place"], "target = h.detach()")
    check_line(doc, marks[1]["place"], "scale = h.sum()")
    assert marks[0]["text"].startswith("target, which Sub uses, was cut off from its history by")


def test_a_number_that_was_taken_out_is_known_by_its_variable() -> None:
    x = leaf(1.0, 2.0)
    with viz.recording() as story:
        size = x.sum().item()
        loss = (x * size).sum()
        loss.backward()
    (mark,) = document(story)["marks"]
    assert mark["text"].startswith("size, which Mul uses, was cut off from its history by item()")


def test_parameters_that_nothing_reaches_are_marked() -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.spare = nn.Linear(2, 1), nn.Linear(2, 1)
            self.frozen = nn.Parameter(torch.ones(1), requires_grad=False)

        def forward(self, x):
            return self.used(x)

    net = Net()
    with viz.recording() as story:
        net(torch.ones(1, 2)).sum().backward()
    texts = [m["text"] for m in document(story)["marks"] if m["kind"] == "unused"]
    assert texts == ["spare.weight and spare.bias require grad, but no backward pass reaches them."]
    other = leaf(1.0)
    x = leaf(2.0)
    found = document(record_pass(x * x, params={"x": x, "other": other}))
    assert [m["text"] for m in found["marks"]] == [
        "other requires grad, but no backward pass reaches it."
    ]


def test_memory_is_counted_once_and_marked_where_it_is_much() -> None:
    x = torch.ones(1000, 300, requires_grad=True)
    with viz.recording() as story:
        y = x.exp()  # keeps its result
        (y * y.sin()).sum().backward()  # sin keeps y, mul both
    doc = document(story)
    assert doc["memory"]["total"] == 2 * 1000 * 300 * 4
    sizes = dict(map(tuple, doc["memory"]["items"]))
    by_label = {doc["graph"]["items"][i]["label"]: size for i, size in sizes.items()}
    assert by_label == {"Exp": 1_200_000, "Mul": 1_200_000}
    (mark,) = [m for m in doc["marks"] if m["kind"] == "memory"]
    assert mark["text"].startswith("The graph keeps 2.4 MB for the backward pass")
    exp = next(i for i in doc["graph"]["items"] if i["label"] == "Exp")
    assert exp["bytes"] == 1_200_000


def test_a_nan_of_a_later_pass_is_found_though_another_graph_is_shown() -> None:
    w = leaf(1.0)
    with viz.recording() as story:
        for start in (4.0, 1.0, -1.0):
            ((w * start).sqrt() * 2).backward()
            w.grad = None
    doc = document(story)
    assert len([i for i in doc["graph"]["items"] if i["label"] == "Sqrt"]) == 1
    forward, backward = doc["marks"]
    assert forward["text"] == "Pass 3, forward: NaN first appears in the result of Sqrt."
    assert forward["passes"] == [2]
    assert backward["step"] == [2, 1]


def diverging() -> Story:
    """A loop in which the second pass has an infinity in a log, then NaN in gradients, and the
    third and fourth have NaN in the weight."""
    w = leaf(1.0, 2.0)
    inputs = [torch.tensor([1.0, 1.0]), *[torch.tensor([0.0, 1.0])] * 3]
    with viz.recording() as story:
        for x in inputs:
            y = (w * x).abs()
            z = y.log()
            loss = z.square().sum()
            loss.backward()
            with torch.no_grad():
                w -= 0.1 * w.grad
            w.grad = None
    return story


def test_nan_and_inf_are_marked_in_the_order_in_which_they_happened() -> None:
    doc = document(diverging())
    found = [(m["kind"], m["text"], m["passes"], m["step"]) for m in doc["marks"]]
    assert found == [
        ("inf", "Pass 2, forward: Inf first appears in z, the result of Log (1 of 2 elements).",
         [1], None),
        ("inf", "Pass 2, backward: Inf first appears in a gradient that Pow passes on.",
         [1], [1, 1]),
        ("nan", "Pass 2, backward: NaN first appears in a gradient that Abs passes on.",
         [1], [1, 3]),
        ("nan", "Pass 3, forward: NaN first appears in w, which Mul was given. "
         "The same happens in 1 later pass.", [2, 3], None),
        ("nan", "Pass 3, backward: NaN first appears in a gradient that Pow passes on. "
         "The same happens in 1 later pass.", [2, 3], [2, 1]),
    ]  # fmt: skip
    assert doc["marks"][4]["steps"] == [[2, 1], [3, 1]]
    assert [[s["marks"] for s in record["steps"][1:4]] for record in doc["passes"]] == [
        [[], [], []], [[1], [], [2]], [[4], [], []], [[4], [], []]
    ]  # fmt: skip


def test_an_infinity_comes_before_the_nan_that_it_causes() -> None:
    x, limit = leaf(0.0, 1.0), torch.tensor([float("inf"), 1.0])
    with viz.recording() as story:
        y = x * limit
        (y * 2).sum().backward()
    texts = [m["text"] for m in document(story)["marks"] if m["text"].startswith("Forward")]
    assert texts == [
        "Forward: Inf first appears in limit, which Mul was given.",
        "Forward: NaN first appears in y, the result of Mul (1 of 2 elements).",
    ]


def test_an_infinity_without_consequences_is_not_marked() -> None:
    x, mask = leaf(0.0, 1.0), torch.tensor([-float("inf"), 1.0])
    with viz.recording() as story:
        torch.maximum(x, mask).sum().backward()
    assert kinds(document(story)) == []


def test_the_most_severe_marks_come_first() -> None:
    w, v, spare = leaf(1.0), leaf(-1.0), leaf(1.0)
    with viz.recording({"w": w, "v": v, "spare": spare}) as story:
        fixed = (w * 2).detach()
        (w * fixed + v.relu() + v.sqrt()).sum().backward()
    assert kinds(document(story)) == ["nan", "nan", "unused", "detached"]
