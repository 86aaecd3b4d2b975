"""Trees of Python values as JSON, with the tensors left out and named.

Strings, numbers, None, lists, and dicts with strings as keys are what they are in JSON. All else
is an object with one key that begins with ``$``: ``{"$tuple": [1, 2]}``, ``{"$tensor": "weight"}``.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Any

from retrograd.arrays import RAW_TYPES, dtypes
from retrograd.files._format import METADATA
from retrograd.files._sharing import dtype_named
from retrograd.ops._lifted import Lifted, device_value
from retrograd.tensor._tensor import Size, Tensor, device

DEEPEST = 100
_EXACT_IN_JSON = 1 << 53  # integers up to here are the same in every program that reads JSON
_SEQUENCES: dict[type, str] = {tuple: "$tuple", Size: "$size", set: "$set",
                               frozenset: "$frozenset"}  # fmt: skip
_MAPPINGS: dict[type, str] = {dict: "$dict", OrderedDict: "$OrderedDict", Counter: "$Counter"}


# -- to JSON -----------------------------------------------------------------------------------


class Encoder:
    """Makes the JSON of a tree, and collects its tensors by names that tell their places."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._names: dict[int, str] = {}

    def encoded(self, value: Any, path: tuple[Any, ...] = ()) -> Any:
        """JSON for a value. TypeError gives the path of an object that cannot be saved."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            return value if abs(value) <= _EXACT_IN_JSON else {"$int": hex(value)}
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if isinstance(value, Tensor):
            return {"$tensor": self._name(value, path)}
        if len(path) > DEEPEST:
            raise ValueError(
                f"cannot save {place_of(path[:3])}...: it contains itself, or is nested more than "
                f"{DEEPEST} deep"
            )
        if kind is list:
            return [self.encoded(item, (*path, i)) for i, item in enumerate(value)]
        if kind in _SEQUENCES:
            one = self._key if kind in (set, frozenset) else self.encoded
            return {_SEQUENCES[kind]: [one(x, (*path, i)) for i, x in enumerate(value)]}
        if kind in _MAPPINGS or is_state_dict(value):
            return self._mapping(value, path)
        if kind is complex:
            return {"$complex": [self.encoded(value.real), self.encoded(value.imag)]}
        if kind is bytes:
            return {"$bytes": base64.b64encode(value).decode()}
        if isinstance(value, dtypes.dtype):
            return {"$dtype": value.name}
        if kind is device:
            return {"$device": str(value)}
        if issubclass(kind, RAW_TYPES[1]):  # a NumPy number is saved as Python's
            plain = value.item()
            if type(plain) in (bool, int, float, complex, str, bytes):
                return self.encoded(plain, path)
        raise TypeError(f"cannot save {place_of(path)}, {reason_against(value)}")

    def _mapping(self, value: Any, path: tuple[Any, ...]) -> Any:
        names = all(type(key) is str and not key.startswith("$") for key in value)
        if names:
            items: Any = {key: self.encoded(x, (*path, key)) for key, x in value.items()}
        else:
            items = [[self._key(k, (*path, k)), self.encoded(x, (*path, k))]
                     for k, x in value.items()]  # fmt: skip
        if type(value) is dict:
            return items if names else {"$dict": items}
        if type(value) is Counter:
            return {"$Counter": items}
        attributes = vars(value)
        if set(attributes) - {"_metadata"}:
            raise TypeError(f"cannot save the attributes of the OrderedDict {place_of(path)}")
        result = {"$OrderedDict": items}
        if attributes:
            result["_metadata"] = self.encoded(value._metadata, (*path, "_metadata"))
        return result

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        """JSON for a key or an element of a set. Tensors are told apart by being the same object,
        which means nothing in a file."""
        apart = Encoder()
        encoded = apart.encoded(key, path)
        if apart.tensors:
            raise TypeError(
                f"cannot save {place_of(path[:-1])}: a tensor is a key or in a set there"
            )
        return encoded

    def name_of(self, tensor: Tensor) -> str:
        """The name that a tensor of the tree has in the file."""
        return self._names[id(tensor)]

    def _name(self, tensor: Tensor, path: tuple[Any, ...]) -> str:
        """The name of a tensor in the file: its path, if that is free."""
        if id(tensor) in self._names:
            return self._names[id(tensor)]
        wanted = ".".join(str(key) for key in path) if path else "tensor"
        wanted = wanted.encode("utf-8", "backslashreplace").decode()
        name, number = wanted, 1
        while name in self.tensors or not is_name(name):
            number += 1
            name = f"{wanted} {number}"
        self.tensors[name] = tensor
        self._names[id(tensor)] = name
        return name


def is_name(key: str) -> bool:
    """Whether a tensor in a file can be called this."""
    return key != METADATA and key.encode("utf-8", "replace").decode() == key


def is_state_dict(value: Any) -> bool:
    """Whether something is the state of a module, which need not be a plain OrderedDict."""
    return isinstance(value, OrderedDict) and hasattr(value, "_metadata")


def place_of(path: tuple[Any, ...]) -> str:
    """A path in a tree, as one writes it in Python."""
    return "obj" + "".join(f"[{str(key)[:60]!r}]" if type(key) is str else f"[{str(key)[:60]}]"
                           for key in path)  # fmt: skip


def reason_against(value: Any) -> str:
    """Why an object cannot be saved, and what to save instead."""
    kind = type(value).__name__
    if hasattr(value, "state_dict"):
        what = f"a {kind}: save its state_dict(), and load that into a new {kind}"
    elif isinstance(value, tuple):
        what = f"a {kind}: save tuple(...) of it, or, if it has names, _asdict()"
    elif isinstance(value, RAW_TYPES[0]):
        what = "a NumPy array: save torch.from_numpy(...) of it"
    elif hasattr(value, "get_state"):
        what = f"a {kind}: save its get_state()"
    elif isinstance(value, (int, float, str, list, dict, set)):
        base = next(t for t in (int, float, str, list, dict, set) if isinstance(value, t))
        what = f"a {kind}: save {base.__name__}(...) of it"
    else:
        what = f"a {kind}: take it out, or save in its place what it can be made of again"
    return (
        f"{what}. Files hold tensors, numbers, strings, bytes, None, dtypes, and lists, tuples, "
        "sets and dicts of them; no objects, since reading those could run code."
    )


def flags_of(name: str, tensor: Tensor) -> dict[str, Any]:
    """What a file must say of a tensor besides its elements."""
    if tensor.is_meta:
        raise TypeError(f"cannot save tensor {name!r}: it is on the device 'meta' and has no data.")
    if isinstance(tensor._data, Lifted) and device_value(tensor) is not tensor._data:
        raise TypeError(
            f"cannot save tensor {name!r}: it is a value inside of a transform, such as vmap. "
            "Return it from the function, and save what comes out."
        )
    about: dict[str, Any] = {}
    if type(tensor) is not Tensor:
        from retrograd.nn.parameter import Buffer, Parameter

        if type(tensor) is Parameter:
            about["parameter"] = True
        elif type(tensor) is not Buffer:
            raise TypeError(
                f"cannot save tensor {name!r} of type {type(tensor).__name__}: reading that could "
                "run code. Save a plain tensor, as detach() returns it."
            )
    if tensor.requires_grad:
        about["requires_grad"] = True
    if tensor.dtype is dtypes.complex128:
        about["complex"] = True
    return about


# -- from JSON ---------------------------------------------------------------------------------


class Decoder:
    """Rebuilds the tree. ``tensor`` is called with the name of each tensor. ValueError describes
    what is wrong with the JSON."""

    def __init__(self, tensor: Callable[[str], Tensor]) -> None:
        self._tensor = tensor

    def decoded(self, value: Any, depth: int = 0) -> Any:
        """The value that JSON represents."""
        if depth > DEEPEST + 2:
            raise ValueError("it is nested too deeply")
        if isinstance(value, list):
            return [self.decoded(item, depth + 1) for item in value]
        if not isinstance(value, dict):
            return value
        tag = next((key for key in value if key.startswith("$")), None)
        if tag is None:
            return {key: self.decoded(item, depth + 1) for key, item in value.items()}
        if len(value) > 1 and set(value) != {"$OrderedDict", "_metadata"}:
            raise ValueError(f"{tag[:40]!r} is not alone")
        if tag in _BY_TAG and isinstance(value[tag], list):
            return self._sequence(tag, [self.decoded(x, depth + 1) for x in value[tag]])
        if tag in _MAPPINGS.values():
            return self._mapping(tag, value, depth + 1)
        if tag == "$tensor" and isinstance(value[tag], str):
            return self._tensor(value[tag])
        if tag in _READERS:
            return _READERS[tag](value[tag])
        raise ValueError(f"there is no {tag[:40]!r}, or its contents have the wrong type")

    def _sequence(self, tag: str, items: list[Any]) -> Any:
        if tag == "$size" and not all(type(x) is int for x in items):
            raise ValueError("a size has integers only")
        made = _BY_TAG[tag](_hashable(items) if "set" in tag else items)
        if len(made) < len(items):
            raise ValueError("a set has an element twice")
        return made

    def _mapping(self, tag: str, value: dict[str, Any], depth: int) -> Any:
        content = value[tag]
        if isinstance(content, dict):
            pairs = [(key, self.decoded(item, depth)) for key, item in content.items()]
        elif isinstance(content, list) and all(type(x) is list and len(x) == 2 for x in content):
            keys = _hashable([self.decoded(key, depth) for key, _ in content])
            items = [self.decoded(item, depth) for _, item in content]
            pairs = list(zip(keys, items, strict=True))
        else:
            raise ValueError(f"{tag!r} needs pairs of keys and values")
        made: Any = OrderedDict(pairs) if tag == "$OrderedDict" else dict(pairs)
        if len(made) < len(pairs):
            raise ValueError("a dict has a key twice")
        if tag == "$Counter":
            return Counter(made)
        if "_metadata" in value:
            made._metadata = self.decoded(value["_metadata"], depth)
        return made


_BY_TAG: dict[str, Any] = {tag: kind for kind, tag in _SEQUENCES.items()}


def _hashable(items: list[Any]) -> list[Any]:
    for item in items:
        try:
            hash(item)
        except TypeError:
            raise ValueError(f"a {type(item).__name__} is a key or in a set") from None
        if isinstance(item, Tensor):
            raise ValueError("a tensor is a key or in a set")
    return items


def _read_float(text: Any) -> float:
    if type(text) is float or type(text) is int:
        return float(text)
    if text not in ("inf", "-inf", "nan"):
        raise ValueError("a float is inf, -inf, nan or a number")
    return float(text)


def _read_complex(parts: Any) -> complex:
    if not isinstance(parts, list) or len(parts) != 2:
        raise ValueError("a complex number has two parts")
    real, imag = (_read_float(p["$float"] if isinstance(p, dict) and "$float" in p else p)
                  for p in parts)  # fmt: skip
    return complex(real, imag)


def _read_device(text: Any) -> device:
    if not re.fullmatch(r"cpu(:\d{1,4})?", _string(text)):
        raise ValueError("a device is the CPU")
    return device(text)


def _string(text: Any) -> str:
    if not isinstance(text, str):
        raise ValueError("a string is missing")
    return text


_READERS: dict[str, Callable[[Any], Any]] = {
    "$int": lambda text: int(_string(text), 16), "$float": _read_float, "$complex": _read_complex,
    "$bytes": lambda text: base64.b64decode(_string(text), validate=True),
    "$dtype": dtype_named, "$device": _read_device,
}  # fmt: skip
