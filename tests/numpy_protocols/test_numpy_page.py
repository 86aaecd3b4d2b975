"""The tables of docs/numpy.md are what the calls do, of packages in the versions that it names."""

from __future__ import annotations

import re
from importlib import metadata

import numpy_page
import pytest
from _versions import NUMPY_2_0


def installed(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


@pytest.mark.parametrize("package", numpy_page.CALLS)
def test_the_table_is_true(package: str) -> None:
    page = numpy_page.PAGE.read_text(encoding="utf-8")
    shown = re.search(rf"^{package} (\S+)\.$", page, re.M)
    assert shown is not None
    if installed(package) != shown[1]:
        pytest.skip(f"the page is about {package} {shown[1]}")
    if package == "pandas" and NUMPY_2_0:
        pytest.skip("pandas needs a later NumPy")
    assert numpy_page.table(package, numpy_page.outcomes(package)) in page


def test_there_are_eighty_calls() -> None:
    assert sum(len(calls) for _, calls in numpy_page.CALLS.values()) >= 80
