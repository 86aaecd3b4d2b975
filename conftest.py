"""What holds for every example in a docstring: ``torch`` is this package. In those of
``torch.distributed``, ``dist`` is that, and there is a process group."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def _examples_call_it_torch(doctest_namespace: dict[str, Any]) -> None:
    import retrograd  # not before tests/conftest.py has limited the threads
    import retrograd.distributed

    doctest_namespace.update(torch=retrograd, dist=retrograd.distributed)


@pytest.fixture(autouse=True)
def _examples_have_a_process_group(request: pytest.FixtureRequest) -> Iterator[None]:
    test = getattr(request.node, "dtest", None)  # of a docstring
    if test is None or not test.name.startswith("retrograd.distributed."):
        yield
        return
    from retrograd.distributed import destroy_process_group, init_process_group

    own = any("init_process_group" in example.source for example in test.examples)
    if not own:
        init_process_group()
    yield
    if not own:
        destroy_process_group()
