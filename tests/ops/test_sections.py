"""Parts of docstrings that are written once: ``complete`` of ops/_sections.py."""

from __future__ import annotations

from typing import Any

from retrograd.ops._sections import complete

MEANINGS = {"input": "the input.", "a, b": "ignored.", "keepdim": "keep it.", "absent": "never."}


def test_missing_arguments_are_documented_in_the_order_of_the_signature() -> None:
    def function(input: Any, dim: Any, *others: Any, a: Any, keepdim: Any, b: Any) -> None:
        """Summary.

        Args:
            *others: more of
                them.
            dim: which.

        Returns:
            None.
        """
        input_or_absent = absent = None  # local variables are no arguments
        del input_or_absent, absent

    assert complete(function, MEANINGS) is function
    assert function.__doc__ == (
        "Summary.\n\nArgs:\n    input: the input.\n    dim: which.\n    *others: more of\n"
        "        them.\n    a, b: ignored.\n    keepdim: keep it.\n\nReturns:\n    None."
    )
    before = function.__doc__
    assert complete(function, MEANINGS).__doc__ == before


def test_a_section_is_made_if_there_is_none() -> None:
    class Layer:
        """Summary.

        Example:
            >>> Layer
        """

        def __init__(self, b: Any, keepdim: Any) -> None: ...

    def method(self: Any) -> None:
        """Summary."""

    assert complete(Layer, MEANINGS).__doc__ == (
        "Summary.\n\nArgs:\n    b: ignored.\n    keepdim: keep it.\n\nExample:\n    >>> Layer"
    )
    assert complete(method, MEANINGS).__doc__ == "Summary.\n\nArgs:\n    input: the input."


def test_a_docstring_that_says_more_stays_as_it_is() -> None:
    def function(input: Any, a: Any) -> None:
        """Summary.

        Args:
            input: what is special about this one.
            a: not ignored.
        """

    def undocumented(input: Any) -> None: ...

    before = function.__doc__
    assert "not ignored" in (before or "")
    assert "a, b" not in (complete(function, MEANINGS).__doc__ or "")
    assert complete(undocumented, MEANINGS).__doc__ is None
