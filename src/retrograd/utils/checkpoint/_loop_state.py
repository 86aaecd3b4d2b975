"""States of ``checkpoint_loop``: flattening and storing them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, NamedTuple

from retrograd.autograd._history import edge
from retrograd.autograd._node import AccumulateGrad, Node
from retrograd.autograd._saved import Packed, pack_value
from retrograd.autograd._versions import Version, version_of
from retrograd.autograd._wrap import Plug, wrap
from retrograd.func._trees import Shape, describe, flatten, unflatten

Edge = tuple[Node, int | None]  # where a gradient goes: a node, and which of its outputs
AS_IS = -1  # of a part of a state: no step made it, or it has no gradient

# -- trees of tensors and other values -----------------------------------------------------------


def parts_as(tree: Any, shape: Shape, i: int) -> list[Any]:
    """The parts of the state that step ``i`` has made, which must have a given shape. Dicts may
    have their keys in another order."""
    parts, own = flatten(tree)
    if own != shape:
        parts, own = flatten(reordered(tree, shape))
    if own != shape:
        raise ValueError(
            "the body of checkpoint_loop must return a state like the one it is given: that was "
            f"{describe(shape)}, and step {i} returned {describe(own)} (* is a tensor or another "
            "value)"
        )
    return parts


def reordered(tree: Any, shape: Shape) -> Any:
    """A tree with its dicts in the order of a shape, as far as they have the same keys."""
    own = flatten(tree)[1]
    if own.kind is None or own.kind is not shape.kind or len(own.parts) != len(shape.parts):
        return tree
    if set(own.keys) != set(shape.keys):
        return tree
    members = [tree[key] for key in shape.keys] if own.keys else list(tree)
    inner = [
        flatten(reordered(member, part)) for member, part in zip(members, shape.parts, strict=True)
    ]
    leaves = [leaf for result, _ in inner for leaf in result]
    return unflatten(leaves, own._replace(keys=shape.keys, parts=tuple(s for _, s in inner)))


def check_part(part: Any) -> None:
    """That no tensors hide in a part of a state, which would not be found there."""
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        inner: Iterable[Any] = vars(part).values()
    elif isinstance(part, Mapping):
        inner = part.values()
    else:
        inner = part if isinstance(part, (Sequence, Set)) and not isinstance(part, str) else ()
    if any(isinstance(value, Plug.tensor) for value in inner):
        raise TypeError(
            "a state of checkpoint_loop may nest tuples, named tuples, lists and dicts, but has "
            f"tensors in an object of type {type(part).__name__}"
        )


def check_parts(made: list[Any], given: list[Any], i: int) -> None:
    """Check that the parts of a new state have the shapes and dtypes of the old one."""
    for j, (old, new) in enumerate(zip(given, made, strict=True)):
        if not alike(old, new):
            raise ValueError(
                f"the body of checkpoint_loop must return a state like the one it is given: part "
                f"{j} was {in_words(old)}, and step {i} returned {in_words(new)}"
            )


def alike(a: Any, b: Any) -> bool:
    if not isinstance(a, Plug.tensor) or not isinstance(b, Plug.tensor):
        return isinstance(a, Plug.tensor) == isinstance(b, Plug.tensor)
    same: bool = a._data.shape == b._data.shape and a._data.dtype == b._data.dtype
    return same


def in_words(part: Any) -> str:
    if not isinstance(part, Plug.tensor):
        return "no tensor"
    return f"a tensor of shape {tuple(part.shape)} and dtype {part.dtype}"


def bare(parts: list[Any], kinds: tuple[int, ...]) -> list[Any]:
    """A state without the graph of the step that made it. Parts that were one tensor still are."""
    result: list[Any] = []
    for j, (part, kind) in enumerate(zip(parts, kinds, strict=True)):
        if kind == AS_IS:
            result.append(part)
        else:
            result.append(part.detach() if kind == j else result[kind])
    return result


SAMPLED = 256


def fingerprint(parts: list[Any]) -> int:
    """A fingerprint of a state. It samples the elements of large tensors: a step that differs
    rarely changes only a few elements."""
    samples = []
    for part in parts:
        if isinstance(part, Plug.tensor):
            data = part._data
            if data.size > SAMPLED:
                data = data.ravel("K")[:: data.size // SAMPLED | 1]
            samples.append(data.tobytes())
    return hash(tuple(samples))


# -- what is kept ----------------------------------------------------------------------------


class Kept(NamedTuple):
    """A stored state, with the versions of its tensors and the state of the generator."""

    parts: list[Any]
    versions: list[tuple[Version, int] | None]
    random: Any


def versions_of(parts: list[Any]) -> list[tuple[Version, int] | None]:
    return [
        (version := version_of(part), version.count) if isinstance(part, Plug.tensor) else None
        for part in parts
    ]


def written(versions: list[tuple[Version, int] | None]) -> int | None:
    """The first part that was written since, or None."""
    for j, entry in enumerate(versions):
        if entry is not None and entry[0].count != entry[1]:
            return j
    return None


class PackedPart(NamedTuple):
    """A tensor as pack hooks left it, and its place in the graph."""

    packed: Packed
    place: tuple[Node | None, int | None]

    def tensor(self) -> Any:
        tensor = self.packed.tensor()
        return tensor if edge(tensor) == self.place else wrap(tensor._data, *self.place)


def packed(kept: Kept, hooks: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> Kept:
    """A state handed to hooks, as every saved value is. Leaves stay: others hold them anyway, and
    their node must find them."""
    parts = [
        PackedPart(pack_value(part, *hooks), edge(part))
        if isinstance(part, Plug.tensor) and not isinstance(edge(part)[0], AccumulateGrad)
        else part
        for part in kept.parts
    ]
    versions = [
        None if isinstance(part, PackedPart) else version
        for part, version in zip(parts, kept.versions, strict=True)
    ]
    return Kept(parts, versions, kept.random)


def unpacked(kept: Kept) -> Kept:
    """A state as it was handed to the hooks."""
    parts = [part.tensor() if isinstance(part, PackedPart) else part for part in kept.parts]
    return Kept(parts, kept.versions, kept.random)
