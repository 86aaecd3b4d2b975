"""What an operation declares as ``batch``: how ``vmap`` takes a whole batch through it, as data.

Most operations declare nothing: their family, or the names of their options, say enough (see
``_batching_rules.inferred``). The others use one of these words, or one of the classes below:

- ``"pointwise"``: dimensions are aligned from the right, behind that of the batch.
- ``"leading"``: the operation takes any number of dimensions in front.
- ``"fold"``: the first dimension of all operands is a batch already, which grows.
- ``"dims"``: options that speak of dimensions or sizes are counted behind the batch.
- ``"reshape"``: the result has the elements of the operand, in the option ``size``.
- ``"product"``: a product of matrices and vectors.
- ``"overwrite"``: the result has the shape of the first operand, whatever is written over it.
- ``"random overwrite"``: the same with random numbers, whatever the first operand was.
- ``"definition"``: a composite as its definition, on a batch. It is recorded as one operation, with
  the rules of the composite. (Without the word, each operation of the definition is recorded.)
- ``"each"``: entry by entry, with a warning.

What no declaration describes has a function of its own, and says why: ``Own``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd._records import Record


class Dims(Record):
    """As the word ``"dims"``, with more to say."""

    # Whether an entry without dimensions is treated as a vector of one element.
    scalars: bool = True
    # An option that is an order of all dimensions, in which that of the batch stays first.
    order: str | None = None
    # An option with an item for each dimension of the result, with which the operand is aligned.
    aligned: str | None = None
    # Options that are not dimensions, although options of these names are elsewhere.
    unchanged: tuple[str, ...] = ()
    # Inputs that must be the same for all entries. If they are not, the definition runs.
    shared: tuple[str, ...] = ()
    # The value of ``dim`` for all of a row, where it is None for all elements of an entry.
    row: int | tuple[int, ...] = (1,)


class Leading(Record):
    """As the word ``"leading"``, with more to say."""

    # How many dimensions each operand has of its own, the last ones. Those in front broadcast.
    own: tuple[int, ...] | None = None
    # Which operand is the B of ``A @ X = B``. If the others are the same for all entries, so are
    # the right sides of all entries: the columns of one matrix.
    right_sides: int | None = None
    # Outputs that are empty, of shape (0,) whatever the operands are, if they were not asked for.
    optional: tuple[str, ...] = ()


class AllElements(Record):
    """A reduction of all elements: that of rows, by an operation with options dim and keepdim."""

    by: str
    row: int | tuple[int, ...] = (1,)


class Refused(Record):
    """The shape of the result depends on values, so there is no batch of results."""

    name: str  # as PyTorch calls the operation
    reason: str = "each entry may have another number of results."


class Own(Record):
    """A function of its own: see ``_batching.Rule``."""

    function: Callable[..., Any]
    reason: str  # why no other declaration will do


def own(reason: str) -> Callable[[Callable[..., Any]], Own]:
    """A decorator that declares a batching rule, with the reason why one is needed."""
    return lambda function: Own(function, reason)


Batching = str | Dims | Leading | AllElements | Refused | Own
