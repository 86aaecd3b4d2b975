"""Checkpoints of a training run: everything needed to resume it exactly."""

from __future__ import annotations

import copy
import os
import random as python_random
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from retrograd.arrays import RAW_TYPES
from retrograd.arrays._generator import Generator, default_generator
from retrograd.autograd._wrap import wrap
from retrograd.files._saving import FileFormatError, load, save
from retrograd.tensor import _rng as _rng  # gives the default generator its states as tensors
from retrograd.tensor._tensor import Tensor

_RESERVED = ("random", "strict")
_KEYS = {"checkpoint", "parts", "values", "random"}


def save_checkpoint(path: str | os.PathLike[str], /, **contents: Any) -> None:
    """Save the state of a training run in one file, which is replaced atomically.

    Anything with a ``state_dict`` (models, optimizers, schedulers, data loaders) and random
    generators of this library, Python and NumPy are saved so that ``load_checkpoint`` restores
    them. Everything else is saved as a value. The states of the default random generators of all
    three are always saved. Gradients are not saved, so save after an optimizer step.

    Args:
        path: the file.
        contents: what to save, by name.

    Example:
        >>> import retrograd as torch, tempfile, os
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.Adam(model.parameters())
        >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
        >>> torch.files.save_checkpoint(path, model=model, optimizer=optimizer, step=10)
        >>> torch.files.load_checkpoint(path, model=model, optimizer=optimizer)
        {'step': 10}
    """
    for name in _RESERVED:
        if name in contents:
            raise TypeError(f"{name!r} cannot be the name of something in a checkpoint")
    stateful = {name: state for name, value in contents.items() if (state := _state_of(value))}
    tree = {
        "checkpoint": 1,
        "parts": {name: state.get() for name, state in stateful.items()},
        "values": {name: value for name, value in contents.items() if name not in stateful},
        "random": {name: state.get() for name, state in _random_states().items()},
    }
    save(tree, path, format="safetensors")


def load_checkpoint(path: str | os.PathLike[str], /, *, strict: bool = True, random: bool = True,
                    **parts: Any) -> dict[str, Any]:  # fmt: skip
    """Restore the state that ``save_checkpoint`` saved.

    If anything does not fit, one error lists everything that does not, and nothing is changed.

    Args:
        path: the file.
        strict: require that all parts of the checkpoint are given.
        random: restore the default random generators.
        parts: the same parts as were saved, by name.

    Returns:
        The values that were saved.

    Example:
        >>> import retrograd as torch, tempfile, os
        >>> path = os.path.join(tempfile.mkdtemp(), "run.safetensors")
        >>> torch.files.save_checkpoint(path, model=torch.nn.Linear(2, 1), epoch=3)
        >>> new = torch.nn.Linear(2, 1)
        >>> torch.files.load_checkpoint(path, model=new)["epoch"]
        3
    """
    tree = load(path)
    if not isinstance(tree, dict) or set(tree) != _KEYS or not _well_formed(tree):
        raise FileFormatError(
            f"{os.fspath(path)} is not a checkpoint of a training run. Read it with torch.load."
        )
    problems = _differences(tree["parts"], parts, strict)
    states: dict[str, State] = {}
    for name, part in parts.items():
        state = _state_of(part)
        if state is None:
            problems.append(f"{name}: a {type(part).__name__} has no state that can be put back")
        elif name in tree["parts"]:
            misfit = _misfit(part, tree["parts"][name])
            if misfit is None:
                states[name] = state
            else:
                problems.append(f"{name}: {misfit}")
    saved = {name: tree["parts"][name] for name in states}
    if random:
        own = _random_states()
        states |= {f"{name}'s random numbers": own[name] for name in tree["random"] if name in own}
        saved |= {f"{name}'s random numbers": state for name, state in tree["random"].items()}
    problems += _put_back(states, saved, only_try=bool(problems))
    if problems:
        listed = "\n".join(f"  {problem}" for problem in problems)
        raise RuntimeError(f"{os.fspath(path)} does not fit. Nothing was changed.\n{listed}")
    values: dict[str, Any] = tree["values"]
    return values


def _well_formed(tree: dict[str, Any]) -> bool:
    return tree["checkpoint"] == 1 and all(
        isinstance(tree[key], dict) for key in ("parts", "values", "random")
    )


def _differences(saved: dict[str, Any], given: dict[str, Any], strict: bool) -> list[str]:
    """Parts that only one side has."""
    unknown = [
        f"{name}: it is not in the file, which has {', '.join(saved) or 'no parts'}"
        for name in given
        if name not in saved
    ]
    left_out = [
        f"{name}: it is in the file but was not given; give it, or strict=False to leave it out"
        for name in saved
        if name not in given and strict
    ]
    return unknown + left_out


def _put_back(states: dict[str, State], saved: dict[str, Any], only_try: bool) -> list[str]:
    """Give every part its state, or, if one refuses, none: what those say that do. ``only_try`` is
    for what they say alone."""
    before = {name: copy.deepcopy(state.get()) for name, state in states.items()}
    problems = []
    done = False
    try:
        for name, state in states.items():
            try:
                state.set(saved[name])
            except Exception as error:
                problems.append(f"{name}: {error}")
        done = not problems and not only_try
    finally:
        if not done:
            for name, state in states.items():
                state.set(before[name])
    return problems


# -- what has a state --------------------------------------------------------------------------


class State(NamedTuple):
    """How to take the state of something, and how to put it back."""

    get: Callable[[], Any]
    set: Callable[[Any], Any]


def _state_of(value: Any) -> State | None:
    """How to deal with the state of an object or module; None if it has none."""
    if hasattr(value, "state_dict") and hasattr(value, "load_state_dict"):
        return State(value.state_dict, value.load_state_dict)
    if isinstance(value, Generator):
        return State(value.get_state, value.set_state)
    if isinstance(value, python_random.Random) or value is python_random:
        return State(value.getstate, value.setstate)
    if hasattr(value, "RandomState") or type(value).__name__ == "RandomState":
        # One of NumPy's old generators, or its module, which has one for everybody.
        get = lambda: _plain(value.get_state(legacy=False))
        return State(get, lambda state: value.set_state(_numpy(state)))
    if hasattr(value, "bit_generator"):  # a Generator of NumPy
        bits = value.bit_generator
        return State(lambda: _plain(bits.state), lambda s: setattr(bits, "state", _numpy(s)))
    return None


def _random_states() -> dict[str, State]:
    """The generators that everybody draws from."""
    result = {"torch": _state_of(default_generator), "python": _state_of(python_random)}
    if "numpy.random" in sys.modules:
        result["numpy"] = _state_of(sys.modules["numpy.random"])
    return {name: state for name, state in result.items() if state is not None}


def _plain(state: Any) -> Any:
    """The state of a generator of NumPy, with tensors in the place of arrays."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return wrap(state.copy()) if issubclass(type(state), RAW_TYPES[0]) else state


def _numpy(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _numpy(value) for key, value in state.items()}
    return state.numpy() if isinstance(state, Tensor) else state


# -- what a part would take without complaint, though it is wrong -------------------------------

# Options of how an optimizer computes, or that came later: a state may have them or not.
_NO_MATTER = {"params", "param_names", "initial_lr", "capturable", "differentiable", "foreach",
              "fused", "maximize"}  # fmt: skip


def _misfit(part: Any, saved: Any) -> str | None:
    """What is wrong with the state of an optimizer or a scheduler if it is of another kind."""
    if hasattr(part, "param_groups"):
        groups = saved.get("param_groups") if isinstance(saved, dict) else None
        if not isinstance(groups, list) or not all(isinstance(g, dict) for g in groups):
            return "the state in the file is not of an optimizer"
        own, other = (set().union(*g) - _NO_MATTER for g in (part.param_groups, groups))
    elif hasattr(part, "optimizer") and isinstance(saved, dict):
        own, other = ({key for key in state if not str(key).startswith("_")}
                      for state in (part.state_dict(), saved))  # fmt: skip
    else:
        return None
    if own == other:
        return None
    differ = ", ".join(sorted(map(str, own ^ other)))
    kind = type(part).__name__
    return f"the state in the file is not of a {kind}: only one of them has {differ}"


__all__ = ["load_checkpoint", "save_checkpoint"]
