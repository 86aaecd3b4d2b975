"""Docstrings of the public names are true: their examples run, their arguments exist."""

from __future__ import annotations

import doctest
import importlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docstring_coverage import NAMESPACES, Entry, entries

import retrograd as torch
from retrograd.ops._public import NAMES

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> Iterator[Entry]:
    """Every docstring of the public names that has examples, once, under the first of its names."""
    seen = set()
    for namespace in NAMESPACES:
        for entry in entries(namespace):
            if ">>>" in entry.doc and entry.doc not in seen:
                seen.add(entry.doc)
                yield entry


def names_around(entry: Entry) -> dict[str, Any]:
    """What an example may use without importing it: ``torch``, and the names of the module that it
    is in."""
    value = entry.value.fget if entry.kind == "property" else inspect.unwrap(entry.value)
    module = getattr(value, "__module__", None) or "retrograd"
    return {**vars(importlib.import_module(module)), "torch": torch, "dist": torch.distributed}


def _shared_names(entry: Entry) -> set[str]:
    """``out``, and what a docstring may call the tensor that a method belongs to."""
    if entry.kind != "method":
        return {"input", "out"}
    return {"input", "out", *list(inspect.signature(inspect.unwrap(entry.value)).parameters)[:1]}


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Docstrings that are made when the package is loaded are not where pytest looks for them."""
    monkeypatch.chdir(tmp_path)
    failed: list[str] = []
    printed: list[str] = []
    count = 0
    for entry in examples():
        torch.manual_seed(0)
        test = doctest.DocTestParser().get_doctest(
            entry.doc, names_around(entry), entry.name, None, None
        )
        runner = doctest.DocTestRunner(optionflags=FLAGS, verbose=False)
        own = any("init_process_group" in example.source for example in test.examples)
        grouped = entry.name.startswith("distributed") and not own
        if grouped:  # see conftest.py at the top
            torch.distributed.init_process_group()
        runner.run(test, out=printed.append)
        if grouped:
            torch.distributed.destroy_process_group()
        count += 1
        if runner.failures:
            failed.append(entry.name)
    assert not failed, "".join(printed)
    assert count > 400
    assert os.listdir() == [], "an example leaves files behind"


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_an_args_section_names_no_argument_that_does_not_exist(namespace: str) -> None:
    """A method may share its docstring with a function, so ``out`` and the function's first
    argument are allowed."""
    wrong = [
        f"{entry.name}: {name}"
        for entry in entries(namespace)
        if not any(p.kind is p.VAR_KEYWORD for p in entry.parameters)
        for name in sorted(entry.named - _shared_names(entry) - {p.name for p in entry.parameters})
    ]
    assert wrong == []


@pytest.mark.parametrize("namespace", NAMESPACES)
def test_every_argument_and_result_is_documented(namespace: str) -> None:
    incomplete = {entry.name: entry.lacks for entry in entries(namespace) if entry.lacks}
    assert incomplete == {}


@pytest.mark.parametrize("namespace", ["torch", "special"])
def test_every_elementwise_operation_is_documented(namespace: str) -> None:
    """Its declaration has a summary and an example; the other sections are generated."""
    found = entries(namespace)  # which loads them all
    faces = NAMES[namespace]
    declared = [
        e for e in found if (face := faces.get(e.name.split(".")[-1])) and face.is_operation
    ]
    assert len(declared) > 15
    assert {e.name: e.lacks for e in declared if e.lacks} == {}


def test_a_function_that_takes_out_documents_it_and_its_method_does_not() -> None:
    for name, words in (
        ("exp", "tensor to write the result to"),
        ("frexp", "tuple of tensors to write the results to"),
        ("median", "tensor, or tuple of tensors, to write the result to"),
    ):
        assert f"\n    out: {words}.\n\nReturns:\n" in getattr(torch, name).__doc__
        assert "out:" not in getattr(torch.Tensor, name).__doc__
    assert "out:" not in torch.isnan.__doc__
