"""Training: what can be set, the data, the models, and that both libraries train alike."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import json
import math
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import retrograd
from retrograd._errors import UserError
from retrograd.training import _curves, _metrics, chars, digits
from retrograd.training._config import read
from retrograd.training._loop import Loop, learning_rate_factor
from retrograd.training._progress import Progress
from retrograd.training._settings import OPTIMIZERS, BadSettingError, complete

TEXT = "the quick brown fox jumps over the lazy dog, and then it rests.\n" * 60


@pytest.fixture
def torch() -> Any:
    torch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    importlib.import_module("torch.utils.data")
    return torch


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


# -- data ---------------------------------------------------------------------------------------


def test_the_digits_are_those_of_scikit_learn() -> None:
    data = files("retrograd.training").joinpath("data")
    packed = data.joinpath("digits.csv.gz").read_bytes()
    assert hashlib.sha256(packed).hexdigest() in data.joinpath("README.md").read_text("utf-8")
    lines = gzip.decompress(packed).decode().splitlines()
    images, labels = digits.read(retrograd)
    assert images.shape == (len(lines), 1, 8, 8) == (1797, 1, 8, 8)
    # What scikit-learn's documentation counts, and sums of its load_digits().
    counts = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert retrograd.bincount(labels).tolist() == counts
    assert (images * 16).sum().item() == 561718
    assert (images * 16)[0, 0, 0].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert (images.min().item(), images.max().item()) == (0, 1)


def test_the_split_is_the_same_for_all_seeds() -> None:
    one, other = (digits.Digits(retrograd, complete({"task": "digits", "seed": s})) for s in (0, 1))
    assert retrograd.equal(one._test_images, other._test_images)
    assert not retrograd.equal(next(iter(one.loader))[0], next(iter(other.loader))[0])
    # No image is in both parts, as often as it is in the data.
    trained = [tuple(x.flatten().tolist()) for x in one.loader.dataset.tensors[0]]
    tested = [tuple(x.flatten().tolist()) for x in one._test_images]
    assert (len(trained), len(tested)) == (1437, 360)
    everything = [tuple(x.flatten().tolist()) for x in digits.read(retrograd)[0]]
    assert sorted(trained + tested) == sorted(everything)


@pytest.mark.parametrize("written", ["abcab", "äöü€𝄞 ä", "\ud7ff\ue000" + "x"])
def test_text_as_numbers_and_back(written: str) -> None:
    vocabulary = sorted(set(written))
    codes = chars.encoded(retrograd, written, vocabulary)
    assert "".join(vocabulary[code] for code in codes.tolist()) == written


def test_windows_of_text(text: Path) -> None:
    settings = complete({"task": "chars", "data": {"file": str(text)}, "model": {"context": 9}})
    task = chars.Chars(retrograd, settings)
    seen, following = next(iter(task.loader))
    assert seen.shape == following.shape == (16, 9)
    assert retrograd.equal(seen[:, 1:], following[:, :-1])
    letters = ["".join(task.vocabulary[code] for code in row) for row in seen.tolist()]
    assert all(window in TEXT for window in letters)
    assert task.about == {"characters": 3456, "held out": 384, "different ones": 30}


def test_the_own_sources_are_a_text() -> None:
    assert "def own_sources() -> str:" in chars.own_sources()


# -- settings -----------------------------------------------------------------------------------


def test_settings_are_complete_and_stay_so() -> None:
    for task in ("digits", "chars"):
        settings = complete({"task": task})
        assert complete(settings) == settings
        assert complete(json.loads(json.dumps(settings))) == settings


def test_an_optimizer_has_its_own_options() -> None:
    settings = complete({"task": "digits", "optimizer": {"name": "SGD", "momentum": 0.9}})
    given = {k: v for k, v in settings["optimizer"].items() if v is not None}
    assert given == {"name": "SGD", "momentum": 0.9}  # and none of another's defaults
    loop = Loop(retrograd, digits.Digits(retrograd, settings), settings)
    assert type(loop.optimizer).__name__ == "SGD"
    assert loop.optimizer.param_groups[0]["momentum"] == 0.9


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_trains(name: str) -> None:
    settings = complete({"task": "digits", "steps": 2, "optimizer": {"name": name},
                         "model": {"channels": 2, "hidden": 4}})  # fmt: skip
    task = digits.Digits(retrograd, settings)
    before = [p.detach().clone() for p in task.model.parameters()]
    assert all(map(math.isfinite, Loop(retrograd, task, settings).losses()))
    changed = zip(before, task.model.parameters(), strict=True)
    assert any(not retrograd.equal(old, new) for old, new in changed)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({}, "task: it is missing; it must be one of digits, chars"),
        ({"task": "mnist"}, 'task: "mnist" is not one of digits, chars'),
        ({"task": "digits", "epoch": 3}, "epoch: there is no such setting; did you mean epochs?"),
        ({"task": "digits", "xyz": 3}, "xyz: there is no such setting; there are seed, epochs, "
         "steps, log_every, evaluate_every, checkpoint_every, keep_checkpoints, clip_gradients, "
         "model, data, schedule, optimizer"),
        ({"task": "digits", "epochs": 0}, "epochs: 0 is not a whole number of at least 1"),
        ({"task": "digits", "epochs": 2.5}, "epochs: 2.5 is not a whole number of at least 1"),
        ({"task": "digits", "epochs": True}, "epochs: true is not a whole number of at least 1"),
        ({"task": "digits", "epochs": 1, "steps": 1}, "steps: give steps or epochs, not both"),
        ({"task": "digits", "seed": -1},
         "seed: -1 is not a whole number of at least 0"),
        ({"task": "digits", "model": 3}, "model: it must be a section with settings, not 3"),
        ({"task": "digits", "optimizer": {"betas": [0.9]}},
         "optimizer.betas: [0.9] is not a list of 2, each a number"),
        ({"task": "digits", "model": {"chanels": 2}},
         "model.chanels: there is no such setting; did you mean channels?"),
        ({"task": "digits", "data": {"batch_size": "many"}},
         'data.batch_size: "many" is not a whole number from 1 to 1,797'),
        ({"task": "digits", "optimizer": {"name": "sgd"}}, 'optimizer.name: "sgd" is not one of '
         "ASGD, Adadelta, Adafactor, Adagrad, Adam, AdamW, Adamax, NAdam, RAdam, RMSprop, Rprop, "
         "SGD"),
        ({"task": "digits", "optimizer": {"name": "SGD", "betas": [0.9, 0.9]}},
         "optimizer.betas: there is no such setting; there are name, lr, momentum, dampening, "
         "weight_decay, nesterov, maximize"),
        ({"task": "digits", "optimizer": {"lr": "fast"}}, 'optimizer.lr: "fast" is not a number'),
        ({"task": "digits", "schedule": {"name": "step"}},
         'schedule.name: "step" is not one of constant, linear, cosine'),
        ({"task": "digits", "schedule": {"warmup": 2}},
         "schedule.warmup: 2 is not a number from 0 to 1"),
        ({"task": "chars", "model": {"heads": 5}},
         "model.heads: 5 heads do not divide a width of 96"),
        ({"task": "chars", "model": {"tied": 1}}, "model.tied: 1 is not true or false"),
        ({"task": "chars", "data": {"file": ""}}, 'data.file: "" is not the name of a text file'),
        ({"task": "chars", "optimizer": {"lr": math.nan}}, "optimizer.lr: nan is not a number"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(given: dict[str, Any], complaint: str) -> None:
    with pytest.raises(BadSettingError) as caught:
        complete(given)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("name", "content", "complaint"),
    [
        ("a.toml", 'task = "digits"\n\n[data]\nbatch_size = 0\n',
         ", line 4: data.batch_size: 0 is not a whole number from 1 to 1,797"),
        ("a.toml", 'seed = 1\n[optimizer]\nlr = 1\nname = "Addam"\n',
         ", line 1: task: it is missing; it must be one of digits, chars"),
        ("a.toml", 'task = "chars"\nmodel = { width = 7 }\n',
         ", line 2: model.heads: 4 heads do not divide a width of 7"),
        ("a.toml", 'task = "chars"\nmodel.width = 7.5\n',
         ", line 2: model.width: 7.5 is not a whole number from 1 to 16,384"),
        ("a.toml", 'task = "digits\n', ", line 1: Illegal character '\\n'"),
        ("a.toml", "\xff", ", line 1: Invalid statement"),
        ("a.json", '{"task": "digits",\n "model": {"hidden": 3},\n "data": {"batch_size": 3,\n'
         ' "hidden": 4}}', ", line 4: data.hidden: there is no such setting; there are batch_size, "
         "test_size"),
        ("a.json", '{"task": "digits",\n}', ", line 1: Illegal trailing comma before end of object"
         if sys.version_info >= (3, 13)
         else ", line 2: Expecting property name enclosed in double quotes"),
        ("a.json", "[1, 2]", ': a configuration is an object, such as {"task": "digits"}'),
        ("a.json", "[" * 100_000, " is nested too deeply for a configuration file"),
    ],
)  # fmt: skip
def test_mistakes_in_a_file(name: str, content: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as caught:
        read(path, {})
    said = str(caught.value)
    if "it is missing" in complaint:
        complaint = complaint.replace(", line 1", "")
    assert said == f"{path}{complaint}"


def test_files_that_are_no_configuration(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    with pytest.raises(UserError, match="No such file or directory"):
        read(path, {})
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not a text file in UTF-8"):
        read(path, {})
    path.write_bytes(b"#" * 2_000_000)
    with pytest.raises(UserError, match="is too large for a configuration file"):
        read(path, {})


def test_the_command_line_comes_before_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text('task = "digits"\nepochs = 3\nseed = 1\n[data]\ntest_size = 100\n', "utf-8")
    settings = read(path, {"steps": 7, "seed": 2})
    assert (settings["steps"], settings["epochs"], settings["seed"]) == (7, None, 2)
    assert settings["data"] == {"batch_size": 64, "test_size": 100}
    path.write_text('task = "chars"\n[data]\nfile = "notes.txt"\n', "utf-8")
    assert read(path, {})["data"]["file"] == str(tmp_path / "notes.txt")  # next to the file


# -- the loop -----------------------------------------------------------------------------------


def test_the_learning_rate() -> None:
    def factors(name: str, warmup: float, floor: float) -> list[float]:
        return [round(learning_rate_factor(i, 10, name, warmup, floor), 4) for i in range(10)]

    assert factors("constant", 0.0, 0.0) == [1.0] * 10
    assert factors("constant", 0.3, 0.0) == [0.3333, 0.6667] + [1.0] * 8
    assert factors("linear", 0.0, 0.5) == [1, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.55]
    half = [(1 + math.cos(math.pi * i / 8)) / 2 for i in range(8)]
    assert factors("cosine", 0.2, 0.0) == [0.5, 1.0] + [round(x, 4) for x in half]
    assert factors("cosine", 1.0, 0.0) == [i / 10 for i in range(1, 11)]


SMALL_GPT = {"layers": 2, "heads": 2, "width": 32, "context": 24}


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("task", ["digits", "chars"])
def test_losses_follow_those_of_pytorch(task: str, tied: bool, torch: Any, text: Path) -> None:
    """From the same seed, without any number handed from one to the other."""
    if task == "digits" and tied:
        pytest.skip("only a GPT has weights to tie")
    given: dict[str, Any] = {"task": task, "steps": 50}
    if task == "chars":
        given |= {"model": SMALL_GPT | {"tied": tied}, "data": {"file": str(text)}}
    settings = complete(given)
    make = {"digits": digits.Digits, "chars": chars.Chars}[task]
    losses, scores = [], []
    for library in (retrograd, torch):
        library.manual_seed(settings["seed"])
        loop = Loop(library, make(library, settings), settings)
        losses.append(list(loop.losses()))
        scores.append(loop.evaluate())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert scores[0] == pytest.approx(scores[1], rel=1e-3, abs=0.003)  # one image may tip over
    assert losses[0][-1] < losses[0][0] / 1.3


def test_the_gpt_looks_at_nothing_to_come() -> None:
    settings = complete({"task": "chars", "model": SMALL_GPT})["model"]
    model = chars.gpt(retrograd, 30, **settings).eval()
    codes = retrograd.randint(0, 30, (1, 24))
    changed = codes.clone()
    changed[0, 10:] = (codes[0, 10:] + 1) % 30
    with retrograd.no_grad():
        one, other = model(codes), model(changed)
    assert retrograd.allclose(one[:, :10], other[:, :10], atol=1e-6)
    assert not retrograd.allclose(one[:, 10], other[:, 10], atol=1e-3)


def test_the_gpt_learns_a_text_by_heart(text: Path) -> None:
    sample = {"start": "the qu", "length": 40, "temperature": 0}
    settings = complete({"task": "chars", "steps": 300, "model": SMALL_GPT, "seed": 3,
                         "data": {"file": str(text)}, "sample": sample})  # fmt: skip
    retrograd.manual_seed(3)
    task = chars.Chars(retrograd, settings)
    losses = list(Loop(retrograd, task, settings).losses())
    assert losses[-1] < 0.5 < 2 < losses[0]
    written = task.sample()
    assert len(written) == 46
    assert written.startswith("the quick brown fox")
    assert task.sample() == written  # the same seed, the same text


# -- figures and pictures -----------------------------------------------------------------------


def test_figures_of_a_killed_run(tmp_path: Path) -> None:
    lines = [json.dumps({"step": i, "loss": 1 / i}) for i in range(1, 6)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 6, "lo', "utf-8")
    assert [r["step"] for r in _metrics.read(tmp_path, 100)] == [1, 2, 3, 4, 5]
    kept = _metrics.read(tmp_path, 3)
    metrics = _metrics.Metrics(tmp_path, kept)
    metrics.add({"step": 4, "loss": math.inf})
    metrics.settle()
    metrics.close()
    written = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    assert written == [*lines[:3], '{"step": 4, "loss": null}']
    assert _metrics.read(tmp_path / "nowhere", 3) == []


def test_curves(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the curves are drawn by matplotlib")
    records = [{"step": i, "loss": 3 / i} for i in range(1, 60)]
    records[30] |= {"test_loss": 0.2, "test_accuracy": 0.9}
    drawn = _curves.draw(tmp_path, "a title", records)
    assert [path.name for path in drawn] == ["loss.png", "loss.svg"]
    assert drawn[0].read_bytes().startswith(b"\x89PNG")
    picture = drawn[1].read_text(encoding="utf-8")
    assert picture.startswith("<?xml")
    before = [path.read_bytes() for path in drawn]
    _curves.draw(tmp_path, "a title", records)
    assert [path.read_bytes() for path in drawn] == before
    assert _curves.draw(tmp_path, "nothing yet", []) == drawn


def test_progress_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(3, 1, quiet=False)
    progress.step(2.0, {})
    progress.step(1.0, {"test_loss": 0.5})
    progress.close()
    line = capsys.readouterr().err
    assert line.startswith("step 3 of 3, loss 1.000, test loss 0.500, ")
    assert line.count("\n") == 1
    quiet = Progress(1, 0, quiet=True)
    quiet.step(1.0, {})
    quiet.close()
    assert capsys.readouterr().err == ""


def test_a_run_that_diverges(tmp_path: Path) -> None:
    config = tmp_path / "wild.toml"
    config.write_text('task = "digits"\n[optimizer]\nname = "SGD"\nlr = 1e30\n', encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "retrograd", "train", str(config), "--quiet"], cwd=tmp_path,
        capture_output=True, text=True, timeout=120, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith("retrograd: the loss is nan at step ")
    assert "try a lower learning rate" in result.stderr
    assert (tmp_path / "runs" / "wild-0" / "config.json").exists()


def test_options_that_an_optimizer_refuses(tmp_path: Path) -> None:
    config = tmp_path / "wrong.toml"
    config.write_text('task = "digits"\n[optimizer]\nlr = -1.0\n', encoding="utf-8")
    result = subprocess.run(
        [sys.executable, "-m", "retrograd", "train", str(config)], cwd=tmp_path,
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    said = "retrograd: optimizer: Invalid learning rate: -1.0\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)
    assert not (tmp_path / "runs").exists()


# -- the benchmark ------------------------------------------------------------------------------


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", "training", *arguments], cwd=Path(__file__).parents[2],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.exhaustive
def test_the_benchmark_measures_and_writes(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = benchmarks("--programs", "mlp,conv,gpt", "--rounds", "1", "--json", str(file))
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["group"] == "training"
    for name in ("mlp", "conv", "gpt"):
        rows = written["programs"][name]["rows"]
        assert rows[0]["library"] == "retrograd"
        assert all(row["median"] > 0 for row in rows)


@pytest.mark.exhaustive
def test_the_benchmark_compares_with_pytorch(torch: Any, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = benchmarks("--programs", "digits,follow", "--rounds", "1", "--json", str(file))
    assert done.returncode == 0, done.stderr
    programs = json.loads(file.read_text(encoding="utf-8"))["programs"]
    assert [row["library"] for row in programs["digits"]["rows"]] == ["retrograd", "torch"]
    assert " and " not in programs["digits"]["notes"][0]  # both after as many steps
    assert programs["follow"]["rows"][0]["off"] < 1e-3
