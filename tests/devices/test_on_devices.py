"""Tensors on devices, by the device ``xla:cpu``, in processes of their own: JAX starts threads,
which must not be in a process that forks. Samples are compared with NumPy: a few of every tenth
group with the slow tests, and all with the exhaustive ones."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import _xla
import pytest
from samples import GROUPS

import retrograd as torch

HERE = Path(__file__).parent
TESTS = HERE.parent
PROGRAMS = sorted(path.name for path in HERE.glob("*_programs.py") if "mesh" not in path.name)
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs JAX")


def run(*arguments: str) -> str:
    """What a Python process prints, which must succeed."""
    source = str(Path(torch.__file__).parents[1])
    path = os.pathsep.join([source, str(TESTS), str(TESTS / "compiler")])
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu",
                   "XLA_FLAGS": _xla.FLAGS}  # fmt: skip
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, cwd=HERE, env=environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def samples(start: int, step: int, *groups: str) -> None:
    found = json.loads(run("device_samples.py", str(start), str(step), *groups).splitlines()[-1])
    assert not found["problems"], "\n".join(found["problems"])
    refused = found["counts"].get("refused on the CPU", 0)
    assert found["counts"]["the same"] > max(20, 3 * refused)


def test_jax_is_imported_only_when_asked_for() -> None:
    run("-c", "import sys, retrograd as torch\ntorch.device('cuda'); torch.ones(2, device='cpu')\n"
              "torch.cuda.is_available()\nassert 'jax' not in sys.modules")  # fmt: skip


def test_without_jax_it_says_what_to_install() -> None:
    text = run("-c", "import sys; sys.modules['jax'] = None\nimport retrograd\n"
                     "try: retrograd.ones(2, device='xla:cpu')\n"
                     "except ModuleNotFoundError as error: print(error)")  # fmt: skip
    assert text.startswith("tensors on a device need JAX, which is not installed: pip install 'ret")


@needs_jax
def test_a_jax_that_cannot_be_imported(tmp_path: Path) -> None:
    (tmp_path / "jax.py").write_text("raise RuntimeError('jaxlib is version 0.1, but jax needs 9')")
    text = run("-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport retrograd\n"
                     "try: retrograd.ones(2, device='xla:cpu')\n"
                     "except ImportError as error: print(error)")  # fmt: skip
    assert "cannot be imported: jaxlib is version 0.1, but jax needs 9. Install versions" in text


def test_without_jax_there_is_no_gpu() -> None:
    text = run("-c", "import sys; sys.modules['jax'] = None\nimport retrograd\n"
                     "print(retrograd.cuda.is_available())\n"
                     "try: retrograd.ones(2, device='cuda')\n"
                     "except ModuleNotFoundError as error: print(error)")  # fmt: skip
    assert text.startswith("False\ntensors on a device need JAX, which is not installed")
    assert "pip install 'jax[cuda12]'" in text


def test_names_of_devices() -> None:
    assert repr(torch.device("xla:cpu")) == "device(type='xla:cpu')"
    assert repr(torch.device("xla:cpu:1")) == "device(type='xla:cpu', index=1)"
    assert repr(torch.device("xla:1")) == "device(type='xla', index=1)"
    assert str(torch.device("tpu")) == "tpu"
    with pytest.raises(RuntimeError, match="Invalid device string: 'xla:gpu'"):
        torch.device("xla:gpu")
    with pytest.raises(RuntimeError, match="device 'mps' is not available"):
        torch.ones(2, device="mps")


@needs_jax
@pytest.mark.long
def test_programs_on_a_device() -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", *PROGRAMS)


@needs_jax
@pytest.mark.exhaustive
def test_long_programs_on_a_device() -> None:
    run("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "long", *PROGRAMS)


@needs_jax
@pytest.mark.long
def test_samples_on_a_device() -> None:
    samples(0, 400, *list(GROUPS)[::10])


@needs_jax
@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(12))  # one process would take 50 GB for compiled functions
def test_all_samples_on_a_device(start: int) -> None:
    samples(0, 1, *list(GROUPS)[start::12])
