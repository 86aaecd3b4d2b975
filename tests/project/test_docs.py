"""The documents are true: examples print what they say, names exist, links lead somewhere."""

from __future__ import annotations

import doctest
import importlib
import itertools
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from _documents import DOCUMENTS, FENCED, ROOT, Example, examples, run
from operation_counts import counts, reasons
from operations_page import page, pytorch_names

import retrograd
from retrograd.ops._operation import USERS
from retrograd.tensor._public import names_in, withdraw


@pytest.fixture
def nothing_declared() -> Iterator[None]:
    """Takes back what examples have declared and set."""
    yield
    retrograd.set_default_dtype(retrograd.float32)
    for operation in list(USERS.values()):
        withdraw(operation)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_examples_print_what_the_document_says(
    document: Path, nothing_declared: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for the files that examples write
    namespace: dict[str, Any] = {"__name__": "__main__"}
    text = document.read_text(encoding="utf-8")
    if "import pandas" in text:
        pytest.importorskip("pandas", reason="pandas is not installed")
    for source, printed, line, _ in examples(text):
        output = run(source, namespace, may_fail=printed is not None)
        if printed is not None:
            assert output == printed, f"{document.name}, line {line}"


def test_examples_are_found() -> None:
    text = "```python\na\n```\n\n```text\nb\n```\n```python\nc\n```\nwords\n```\nd\n```\n"
    assert examples(text) == [Example("a\n", "b\n", 2, 15), Example("c\n", None, 9, 46)]
    assert len(examples((ROOT / "README.md").read_text(encoding="utf-8"))) >= 3


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", document.read_text(encoding="utf-8")):
        if "://" not in target and "reference/" not in target:  # whose links docs/build checks
            assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_code_that_is_named_exists(document: Path) -> None:
    """``autograd/_engine.py`` is a file of the package; ``autograd/_engine.py:run`` is in it."""
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    for path, name in re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", text):
        if path.startswith("tests/"):
            assert (ROOT / path).exists(), path
            continue
        file = ROOT / "src" / "retrograd" / path
        assert file.exists(), path
        if path.startswith(("compiler/xla/", "devices/")):  # JAX, which they import, starts threads
            source = file.read_text(encoding="utf-8")
            for part in filter(None, name.split(".")):
                defined = rf"^\s*(?:(?:def|class) {part}\b|{part}\b.*=)"
                assert re.search(defined, source, re.MULTILINE), f"{path} has no {name}"
            continue
        found: Any = importlib.import_module(f"retrograd.{path[:-3].replace('/', '.')}")
        for part in filter(None, name.split(".")):
            assert hasattr(found, part), f"{path} has no {name}"
            found = getattr(found, part)


def public_functions() -> dict[str, Any]:
    """Every function of the namespaces, by its name in PyTorch."""
    names = {n: getattr(retrograd, n) for n in names_in("torch")}
    names.update({f"Tensor.{n}": getattr(retrograd.Tensor, n) for n in names_in("method")})
    for space in ("linalg", "fft", "special", "nn.functional"):
        module = importlib.import_module(f"retrograd.{space}")
        there = names_in(space.removeprefix("nn."))
        names.update({f"{space}.{n}": getattr(module, n) for n in there})
    return names


def test_every_public_function_says_what_it_does() -> None:
    assert [n for n, function in public_functions().items() if not function.__doc__] == []


@pytest.mark.filterwarnings("ignore")
def test_examples_of_public_functions_are_right() -> None:
    parser, flags = doctest.DocTestParser(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags, verbose=False)
    for name, function in public_functions().items():
        names = {"torch": retrograd}
        example = parser.get_doctest(function.__doc__ or "", names, name, None, None)
        found: list[str] = []
        runner.run(example, out=found.append)
        assert not found, "".join(found)
    assert runner.summarize(verbose=False).attempted > 300


def test_operations_outside_the_families_say_why() -> None:
    counts()  # which loads all operations
    assert len(reasons()) > 10
    assert [name for name, reason in reasons().items() if not reason] == []


def test_page_of_operations_is_up_to_date() -> None:
    written = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert written == page(), "run python tests/operations_page.py"


def test_names_of_pytorch_are_those_it_has() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    for space, names in pytorch_names().items():
        place = torch.Tensor if space == "Tensor" else torch
        if space not in ("torch", "Tensor"):
            place = importlib.import_module(f"torch.{space}")
        assert [n for n in names if not hasattr(place, n)] == []


def test_every_dependency_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    explained = set(re.findall(r"- \*\*([\w-]+)\*\*", (ROOT / "docs/dependencies.md").read_text()))
    extras = itertools.chain(*project["optional-dependencies"].values())
    required = [*project["dependencies"], *extras]
    assert explained == {re.split(r"[^\w-]", name)[0] for name in required}


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    newest = re.search(r"^## ([\d.]+)", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert newest is not None
    assert project["version"] == retrograd.__version__ == newest[1]


@pytest.mark.skipif(os.name == "nt", reason="Windows knows no executable bit")
@pytest.mark.parametrize("script", ["run", "test", "docs/build", ".ci/run"])
def test_scripts_can_be_run(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
