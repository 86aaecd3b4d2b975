"""What holds for every example in a docstring: ``torch`` is this package."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _examples_call_it_torch(doctest_namespace: dict[str, Any]) -> None:
    import retrograd  # not before tests/conftest.py has limited the threads

    doctest_namespace["torch"] = retrograd
