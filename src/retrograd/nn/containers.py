"""Containers of modules and of parameters."""

from __future__ import annotations

import operator
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from retrograd.nn.module import Module
from retrograd.nn.parameter import Parameter
from retrograd.tensor._tensor import Tensor


def _position(index: Any, count: int) -> int:
    """An index counted from the front."""
    position: int = operator.index(index)
    if not -count <= position < count:
        raise IndexError(f"index {position} is out of range")
    return position % count


class _Numbered(Module):
    """A container whose modules have the names "0", "1", ..."""

    def __getitem__(self, index: Any) -> Any:
        raise NotImplementedError

    def _name_at(self, index: Any) -> str:
        return str(_position(index, len(self)))

    def _renumber(self, modules: Iterable[Any]) -> None:
        self._modules.clear()
        self._modules.update((str(i), m) for i, m in enumerate(modules))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __delitem__(self, index: Any) -> None:
        modules = list(self)
        del modules[index]
        self._renumber(modules)

    def append(self, module: Any) -> Self:
        """Add a module at the end.

        Args:
            module: the module.

        Returns:
            The container.
        """
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: int) -> Any:
        """Remove a module.

        Args:
            key: its index.

        Returns:
            The module.
        """
        module = self[key]
        del self[key]
        return module


class Sequential(_Numbered):
    """A chain of modules: each is called with the result of the previous one.

    Args:
        args: the modules, or one ``OrderedDict`` of modules by name.

    Shape:
        As the first module takes it and the last returns it.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
        >>> model(torch.zeros(4, 2)).shape
        torch.Size([4, 3])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def forward(self, input: Any) -> Any:
        value = input
        for module in self._modules.values():
            value = module(value)
        return value

    def __getitem__(self, index: Any) -> Any:
        items = list(self._modules.items())
        if isinstance(index, slice):
            return type(self)(OrderedDict(items[index]))
        return items[_position(index, len(items))][1]

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, list(self._modules)[_position(index, len(self))], module)

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(
                f"add operator supports only objects of Sequential class, but {type(other)} is "
                "given."
            )
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        for module in other:
            self.append(module)
        return self

    def __mul__(self, times: int) -> Sequential:
        if not isinstance(times, int):
            raise TypeError(f"unsupported operand type(s) for *: {type(self)} and {type(times)}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for {type(self)}")
        return Sequential(*(m for _ in range(times) for m in self))

    __rmul__ = __mul__

    def insert(self, index: int, module: Any) -> Sequential:
        """Insert a module.

        Args:
            index: index of the module to insert it before.
            module: the module.

        Returns:
            The container.
        """
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self)
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"Index out of range: {index}")
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Any]) -> Sequential:
        """Add modules at the end.

        Args:
            sequential: the modules.

        Returns:
            The container.
        """
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_Numbered):
    """A list of modules, registered as submodules of the module that contains it.

    Args:
        modules: the modules.

    Example:
        >>> layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
        >>> len(layers), len(list(layers.parameters()))
        (3, 6)
    """

    def __init__(self, modules: Iterable[Any] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: int, module: Any) -> None:
        setattr(self, self._name_at(index), module)

    def __add__(self, other: Iterable[Any]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Any]) -> ModuleList:
        return self.extend(modules)

    def __contains__(self, module: Any) -> bool:
        return any(m is module for m in self)

    def extend(self, modules: Iterable[Any]) -> ModuleList:
        """Add modules at the end.

        Args:
            modules: the modules.

        Returns:
            The list.
        """
        if not isinstance(modules, Iterable):
            raise TypeError(
                "ModuleList.extend should be called with an iterable, but got "
                f"{type(modules).__name__}"
            )
        for module in modules:
            self.append(module)
        return self

    def insert(self, index: int, module: Any) -> None:
        """Insert a module.

        Args:
            index: index of the module to insert it before.
            module: the module.
        """
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def __repr__(self) -> str:
        """Consecutive modules with the same text are printed once, with their number."""
        texts = [repr(module) for module in self]
        if not texts:
            return f"{self._get_name()}()"
        starts = [i for i, text in enumerate(texts) if not i or text != texts[i - 1]]
        lines = []
        for start, stop in zip(starts, [*starts[1:], len(texts)], strict=True):
            text = texts[start].replace("\n", "\n  ")
            many = stop - start > 1
            lines.append(f"({start}-{stop - 1}): {stop - start} x {text}" if many
                         else f"({start}): {text}")  # fmt: skip
        body = "".join(f"  {line}\n" for line in lines)
        return f"{self._get_name()}(\n{body})"


class _Keyed(Module):
    """A container whose values have names."""

    def _names(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def __getitem__(self, key: str) -> Any:
        raise NotImplementedError

    def __setitem__(self, key: str, value: Any) -> None:
        raise NotImplementedError

    def __delitem__(self, key: str) -> None:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __contains__(self, key: str) -> bool:
        return key in self._names()

    def keys(self) -> Any:
        """The names."""
        return self._names().keys()

    def items(self) -> Any:
        """The pairs of a name and a value."""
        return [(key, self[key]) for key in self._names()]

    def values(self) -> Any:
        """The values."""
        return [self[key] for key in self._names()]

    def pop(self, key: str) -> Any:
        """Remove a value.

        Args:
            key: its name.

        Returns:
            The value.
        """
        value = self[key]
        del self[key]
        return value


class ModuleDict(_Keyed):
    """A dictionary of modules, registered as submodules of the module that contains it.

    Args:
        modules: a mapping, or pairs of a name and a module.

    Example:
        >>> choices = torch.nn.ModuleDict({"relu": torch.nn.ReLU(), "tanh": torch.nn.Tanh()})
        >>> choices["relu"](torch.tensor(-1.0))
        tensor(0.)
    """

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def _names(self) -> Mapping[str, Any]:
        return self._modules

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Any) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def clear(self) -> None:
        """Remove all modules."""
        self._modules.clear()

    def update(self, modules: Any) -> None:
        """Add modules.

        Args:
            modules: a mapping, or pairs of a name and a module.
        """
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _pairs(owner: str, items: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(items, Iterable):
        raise TypeError(
            f"{owner}.update should be called with an iterable of key/value pairs, but got "
            f"{type(items).__name__}"
        )
    if isinstance(items, (Mapping, _Keyed)):
        return items.items()
    return [(key, value) for key, value in items]


class ParameterList(Module):
    """A list of parameters. Tensors are converted to parameters; other values are kept as they are.

    Args:
        values: the parameters.

    Example:
        >>> weights = torch.nn.ParameterList([torch.zeros(2), torch.ones(2)])
        >>> [name for name, _ in weights.named_parameters()]
        ['0', '1']
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(self[i] for i in range(*index.indices(len(self))))
        return getattr(self, str(_position(index, len(self))))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(_position(index, len(self))), _as_parameter(value))

    def __iter__(self) -> Iterator[Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def append(self, value: Any) -> ParameterList:
        """Add a parameter at the end.

        Args:
            value: the parameter, or a tensor to convert.

        Returns:
            The list.
        """
        self._size += 1
        self[-1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        """Add parameters at the end.

        Args:
            values: the parameters, or tensors to convert.

        Returns:
            The list.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(
                "ParameterList.extend should be called with an iterable, but got "
                f"{type(values).__name__}"
            )
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_described(p, str(p.dtype))}" for i, p in enumerate(self))


class ParameterDict(_Keyed):
    """A dictionary of parameters. Tensors are converted to parameters; other values are kept.

    Args:
        parameters: a mapping, or pairs of a name and a parameter.

    Example:
        >>> weights = torch.nn.ParameterDict({"left": torch.zeros(2), "right": torch.ones(2)})
        >>> [name for name, _ in weights.named_parameters()]
        ['left', 'right']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[key] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, key)

    def _names(self) -> Mapping[str, Any]:
        return self._keys

    def update(self, parameters: Any) -> None:
        """Add parameters.

        Args:
            parameters: a mapping, or pairs of a name and a parameter. Those of a mapping are added
                in alphabetical order, unless it is an ``OrderedDict`` or a ``ParameterDict``.
        """
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs, key=lambda pair: pair[0])
        for key, value in pairs:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_described(p, p.type())}" for key, p in self.items())


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) \
        else value  # fmt: skip


def _described(value: Any, elements: str) -> str:
    kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{kind} containing: [{elements} of size {'x'.join(map(str, value.shape))}]"


__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]
