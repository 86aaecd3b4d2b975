"""The layers of a model: their names, how they are called, and layers built only where needed."""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import retrograd as torch
from retrograd import nn

Named = tuple[str, Any]  # the name of a layer in the whole model, and the layer

_SUMMED = 4096  # elements of a tensor that are taken into a checksum


class Lazy:
    """A layer that is created only on the ranks that run it, for models too large for one rank.

    Its random numbers come from a separate stream, so that its weights do not depend on the rank.

    Args:
        build: function or class that creates the layer.
        args, kwargs: its arguments.

    Example:
        >>> from retrograd import pipeline
        >>> linear = torch.nn.Linear
        >>> layers = [pipeline.Lazy(linear, 2, 4), torch.relu, pipeline.Lazy(linear, 4, 1)]
        >>> model = pipeline.Pipeline(layers, stages=1, microbatches=1)
        >>> list(model.state_dict())
        ['0.weight', '0.bias', '2.weight', '2.bias']
        >>> torch.distributed.destroy_process_group()
    """

    def __init__(self, build: Callable[..., Any], /, *args: Any, **kwargs: Any) -> None:
        self.build, self.args, self.kwargs = build, args, kwargs

    def __repr__(self) -> str:
        return f"Lazy({getattr(self.build, '__name__', self.build)})"


def mixed(*numbers: int) -> int:
    """A seed that depends on each of the numbers."""
    words = struct.pack(f"<{len(numbers)}Q", *(n % (1 << 64) for n in numbers))
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little")


def built(layer: Any, number: int, seed: int) -> Any:
    """The layer itself; a lazy one is made now."""
    if not isinstance(layer, Lazy):
        return layer
    with torch.random.fork_rng():
        torch.manual_seed(mixed(seed, number))
        return layer.build(*layer.args, **layer.kwargs)


def named_layers(given: Any) -> list[Named]:
    """The layers of a model with their names, as they are in its ``state_dict``."""
    if isinstance(given, (nn.Sequential, nn.ModuleList)):
        layers = list(given._modules.items())
    elif isinstance(given, nn.Module):
        raise TypeError(
            f"a {type(given).__name__} cannot be cut into stages: it does not say which of its "
            "modules follow each other. Give an nn.Sequential, or a list of layers, such as "
            f"{_example_of_a_list(given)}"
        )
    elif isinstance(given, (str, dict)) or not isinstance(given, Iterable):
        raise TypeError(
            f"layers must be an nn.Sequential or a list of layers, not a {type(given).__name__}"
        )
    else:
        layers = [(str(number), layer) for number, layer in enumerate(given)]
    if not layers:
        raise ValueError("a pipeline needs a layer or more")
    for name, layer in layers:
        if not callable(layer) and not isinstance(layer, Lazy):
            raise TypeError(f"layer {name} is a {type(layer).__name__}, which cannot be called")
    return layers


def _example_of_a_list(module: nn.Module) -> str:
    """An example of a list of layers of a module, for an error message."""
    containers = (nn.Sequential, nn.ModuleList)
    parts = [
        f"*model.{name}" if isinstance(child, containers) else f"model.{name}"
        for name, child in module.named_children()
    ]
    return f"[{', '.join(parts)}]" if parts else "[nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1)]"


def parameters_of(layer: Any) -> dict[str, Any]:
    """The parameters of a layer by name, under each of its names if it has several."""
    if isinstance(layer, Lazy):
        raise TypeError(
            'partition="parameters" counts the parameters of layers that exist; of lazy ones it '
            'cannot. Use "uniform" or "profile", or give boundaries'
        )
    if not isinstance(layer, nn.Module):
        return {}
    return dict(layer.named_parameters(remove_duplicate=False))


def call(layer: Callable[..., Any], value: Any, skipped: Iterable[Any] = ()) -> Any:
    """Call a layer with the result of the previous layer and its skip connections."""
    return layer(value, *skipped)


def sums_of(layers: Iterable[Named]) -> list[int]:
    """A checksum for each layer, of the beginnings of its parameters and buffers. It tells whether
    two ranks have created the same model."""
    return [
        checksum(layer.state_dict().values()) if isinstance(layer, nn.Module) else 0
        for _, layer in layers
    ]


def checksum(tensors: Iterable[Any], start: int = 0) -> int:
    """Of the beginnings of tensors, their shapes and dtypes."""
    for x in tensors:
        start = zlib.crc32(str((tuple(x.shape), x.dtype)).encode(), start)
        start = zlib.crc32(x.detach().reshape(-1)[:_SUMMED].contiguous()._data.tobytes(), start)
    return start


# -- shared parameters -------------------------------------------------------------------------


def ties_of(layers: Sequence[Named], given: Iterable[Sequence[str]]) -> list[tuple[str, ...]]:
    """Names of parameters that are the same tensor: those that layers share, and those that the
    user declares. The first name of each is the one it is stored under."""
    by_identity: dict[int, list[str]] = {}
    for name, layer in layers:
        if isinstance(layer, nn.Module):
            for path, parameter in parameters_of(layer).items():
                by_identity.setdefault(id(parameter), []).append(f"{name}.{path}")
    groups = [set(names) for names in by_identity.values() if len(names) > 1]
    order = {name: number for number, (name, _) in enumerate(layers)}
    for names in given:
        if isinstance(names, str) or len(names) < 2:
            raise ValueError(
                "tied is a list of tuples of names of parameters, such as "
                f'[("0.weight", "5.weight")], not {given!r}'
            )
        for name in names:
            if layer_of(name, order) is None:
                raise ValueError(f"tied: there is no layer for the parameter {name!r}")
        together = set(names).union(*(group for group in groups if group & set(names)))
        groups = [group for group in groups if not group & together] + [together]

    def place(name: str) -> tuple[int, str]:
        return order[layer_of(name, order) or ""], name

    return sorted((tuple(sorted(group, key=place)) for group in groups), key=lambda g: place(g[0]))


def layer_of(name: str, layers: Iterable[str]) -> str | None:
    """The layer that a parameter belongs to by its name."""
    layer, dot, _ = name.partition(".")
    return layer if dot and layer in layers else None
