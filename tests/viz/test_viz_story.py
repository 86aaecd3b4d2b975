"""Stories: the document that pages are made of, and the marks in it."""

import json
import subprocess
import sys
import textwrap
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

import retrograd as torch
from retrograd import nn, viz
from retrograd.viz import _story
from retrograd.viz._recording import record_pass
from retrograd.viz._values import Value


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values if len(values) > 1 else values[0], requires_grad=True)


def document(story) -> dict:
    """The story, after a way through a file that takes nothing but strict JSON."""
    text = json.dumps(story.to_json(pictures=False), allow_nan=False)
    return json.loads(text)


def kinds(doc) -> list[str]:
    return [mark["kind"] for mark in doc["marks"]]


# -- values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_are_written_so_that_they_can_be_read_back(dtype: str) -> None:
    rng = np.random.default_rng(0)
    array = (rng.normal(size=(4, 5)) * 10.0 ** rng.integers(-4, 4, size=(4, 5))).astype(dtype)
    found = json.loads(json.dumps(Value(array).to_json(), allow_nan=False))
    assert found["shape"] == [4, 5]
    assert np.array_equal(np.array(found["data"], dtype).reshape(4, 5), array)
    assert found["min"] == float(str(array.min()))
    assert found["norm"] == pytest.approx(float(np.linalg.norm(array.astype("float64"))))
    assert found["mean"] == pytest.approx(float(array.astype("float64").mean()))


def test_the_shortest_number_is_written() -> None:
    assert Value(np.float32(0.1)).to_json()["data"] == [0.1]


def test_what_is_no_number_is_a_string() -> None:
    found = Value(np.array([np.nan, np.inf, -np.inf, 2.0])).to_json()
    assert found["data"] == ["nan", "inf", "-inf", 2.0]
    assert (found["nan"], found["inf"], found["min"], found["norm"]) == (1, 2, 2.0, 2.0)
    nothing = Value(np.array([np.nan])).to_json()
    assert nothing["min"] is nothing["mean"] is nothing["norm"] is None


def test_other_kinds_of_numbers() -> None:
    assert Value(np.array([1 + 2j, np.nan])).to_json()["data"] == [[1.0, 2.0], ["nan", 0.0]]
    assert Value(np.array([True, False])).to_json()["data"] == [1, 0]
    assert Value(np.array([2**62], "int64")).to_json()["data"] == [2**62]
    assert Value(np.zeros((0, 3))).to_json()["data"] == []
    assert Value.of(2.5).to_json()["data"] == [2.5]
    assert Value.of(None) is None


def test_norms_do_not_overflow() -> None:
    assert Value(np.array([3e200, 4e200])).norm == pytest.approx(5e200)
    assert Value(np.array([3e-200, 4e-200])).norm == pytest.approx(5e-200)
    assert Value(np.full(4, 1.7e308)).to_json()["norm"] == "inf"


def test_large_arrays_are_summarised() -> None:
    array = np.arange(1000.0).reshape(10, 100).T  # not as it lies in memory
    found = Value(array, 20).to_json()
    assert found["data"] is None
    assert found["some"] == array.reshape(-1)[:8].tolist()
    assert (found["min"], found["max"], found["mean"]) == (0.0, 999.0, 499.5)
    limited = Value(np.arange(10.0)).to_json(5)
    assert limited["data"] is None
    assert limited["some"] == list(range(8))


# -- the document --------------------------------------------------------------------------------


def two_layers():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x, t = torch.randn(5, 3), torch.tensor([0, 1, 1, 0, 1])
    with viz.recording(title="two layers") as story:
        loss = nn.functional.cross_entropy(model(x), t)
        loss.backward()
    return model, story


def test_the_document_has_the_engines_gradients() -> None:
    model, story = two_layers()
    doc = document(story)
    items = doc["graph"]["items"]
    assert doc["version"] == 1
    assert doc["title"] == "two layers"
    (one,) = doc["passes"]
    assert one["how"] == "loss.backward()"
    assert items[one["root"]]["label"] == "NllLoss"
    parameters = dict(model.named_parameters())
    found = {}
    for step in one["steps"]:
        if step["accumulate"] is not None:
            assert step["accumulate"]["leaf"] == step["item"]
            found[items[step["item"]]["name"]] = step["accumulate"]["after"]
    assert found.keys() == parameters.keys()
    for name, parameter in parameters.items():
        shown = np.array(found[name]["data"], "float32").reshape(found[name]["shape"])
        assert np.array_equal(shown, parameter.grad.numpy())
    tanh = next(s for s in one["steps"] if s["name"] == "TanhBackward0")
    assert tanh["rule"]["formulas"] == ["grad_self = grad · (1 − result²)"]
    assert items[tanh["item"]]["module"] == "1"
    assert [s["name"] for s in tanh["saved"]] == ["result"]
    g, y = (
        np.array(v["data"], "float32") for v in (tanh["incoming"][0], tanh["saved"][0]["value"])
    )
    sent = np.array(tanh["outgoing"][0]["value"]["data"], "float32")
    assert np.array_equal(sent, g - g * (y * y))


def test_every_reference_leads_somewhere() -> None:
    _, story = two_layers()
    doc = document(story)
    count = len(doc["graph"]["items"])
    for one in doc["passes"]:
        assert 0 <= one["root"] < count
        check_place(doc, one["place"])
        for step in one["steps"]:
            assert 0 <= step["item"] < count
            for sent in step["outgoing"]:
                assert sent["to"] is None or 0 <= sent["to"] < count
            assert len(step["outgoing"]) <= len(step["rule"]["formulas"]) or step["captured"]
            for mark in step["marks"]:
                assert doc["marks"][mark]["step"] is not None
    for item in doc["graph"]["items"]:
        check_place(doc, item["place"])
    assert sum(size for _, size in doc["memory"]["items"]) == doc["memory"]["total"] > 0


def check_place(doc, place) -> None:
    if place is not None:
        number, line = place
        file = doc["files"][number]
        assert file["name"] == "test_viz_story.py"
        assert file["lines"][line - file["first_line"]].strip()


def test_places_are_the_users_lines() -> None:
    x = leaf(1.0, 2.0)
    story = record_pass((x * x).sum())  # the line
    doc = document(story)
    number, line = doc["passes"][0]["place"]
    file = doc["files"][number]
    assert file["lines"][line - file["first_line"]].endswith("# the line")


def test_parts_are_given_where_several_arrived() -> None:
    x = leaf(2.0)
    with viz.recording() as story:
        y = x * 3
        (y * y).backward()
    steps = document(story)["passes"][0]["steps"]
    assert [len(s["parts"]) for s in steps] == [0, 2, 0]
    square, product, _ = steps
    assert [p["from"] for p in product["parts"]] == [square["item"]] * 2
    assert [p["value"]["data"] for p in product["parts"]] == [[6.0], [6.0]]
    assert product["incoming"][0]["data"] == [12.0]


def test_a_story_without_a_pass_says_so() -> None:
    with viz.recording() as story:
        leaf(1.0) * 2
    with pytest.raises(RuntimeError, match=r"no backward pass was run.*Call backward\(\)"):
        story.to_json()


def test_it_is_the_same_every_time() -> None:
    first, second = (two_layers()[1].to_json(pictures=False) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)
    assert "0x" not in json.dumps({**first, "files": [], "graph": []})  # no address of anything


PROGRAM = """
import json, retrograd as torch
from retrograd import viz
x = torch.ones(3, requires_grad=True)
with viz.recording() as story:
    y = (x * 2).exp()
    y.sum().backward()
print(json.dumps(story.to_json(pictures=False), sort_keys=True))
"""


def test_it_is_the_same_in_another_process(tmp_path) -> None:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    runs = [
        subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stdout == runs[1].stdout
    doc = json.loads(runs[0].stdout)
    assert doc["files"][0]["name"] == "program.py"
    assert doc["files"][0]["lines"][5] == "    y = (x * 2).exp()"
    assert str(tmp_path) not in runs[0].stdout


def test_hostile_text_is_kept_as_it_is() -> None:
    torch.manual_seed(0)
    with viz.recording(title="</script><b>&") as story:
        x = leaf(1.0)
        y = x * 2  # "</script>" <img src=x onerror=alert(1)>
        y.backward()
    doc = document(story)
    assert doc["title"] == "</script><b>&"
    assert any("onerror=alert(1)" in line for line in doc["files"][0]["lines"])


def test_long_files_are_given_in_part(tmp_path) -> None:
    path = tmp_path / "long.py"
    path.write_text("\n".join(f"line{i} = {i}" for i in range(1, 10_001)))
    found = _story.source_of(str(path), {5000, 5001})
    assert found["first_line"] == 4950
    assert found["lines"][50] == "line5000 = 5000"
    assert len(found["lines"]) == _story.MOST_LINES


def test_documents_of_many_numbers_are_cut_down(monkeypatch) -> None:
    monkeypatch.setattr(_story, "MOST_NUMBERS", 500)
    x, small = torch.ones(200, requires_grad=True), leaf(1.0)
    with viz.recording() as story:
        (x.exp().sin().sum() * small).backward()
    doc = document(story)
    assert doc["limits"]["elements"] == 64
    sin = next(s for s in doc["passes"][0]["steps"] if s["name"] == "SinBackward0")
    assert sin["incoming"][0]["data"] is None
    assert len(sin["incoming"][0]["some"]) == 8
    assert sin["incoming"][0]["norm"] == pytest.approx(np.sqrt(200))
    assert doc["passes"][0]["steps"][0]["incoming"][0]["data"] == [1.0]


def test_a_large_graph_makes_a_small_document() -> None:
    x = torch.ones(10, requires_grad=True)
    with viz.recording(max_steps=50) as story:
        y = x
        for _ in range(30_000):
            y = y * 1.0
        y.sum().backward()
    text = json.dumps(story.to_json(pictures=False), allow_nan=False)
    doc = json.loads(text)
    assert len(text) < 2_000_000
    assert doc["passes"][0]["count"] == 30_002
    assert doc["passes"][0]["left_out"] == 30_002 - 51
    last = doc["passes"][0]["steps"][-1]
    assert last["accumulate"]["after"]["data"] == [1.0] * 10
    assert last["number"] == 30_001


# -- several passes ------------------------------------------------------------------------------


def training(batches, t=torch) -> tuple:
    """A loop over batches, recorded if it is ours: the story, and the gradients by pass."""
    grads = []
    t.manual_seed(0)
    net = t.nn.Sequential(t.nn.Linear(2, 3), t.nn.Tanh(), t.nn.Linear(3, 1))
    optimizer = t.optim.SGD(net.parameters(), lr=0.1)
    with viz.recording() if t is torch else nullcontext() as story:
        for batch in batches:
            optimizer.zero_grad()
            net(t.tensor(batch)).pow(2).mean().backward()
            grads.append([p.grad.tolist() for p in net.parameters()])
            optimizer.step()
    return story, grads


def test_a_recorded_loop_trains_as_pytorch_does(pytorch: Any) -> None:
    batches = [[[1.0, 2.0], [3.0, 4.0]], [[0.5, 1.0], [2.0, 0.0]], [[1.0, 1.0]] * 2]
    (_, ours), (_, theirs) = training(batches), training(batches, pytorch)
    np.testing.assert_allclose(flat(ours), flat(theirs), rtol=1e-5, atol=1e-7)


def flat(grads) -> list[float]:
    return [x for part in grads for x in flat(part)] if isinstance(grads, list) else [grads]


def leaf_steps(doc, number) -> dict:
    items = doc["graph"]["items"]
    steps = doc["passes"][number]["steps"]
    return {items[s["item"]]["name"]: s["accumulate"] for s in steps if s["accumulate"]}


def test_the_graphs_of_a_training_loop_are_one_picture() -> None:
    story, grads = training([[[1.0, 2.0], [3.0, 4.0]], [[0.5, 1.0], [2.0, 0.0]], [[1.0, 1.0]] * 2])
    doc = document(story)
    labels = [item["label"] for item in doc["graph"]["items"] if item["kind"] == "operation"]
    assert labels == ["T", "Addmm", "Tanh", "T", "Addmm", "Pow", "Mean"]
    first, *others = (
        [s["item"] for s in one["steps"] if not s["accumulate"]] for one in doc["passes"]
    )
    assert others == [first, first]  # leaves are older in later passes, and have their turn later
    assert doc["passes"][2]["roots"] == doc["passes"][0]["roots"]
    for number, wanted in enumerate(grads):
        found = leaf_steps(doc, number)
        names = ("0.weight", "0.bias", "2.weight", "2.bias")
        assert [flat_value(found[name]) for name in names] == [flat(grad) for grad in wanted]
    # What differs from pass to pass is given for each.
    tensors = [i for i in doc["graph"]["items"] if i["kind"] in ("data", "intermediate", "leaf")]
    for item in tensors:
        assert str(item["id"]) not in doc["passes"][0]["values"]
        assert str(item["id"]) in doc["passes"][1]["values"]
    (batch,) = [i["id"] for i in tensors if i["kind"] == "data"]
    assert doc["passes"][2]["values"][str(batch)]["data"] == [1.0] * 4


def flat_value(accumulate) -> list[float]:
    return [float(np.float32(x)) for x in accumulate["after"]["data"]]


def test_a_batch_of_another_size_has_a_graph_of_its_own() -> None:
    story, _ = training([[[1.0, 2.0], [3.0, 4.0]], [[0.5, 1.0]], [[1.0, 1.0]] * 2])
    doc = document(story)
    assert len([i for i in doc["graph"]["items"] if i["label"] == "Mean"]) == 2
    roots = [one["root"] for one in doc["passes"]]
    assert roots[0] == roots[2] != roots[1]


def test_going_over_a_graph_again_is_a_pass_over_the_same_items() -> None:
    x = leaf(2.0)
    with viz.recording() as story:
        for _ in range(2):
            y = (x * x).exp()
            y.backward(retain_graph=True)
        y.backward(retain_graph=True)
        (y * 3).backward()
    items = [[s["item"] for s in one["steps"]] for one in document(story)["passes"]]
    assert items[1] == items[2]
    assert items[3][1:] == items[2]  # it goes on from there, and so has a graph of its own
    assert len({*items[0][:2], *items[1][:2]}) == 4
