"""The benchmarks: all libraries compute the same, and the command line does what it says."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("chain", "scalar", "lstm", "mlp")
# JAX starts threads, which must not be in a process that forks, as other tests do.
JAX = ("jax", "jax-jit") if os.environ.get("WITH_JAX") else ()
KEYS = ("retrograd", "torch", *JAX, "autograd", "mygrad", "tinygrad", "tinygrad-jit")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the benchmarks, which are no part of the installed package."""
    monkeypatch.syspath_prepend(str(ROOT))
    return importlib.import_module


def small_inputs(load: Any) -> Any:
    return load("benchmarks.libraries._inputs").make_inputs(
        lstm_steps=3, lstm_width=4, mlp_rows=6, mlp_sizes=(5, 7, 6, 3)
    )


def results(load: Any, key: str, name: str, inputs: Any) -> list[Any]:
    library = load("benchmarks.libraries").BY_KEY[key]
    if reason := library.why_absent():
        pytest.skip(f"{key}: {reason}")
    with warnings.catch_warnings():
        if key != "retrograd":
            warnings.simplefilter("ignore")  # what other libraries warn of is not our affair
        run = library.programs(inputs)[name]
        run()
        run()  # the programs are run many times, and must start afresh each time
        values = run()
    return [np.asarray(library.to_numpy(value)) for value in values]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("key", KEYS)
def test_library_computes_what_the_hand_written_program_does(
    load: Any, monkeypatch: pytest.MonkeyPatch, key: str, name: str
) -> None:
    if key.startswith("tinygrad") and shutil.which("clang") is None:
        monkeypatch.setenv("DEV", "PYTHON")  # its interpreter needs no compiler
    inputs = small_inputs(load)
    expected = load("benchmarks.libraries.by_hand").programs(inputs)[name]()
    got = results(load, key, name, inputs)
    assert len(got) == len(expected)
    for have, want in zip(got, map(np.asarray, expected), strict=True):
        assert have.dtype == want.dtype == np.float32
        assert have.shape == want.shape
        np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_jax_in_a_process_of_its_own() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "jax-",
               str(Path(__file__))]  # fmt: skip
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "WITH_JAX": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


def losses(load: Any, name: str, inputs: Any, at: list[Any]) -> float:
    """The loss of a program in double precision, from its definition for HIPS autograd and JAX."""
    functional = load("benchmarks.libraries.functional")

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    if name == "chain":
        return float(functional.chain(np, inputs.chain_steps)(*at))
    if name == "scalar":
        return float(functional.scalar(np, inputs.scalar_steps)(*at))
    if name == "lstm":
        cell = functional.lstm_cell(np, sigmoid, inputs.lstm_width)
        start = np.zeros((1, inputs.lstm_width))
        return float(functional.lstm(np, cell, inputs.lstm_inputs, start)(*at))
    loss = functional.mlp(np, lambda x: np.maximum(x, 0), lambda x: x)
    return float(loss(*at, inputs.mlp_batch, inputs.mlp_one_hot))


@pytest.mark.parametrize("name", NAMES)
def test_hand_written_gradients_are_those_of_finite_differences(load: Any, name: str) -> None:
    inputs = small_inputs(load)
    at = {
        "chain": [inputs.chain_x, inputs.chain_y],
        "scalar": [inputs.scalar_x, inputs.scalar_y],
        "lstm": [inputs.lstm_input_weight, inputs.lstm_hidden_weight, inputs.lstm_bias],
        "mlp": [p for layer in inputs.mlp_weights for p in layer],
    }[name]
    value, *gradients = load("benchmarks.libraries.by_hand").programs(inputs)[name]()
    points = [np.array(x, np.float64) for x in at]
    assert float(value) == pytest.approx(losses(load, name, inputs, points), rel=1e-4)
    numbers, step = np.random.default_rng(1), 1e-6
    for point, gradient in zip(points, gradients, strict=True):
        direction = numbers.standard_normal(point.shape)
        point += step * direction
        above = losses(load, name, inputs, points)
        point -= 2 * step * direction
        below = losses(load, name, inputs, points)
        point += step * direction
        slope = float(np.sum(np.asarray(gradient, np.float64) * direction))
        assert (above - below) / (2 * step) == pytest.approx(slope, rel=1e-3, abs=1e-5)


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", ["SMALL", "LARGE"])
def test_single_operations_compute_the_same_in_both_libraries(load: Any, size: str) -> None:
    pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    ops = load("benchmarks.ops")
    for case in ops.CASES:
        if case.only not in (None, getattr(ops, size)):
            continue
        made = {key: ops.make_case(key, case, getattr(ops, size)) for key in ops.MODULES}
        results = []
        for torch, function, tensors in made.values():
            leaves = [t.requires_grad_() for t in tensors.values() if t.is_floating_point()]
            value = function()
            given = np.random.default_rng(1).standard_normal(value.shape).astype(np.float32)
            value.backward(torch.from_numpy(given))
            grads = [x.grad.numpy() for x in leaves if x.grad is not None]
            results.append([value.detach().numpy(), *grads])
        for ours, theirs in zip(*results, strict=True):
            # A sum of all elements may cancel out.
            close = 2e-5 * np.abs(theirs).max() if theirs.ndim else 2e-3
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=close, err_msg=case.name)


def test_single_operations_are_measured_and_written(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = benchmarks("ops", "--rounds", "2", "--cases", "add,matmul", "--sizes", "small",
                      "--json", str(file))  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = json.loads(file.read_text(encoding="utf-8"))
    rows = written["tables"]["1,000 elements"]["rows"]
    assert [row["label"] for row in rows] == ["add", "matmul"]
    assert all(row["both"] > row["forward"] > 0 for row in rows)


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_command_line_prints_tables_and_writes_json(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = benchmarks(
        "overhead", "--rounds", "2", "--programs", "chain,import,memory", "--libraries",
        "numpy,retrograd", "--memory-operations", "10000", "--json", str(file),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[1].startswith("numpy ")
    at = lines.index("chain: 51 operations on 10-element float32 tensors, forward + backward")
    assert lines[at + 1].split() == ["median", "min", "×", "NumPy"]
    assert lines[at + 2].split()[:3] == ["NumPy", "by", "hand"]
    assert lines[at + 2].split()[-1] == "1.00"
    assert lines[at + 3].split()[0] == "retrograd"
    assert lines[at + 4] == "  target: retrograd at most 0.5 × PyTorch: not measured"
    assert "warming up" in done.stderr

    written = json.loads(file.read_text(encoding="utf-8"))
    assert written["rounds"] == 2
    assert list(written["programs"]) == ["chain", "import", "memory"]
    numpy_row, retrograd_row = written["programs"]["chain"]["rows"]
    assert 0 < numpy_row["min"] <= numpy_row["median"]
    assert numpy_row["ratio_numpy"] == 1
    assert retrograd_row["ratio_numpy"] > 0
    (target,) = written["programs"]["import"]["targets"]
    assert target["met"] is (target["figure"] <= 1.3)
    (memory,) = written["programs"]["memory"]["rows"]
    assert memory["peak"] >= memory["forward"] > 40  # the ten numbers alone are 40 bytes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["overhead", "--programs", "chain,choir"], "there is no program 'choir'; choose from"),
        (["overhead", "--libraries", "caffe"], "there is no library 'caffe'; choose from numpy,"),
        (["overhead", "--rounds", "0"], "'0' is not a whole number of at least 1"),
        (["overhead", "--json", "no/such/folder.json"], "not a file in a folder that exists"),
        (["cooking"], "invalid choice: 'cooking'"),
        ([], "the following arguments are required: GROUP"),
    ],
)
def test_wrong_arguments_give_one_line_and_exit_code_2(arguments: list[str], message: str) -> None:
    done = benchmarks(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert message in done.stderr


def test_help_names_programs_libraries_and_examples() -> None:
    done = benchmarks("overhead", "--help")
    assert done.returncode == 0
    for word in ("chain", "memory", "tinygrad-jit", "--json", "python -m benchmarks overhead"):
        assert word in done.stdout


def fail() -> Any:
    raise ValueError("no such luck")


def test_error_in_a_worker_names_the_library(load: Any) -> None:
    workers = load("benchmarks._workers")
    with pytest.raises(workers.WorkerError, match="peer: ValueError: no such luck"):
        workers.Worker("peer", fail)


def test_slow_programs_sit_out_rounds_evenly(load: Any) -> None:
    runner = load("benchmarks._runner")
    assert runner.turns_in(200, 0.003) == 200
    assert runner.turns_in(200, 0.1) == 10
    assert runner.turns_in(200, 6.0) == 1
    played = [n for n in range(200) if runner.takes_part(3, n, 200)]
    assert played == [66, 133, 199]
    assert all(runner.takes_part(200, n, 200) for n in range(200))


def test_figures_are_medians_of_what_was_measured_in_the_same_round(load: Any) -> None:
    samples = {"numpy": [1.0, 2.0, 4.0], "slow": [None, 6.0, 20.0], "torch": [2.0, 1.0, 2.0]}
    got = load("benchmarks._runner").figures(samples, ("numpy", "torch"))
    assert got["slow"] == {
        "median": 13.0, "min": 6.0, "rounds": 2.0, "ratio_numpy": 4.0, "ratio_torch": 8.0
    }  # fmt: skip
    assert got["torch"]["ratio_numpy"] == 0.5


@pytest.mark.parametrize("name", ["jvp", "hvp", "jacrev", "jacfwd", "hessian", "per_sample",
                                  "per_sample_conv"])  # fmt: skip
@pytest.mark.parametrize("key", ["retrograd", "torch", *JAX[:1]])
def test_derivatives_are_those_worked_out_by_hand(load: Any, key: str, name: str) -> None:
    transforms = load("benchmarks.transforms")
    library = load("benchmarks.libraries").BY_KEY[key]
    if reason := library.why_absent():
        pytest.skip(f"{key}: {reason}")
    with warnings.catch_warnings():
        if key != "retrograd":
            warnings.simplefilter("ignore")
        run = transforms.make_run(key, library.module, library.options, name)
    assert callable(run)


@pytest.mark.parametrize(
    ("method", "program"),
    [
        ("retrograd:taylor", "scalar"),
        ("retrograd:nested", "scalar"),
        ("retrograd:collapsed", "laplacian:2"),
        ("retrograd:hessian", "laplacian:2"),
        ("torch:products", "laplacian:2"),
    ],
)
def test_methods_for_high_orders_agree(
    load: Any, monkeypatch: pytest.MonkeyPatch, method: str, program: str
) -> None:
    name = method.split(":")[0]
    pytest.importorskip(name, reason=f"{name} is not installed to compare with")
    program_of = load("benchmarks._orders_program")
    monkeypatch.setattr(program_of, "POINTS", 5)
    library = program_of.Library(name)
    if program == "scalar":
        run = program_of.series(method, library, program, 3)
        f, x, v = program_of.scalar(library.np, library.of)
        wanted = program_of.nested(library.func.jvp, f, v, 3)(x)
    else:
        run = program_of.laplacian(method, library, 2)
        own = program_of.Library("retrograd")
        u, points = program_of.network(own.np, own.of, 2)
        wanted = own.func.vmap(lambda x: own.np.trace(own.func.hessian(u)(x)))(points)
    with warnings.catch_warnings():
        if library.name != "retrograd":
            warnings.simplefilter("ignore")  # what other libraries warn of is not our affair
        found = run()
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-4, atol=1e-5)


def test_the_tables_of_orders(load: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = load("benchmarks.orders")
    progress = load("benchmarks._runner").Progress()
    found = {"seconds": {"1": 1e-3, "2": 2e-3}, "check": {"1": [0.0, 1.0]}, "bytes": 10}
    monkeypatch.setattr(orders, "run_method", lambda method, program: (
        "no such thing" if method.startswith("jax") else
        {**found, "seconds": {**found["seconds"], program: 1e-3 + ("torch" in method)}}
    ))  # fmt: skip
    table = str(orders.series("mlp", progress))
    assert "retrograd, Taylor series  1.00 ms" in table
    assert "JAX, jet: no such thing" in table
    laplacian = orders.laplacians("laplacian:10", progress)
    assert [str(v).split(": ")[-1] for v in laplacian.verdicts()] == [
        "MISSED (1.00)", "met (0.00)", "met (0.00)"
    ]  # fmt: skip
    wrong = {"check": {"1": [0.0, 2.0]}}
    with pytest.raises(AssertionError, match=r"mlp, torch:nested, 1: 2.0, not 1.0"):
        orders.check("mlp", "torch:nested", wrong, found)


def test_solvers_beside_scipy(load: Any) -> None:
    solvers = load("benchmarks.solvers")
    progress = load("benchmarks._runner").Progress(io.StringIO())
    result = solvers.measure("logistic", 2, progress, processes=1)
    figures = {row.key: row.figures for row in result.rows}
    assert set(figures) == {"retrograd", "hand", "differences"}
    assert figures["retrograd"]["calls"] == figures["hand"]["calls"]
    assert figures["retrograd"]["calls"] < figures["differences"]["calls"]
    assert figures["hand"]["first_ratio"] == figures["hand"]["later_ratio"] == 1.0
    assert all(row["first"] > 0 and row["later"] > 0 for row in figures.values())
    with pytest.raises(AssertionError, match="logistic, retrograd: off by"):
        solvers._compare("logistic", 1e-4, {"hand": 1.0, "retrograd": 1.1})
