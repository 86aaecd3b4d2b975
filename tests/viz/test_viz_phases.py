"""The forward run, the backward pass and the steps of optimizers, one after the other: values in
boxes, and numbers in formulas."""

from __future__ import annotations

import re
from typing import Any

import pytest
from _viz_browser import STEP, Open, read
from test_viz_story import document

import retrograd as torch
from retrograd import nn, viz
from retrograd.viz._numbers import number, true


def program(optimizer: str = "SGD", steps: int = 2, **options: Any) -> Any:
    """x * w + b, a loss, backward, a step: what a learner begins with."""
    x = torch.tensor(3.0)
    w = torch.tensor(2.0, requires_grad=True)
    b = torch.tensor(1.0, requires_grad=True)
    step = getattr(torch.optim, optimizer)([w, b], lr=0.1, **options)
    with viz.recording() as story:
        for _ in range(steps):
            step.zero_grad()
            y = x * w + b
            loss = (y - 6) ** 2
            loss.backward()
            step.step()
    return story


def test_the_forward_run_has_formulas_in_names_and_numbers() -> None:
    first, second = document(program())["passes"]
    assert [(s["formula"], s["numbers"]) for s in first["forward"]] == [
        ("x · w", "3.0 · 2.0 = 6.0"),
        ("y = (x · w) + b", "6.0 + 1.0 = 7.0"),
        ("y − 6", "7.0 − 6 = 1.0"),
        ("loss = (y − 6)²", "1.0² = 1.0"),
    ]
    assert [s["numbers"] for s in second["forward"]][:2] == ["3.0 · 1.4 = 4.2", "4.2 + 0.8 = 5.0"]


def test_rules_name_the_variables_of_the_program() -> None:
    rules = [s["rule"] for s in document(program())["passes"][1]["steps"]]
    shown = [pair for rule in rules for pair in zip(rule["named"], rule["numbers"], strict=True)]
    assert ("grad of (y − 6) = 2 · grad · (y − 6)", "2 · 1.0 · (−1.0) = −2.0") in shown
    assert ("grad_w = grad · x", "(−2.0) · 3.0 = −6.0") in shown
    saved = document(program())["passes"][0]["steps"][0]["saved"]
    assert [(one["name"], one["variable"]) for one in saved] == [("self", "(y − 6)")]


@pytest.mark.parametrize(
    ("optimizer", "options", "lines"),
    [
        ("SGD", {}, [("w ← w − lr · w.grad", "2.0 − 0.1 · 6.0 = 1.4")]),
        ("SGD", {"momentum": 0.9}, [
            ("buffer ← w.grad", "6.0"),
            ("w ← w − lr · buffer", "2.0 − 0.1 · 6.0 = 1.4"),
        ]),
        ("SGD", {"weight_decay": 0.5}, [
            ("w ← w − lr · (w.grad + weight_decay · w)", "2.0 − 0.1 · (6.0 + 0.5 · 2.0) = 1.3"),
        ]),
        ("Adam", {}, [
            ("m ← (1 − 0.9) · w.grad", "(1 − 0.9) · 6.0 = 0.6"),
            ("v ← (1 − 0.999) · w.grad²", "(1 − 0.999) · 6.0² = 0.036"),
            ("m_hat ← m / (1 − 0.9^1)", "0.6 / (1 − 0.9^1) = 6.0"),
            ("v_hat ← v / (1 − 0.999^1)", "0.036 / (1 − 0.999^1) = 36.0"),
            ("w ← w − lr · m_hat / (sqrt(v_hat) + eps)",
             "2.0 − 0.1 · 6.0 / (sqrt(36.0) + 1e−8) = 1.9"),
        ]),
        ("Adagrad", {}, [("w ← w + change", "2.0 + (−0.1) = 1.9")]),
    ],
)  # fmt: skip
def test_the_step_of_an_optimizer_is_told(
    optimizer: str, options: dict[str, Any], lines: list[tuple[str, str]]
) -> None:
    weight, bias = document(program(optimizer, 1, **options))["passes"][0]["updates"]
    assert [(line["formula"], line["numbers"]) for line in weight["lines"]] == lines
    assert weight["before"]["data"] == [2.0]
    assert weight["grad"]["data"] == [6.0]
    assert bias["grad"]["data"] == [2.0]
    assert weight["optimizer"] == optimizer


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("SGD", {"momentum": 0.9, "dampening": 0.1, "maximize": True}),
        ("SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("Adam", {"weight_decay": 0.1}),
        ("AdamW", {"weight_decay": 0.1}),
    ],
)
def test_later_steps_of_optimizers_are_told_by_their_own_rules(
    optimizer: str, options: dict[str, Any]
) -> None:
    for one in document(program(optimizer, 3, **options))["passes"]:
        for update in one["updates"]:
            assert "change" not in update["lines"][-1]["formula"]
            check(update["lines"][-1]["numbers"], update["after"]["data"][0])


def check(numbers: str, result: float) -> None:
    """Assert that an equation is true, and ends in a result."""
    left, _, right = numbers.rpartition(" = ")
    assert right == number(result)
    assert true(left, result, 1e-4)


@pytest.mark.parametrize("optimizer", ["SGD", "Adagrad"])
def test_a_step_to_nan_has_no_numbers(optimizer: str) -> None:
    w = torch.tensor([0.0, 1.0], requires_grad=True)
    step = getattr(torch.optim, optimizer)([w], lr=0.1)
    with viz.recording() as story:
        for _ in range(2):
            step.zero_grad()
            (w.sqrt() * 0).sum().backward()
            step.step()
    for one in document(story)["passes"]:
        (update,) = one["updates"]
        assert [line["numbers"] for line in update["lines"]] in ([""], [])
        assert update["after"]["data"][0] == "nan"


def test_equations_are_true_for_many_operations() -> None:
    torch.manual_seed(0)
    x = torch.rand(2, 2, requires_grad=True)
    y = (torch.rand(2) + 0.5).requires_grad_()
    counts = {"forward": 0, "backward": 0}
    for make in (
        lambda: x * y, lambda: x / y, lambda: x - y, lambda: 2 - x, lambda: -x, lambda: x**3,
        lambda: x**-0.5, lambda: x.exp(), lambda: x.log(), lambda: x.sin(), lambda: x.tanh(),
        lambda: x.sigmoid(), lambda: x.sqrt(), lambda: x.abs(), lambda: (x - 0.5).relu(),
        lambda: x @ x, lambda: x.mean(), lambda: x.sum(0), lambda: x.reciprocal(), lambda: x * 2,
        lambda: torch.nn.functional.linear(x, x, y), lambda: torch.nn.functional.mse_loss(x, x * 0),
    ):  # fmt: skip
        with viz.recording() as story:
            make().sum().backward()
        one = document(story)["passes"][0]
        items = document(story)["graph"]["items"]
        for step in one["forward"]:
            if " = " in step["numbers"]:
                value = items[step["results"][0]]["value"]["data"][0]
                check(re.sub(r"^\[.*?\]: ", "", step["numbers"]), value)
                counts["forward"] += 1
        for step in one["steps"]:
            for text, sent in zip(step["rule"]["numbers"], step["outgoing"], strict=False):
                if " = " in text and "since" not in text:
                    check(re.sub(r"^\[.*?\]: ", "", text), sent["value"]["data"][0])
                    counts["backward"] += 1
    assert counts["forward"] >= 40
    assert counts["backward"] >= 25


def test_what_is_large_has_no_numbers() -> None:
    x = torch.ones(300, requires_grad=True)
    with viz.recording() as story:
        (x * 2).sum().backward()
    one = document(story)["passes"][0]
    assert [step["numbers"] for step in one["forward"]] == ["", ""]
    assert all(text == "" for step in one["steps"] for text in step["rule"]["numbers"])


def test_a_graph_that_is_used_again_ran_forward_once() -> None:
    w = torch.tensor(2.0, requires_grad=True)
    with viz.recording() as story:
        loss = w * w
        loss.backward(retain_graph=True)
        loss.backward()
    assert [len(one["forward"]) for one in document(story)["passes"]] == [1, 0]


def test_the_step_after_the_last_pass_that_is_kept_is_told() -> None:
    w = torch.tensor(2.0, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with viz.recording(max_passes=1) as story:
        for _ in range(3):
            optimizer.zero_grad()
            (w * w).backward()
            optimizer.step()
    (one,) = document(story)["passes"]
    assert [update["after"]["data"] for update in one["updates"]] == [[1.6]]


def test_a_jacobian_vector_product_is_told() -> None:
    def f(x: Any, w: Any) -> Any:
        return (x * w).sin()

    primals = torch.tensor(3.0), torch.tensor(2.0)
    tangents = torch.tensor(0.5), torch.tensor(1.0)
    page = viz.jvp(f, primals, tangents)
    product, sine = page.story["forward"]
    assert product["moved"] == ["t(x) · w + x · t(w)", "0.5 · 2.0 + 3.0 · 1.0 = 4.0"]
    assert sine["moved"] == ["t(x · w) · cos(x · w)", "4.0 · cos(6.0) = 3.8407"]
    _, moved = torch.func.jvp(f, primals, tangents)
    assert sine["tangents"][0]["data"] == [pytest.approx(moved.item())]
    with pytest.raises(ValueError, match="2 primals, but 1 tangents"):
        viz.jvp(f, primals, tangents[:1])


def test_tangents_follow_the_family_of_the_operation() -> None:
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    page = viz.jvp(lambda a, b: (a @ b).mean(), (a, b), (b, a * 0))
    product, mean = page.story["forward"]
    assert product["moved"] == [
        "t(a) @ b + a @ t(b)", "[0, 0]: 5.0 · 5.0 + 6.0 · 7.0 + 1.0 · 0.0 + 2.0 · 0.0 = 67.0"
    ]  # fmt: skip
    assert mean["moved"] == ["mean(t(a @ b))", "(67.0 + 78.0 + 91.0 + 106.0) / 4 = 85.5"]
    # Forward mode runs the definition of linear: the node is that of a sum.
    layer = viz.jvp(lambda x, w, c: nn.functional.linear(x, w, c), (a, b, a[0]), (b, a, a[1]))
    total = layer.story["forward"][-1]
    assert total["formula"] == "c + (x @ wᵀ)"
    assert total["tangents"][0]["data"] == [69.0, 98.0, 97.0, 142.0]


# -- in the page ---------------------------------------------------------------------------------


def test_the_page_tells_the_whole_story(opened: Open) -> None:
    page = opened(viz.explore(program(), title="Training"))
    assert page.text_content("#count") == "12 steps"
    seen = page.evaluate(STEP)
    assert [s["phase"] for s in seen] == ["forward"] * 4 + ["backward"] * 6 + ["update"] * 2
    assert [s["step"] for s in seen] == [1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 1, 2]
    assert seen[1]["formulas"] == ["y = (x · w) + b", "= 6.0 + 1.0 = 7.0"]
    assert seen[1]["count"] == "forward 2 of 4"
    assert seen[-2]["formulas"] == ["w ← w − lr · w.grad", "= 2.0 − 0.1 · 6.0 = 1.4"]
    assert seen[-2]["line"] == str(program.__code__.co_firstlineno + 12)


def test_values_and_gradients_appear_in_boxes(opened: Open) -> None:
    told = program().to_json()
    names = {i["name"]: str(i["id"]) for i in told["graph"]["items"] if i["name"]}
    page = opened(told)
    seen = page.evaluate(STEP)
    shown = [(s["inside"][names["y"]], s["inside"][names["w"]]) for s in seen]
    assert shown[0] == (["", ""], ["= 2", ""])
    assert shown[1] == (["= 7", ""], ["= 2", ""])
    assert shown[5] == (["= 7", ""], ["= 2", ""])  # the gradient goes to y
    assert shown[6] == (["= 7", "grad 2"], ["= 2", ""])  # and arrives
    assert shown[9] == (["= 7", "grad 2"], ["= 2", "grad 6"])
    assert shown[10] == (["= 7", "grad 2"], ["= 1.4", "grad 6"])


def test_phases_are_entered_by_button_slider_and_address(opened: Open) -> None:
    page = opened(viz.explore(program()), place="#pass=2&update=2")
    assert (read(page)["phase"], read(page)["step"]) == ("update", 2)
    page.click("[data-phase=backward]")
    assert (read(page)["phase"], read(page)["step"]) == ("backward", 1)
    page.keyboard.press("ArrowLeft")
    assert (read(page)["phase"], read(page)["step"]) == ("forward", 4)
    page.keyboard.press("End")
    assert page.is_disabled("#next")
    page.evaluate("""() => { const slider = document.getElementById("slider");
      slider.value = 5; slider.dispatchEvent(new Event("input")); }""")
    assert (read(page)["phase"], read(page)["step"]) == ("backward", 1)
    page.wait_for_url("**#pass=2&step=1", timeout=30_000)
    page.keyboard.press("Home")
    assert page.text_content("#count") == "12 steps"
    page.click(".parts-of-pass button:has-text('Update')")
    assert (read(page)["phase"], read(page)["step"]) == ("update", 1)


def test_the_page_of_a_jacobian_vector_product(opened: Open) -> None:
    page = opened(viz.jvp(lambda x: x * x, torch.tensor(3.0), torch.tensor(1.0)))
    page.keyboard.press("ArrowRight")
    assert read(page)["formulas"] == [
        "x · x", "= 3.0 · 3.0 = 9.0", "t(x) · x + x · t(x)", "= 1.0 · 3.0 + 3.0 · 1.0 = 6.0",
    ]  # fmt: skip
    assert sorted(read(page)["inside"].values()) == [["= 3", "tangent 1"], ["= 9", "tangent 6"]]


@pytest.mark.parametrize("width", [1280, 820, 390])
def test_nothing_overlaps_at_any_width(opened: Open, width: int) -> None:
    page = opened(viz.explore(program()), width=width, place="#forward=2")
    boxes = page.evaluate("""() => [".top h1", "#pass", ".search", "#theme"].map((name) => {
      const { left, right, top, bottom } = document.querySelector(name).getBoundingClientRect();
      return [left, right, top, bottom]; })""")
    for i, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[i + 1 :]:
            apart = right <= other_left + 1 or other_right <= left + 1
            assert apart or bottom <= other_top + 1 or other_bottom <= top + 1
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_network_is_told_with_modules_and_matrices() -> None:
    torch.manual_seed(0)
    net = nn.Linear(2, 1)
    data = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    with viz.recording() as story:
        out = net(data)
        out.sum().backward()
    one = document(story)["passes"][0]
    step = next(s for s in one["forward"] if "@" in s["formula"])
    assert step["formula"] == "out = net.bias + data @ net.weightᵀ"
    assert step["numbers"].startswith("[0, 0]: ")
    assert step["numbers"].count("·") == 2
