"""``torch.compiler``: settings and queries other than compiling."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from retrograd.ops._lifted import tracer


def is_compiling() -> bool:
    """Whether a function is being traced.

    Returns:
        True inside of a function that ``torch.compile`` traces.
    """
    return tracer() is not None


is_dynamo_compiling = is_exporting = is_compiling


def _as_it_is(fn: Any = None, *args: Any, **options: Any) -> Any:
    """A decorator that returns the function unchanged.

    Args:
        fn: the function.
        *args: ignored.
        **options: ignored.

    Returns:
        The function, or a decorator if there is none.
    """
    return fn if callable(fn) else lambda function: function


# A program computes the same as the function, so there is nothing to keep out of it.
disable = allow_in_graph = assume_constant_result = nested_compile_region = _as_it_is


def reset() -> None:
    """Does nothing: each compiled function keeps its own programs and frees them with itself."""


def cudagraph_mark_step_begin() -> None:
    """Does nothing: accepted for compatibility."""


def list_backends(exclude_tags: Any = ()) -> list[str]:
    """The names that ``torch.compile`` takes for ``backend``.

    Args:
        exclude_tags: ignored.

    Returns:
        The names. All mean the same.
    """
    return ["numpy", "inductor", "eager"]


@contextmanager
def set_stance(stance: str = "default", **options: Any) -> Iterator[None]:
    """Does nothing: accepted for compatibility.

    Args:
        stance: ignored.
        **options: ignored.
    """
    yield
