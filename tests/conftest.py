"""What holds for every test: how Hypothesis runs, and that no test leaves a mode switched on."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# One thread each for matrices and for PyTorch, before they are loaded: arrays in tests are small,
# and waiting for other threads takes longer than the work, the more so where tests run in parallel.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import _viz_browser  # noqa: E402

from retrograd import _modes  # noqa: E402
from retrograd.tensor import _overrides  # noqa: E402

# Machines differ in speed, so there is no deadline. In CI the same examples are tried each time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


# Programs for type checkers, programs that import torch, and programs with mistakes.
collect_ignore_glob = ["typing/*", "programs/*", "confusions/*"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave modules that are not tests to those who import or run them: ``--doctest-modules`` would
    import them all, and some need PyTorch or start JAX, which no process that forks may have
    done. Files that are named on the command line are collected all the same."""
    name = collection_path.name
    return True if name.endswith(".py") and not name.startswith("test_") else None


def pytest_collection() -> None:
    """Collecting makes millions of objects that stay, which there is no use in looking through."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Make sure that comparisons with PyTorch are that: no module that was collected has put this
    package in its place. And leave what there is now out of garbage collections: many tests ask
    for one, and each would take a third of a second."""
    theirs = sys.modules.get("torch")
    assert theirs is None or "retrograd" not in theirs.__version__, "torch is retrograd"
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def torch() -> Any:
    """PyTorch, for tests that compare with it. Some modules have a ``torch`` of their own, which is
    one library and then the other."""
    return pytest.importorskip("torch", reason="PyTorch is not installed to compare with")


@pytest.fixture(scope="session")
def pytorch(torch: Any) -> Any:
    """The same, for modules in which ``torch`` is retrograd."""
    return torch


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, for tests of pages."""
    yield from _viz_browser.started()


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[_viz_browser.Open]:
    """What opens a page, and fails the test if that prints, fails or asks for anything."""
    yield from _viz_browser.watched(browser, tmp_path)


@pytest.fixture(autouse=True)
def _no_mode_is_left_on() -> Iterator[None]:
    yield
    left = {name: getattr(_modes.modes, name) for name in _modes.PLAIN}
    states = len(_modes.modes.frame.states)
    active = len(_modes.switch.active)
    _modes.modes.__init__()  # so that the tests after this one do not fail for it
    _modes.switch.active.clear()
    assert left == _modes.PLAIN
    assert states == 1, "a scope was left open"
    assert active == 0, "another thread ended with a mode switched on"


@pytest.fixture(autouse=True)
def without_overrides() -> Iterator[None]:
    """A class that overrides functions makes every call a little longer from then on. Other tests
    are not to pay for it."""
    yield
    if _overrides.INSTALLED:
        _overrides.INSTALLED[0].uninstall()
