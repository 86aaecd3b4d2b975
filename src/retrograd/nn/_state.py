"""The state of a module as a dictionary: ``state_dict`` and ``load_state_dict``."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from retrograd.autograd._hooks import RemovableHandle, add_hook
from retrograd.autograd.grad_mode import no_grad
from retrograd.nn._tree import Tree
from retrograd.nn.parameter import Parameter
from retrograd.tensor._tensor import Tensor

EXTRA_STATE = "_extra_state"
COPIES = "_copies"  # in the metadata of a module while it is loaded: the copies to make


class _PreHook:
    """A hook that may be given its module as the first argument. A copy of the module has one that
    is given the copy."""

    def __init__(self, hook: Callable[..., None], module: Any) -> None:
        self.__setstate__((hook, module))

    def __setstate__(self, state: tuple[Callable[..., None], Any]) -> None:
        self.hook, module = state
        self.module = None if module is None else weakref.ref(module)

    def __getstate__(self) -> tuple[Callable[..., None], Any]:
        return self.hook, None if self.module is None else self.module()

    def __call__(self, *args: Any) -> None:
        self.hook(*args) if self.module is None else self.hook(self.module(), *args)


class StateDict(OrderedDict[str, Any]):
    """Tensors by path, with the version of each module's format in ``_metadata``."""

    _metadata: OrderedDict[str, dict[str, Any]]


class IncompatibleKeys(NamedTuple):
    """The names that did not match when a state was loaded."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return (
            f"_IncompatibleKeys(missing_keys={self.missing_keys}, "
            f"unexpected_keys={self.unexpected_keys})"
        )


class Stateful(Tree):
    """A module whose state can be saved and loaded."""

    _version: int = 1

    def __init__(self) -> None:
        super().__init__()
        for name in ("_state_dict_hooks", "_state_dict_pre_hooks", "_load_state_dict_pre_hooks",
                     "_load_state_dict_post_hooks"):  # fmt: skip
            self.__dict__[name] = OrderedDict()

    # -- taking it out -------------------------------------------------------------------------

    def state_dict(
        self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by path. The tensors share memory with the module.

        Args:
            destination: dictionary to add to.
            prefix: put in front of the paths.
            keep_vars: return the parameters themselves, not detached.

        Returns:
            The dictionary.

        Example:
            >>> list(torch.nn.Linear(2, 1).state_dict())
            ['weight', 'bias']
        """
        if destination is None:
            destination = StateDict()
            destination._metadata = OrderedDict()
        about = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = about
        for hook in self._state_dict_pre_hooks.values():
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(
                    destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars
                )
        for hook in self._state_dict_hooks.values():
            result = hook(self, destination, prefix, about)
            if result is not None:
                raise RuntimeError("state_dict post-hook must return None")
        return destination

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Add the parameters and buffers of this module, without its children, to ``destination``.
        """
        for name, tensor in self._local_state().items():
            destination[prefix + name] = tensor if keep_vars else tensor.detach()
        if type(self).get_extra_state is not Stateful.get_extra_state:
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _local_state(self) -> dict[str, Tensor]:
        omitted = self._non_persistent_buffers_set
        saved = {n: b for n, b in self._buffers.items() if n not in omitted}
        return {n: x for n, x in (*self._parameters.items(), *saved.items()) if x is not None}

    def get_extra_state(self) -> Any:
        """Further state to save. Override it together with ``set_extra_state``."""
        raise RuntimeError("get_extra_state() is called only where a module overrides it")

    def set_extra_state(self, state: Any) -> None:
        """Load the state that ``get_extra_state`` returned."""
        raise RuntimeError(
            f"{type(self).__name__} is given extra state but does not override set_extra_state()"
        )

    # -- putting it in -------------------------------------------------------------------------

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Copy a state into this module. If anything does not fit, nothing is changed.

        Args:
            state_dict: tensors by path, as ``state_dict`` returns them.
            strict: fail on names that only one side has.
            assign: use the tensors themselves in place of copying them.

        Returns:
            The missing and the unexpected names.

        Example:
            >>> model = torch.nn.Linear(2, 1)
            >>> model.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
            <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        incompatible = IncompatibleKeys([], [])
        errors: list[str] = []
        copies: list[Callable[[], None]] = []
        metadata = getattr(state_dict, "_metadata", None) or {}
        entries = OrderedDict(state_dict)
        members = list(self.named_modules(remove_duplicate=False))
        parts: dict[str, Any] = {"": entries}  # by path; a hook may change what is further below
        for path, module in members:
            prefix = f"{path}." if path else ""
            about = {**metadata.get(path, {}), "assign_to_params_buffers": assign, COPIES: copies}
            if path:
                above = parts[path.rpartition(".")[0]]
                parts[path] = {k: v for k, v in above.items() if k.startswith(prefix)}
            module._load_from_state_dict(parts[path], prefix, about, True, *incompatible, errors)
        # Nothing is changed until the whole state is known to fit. With hooks this is not possible:
        # they may remove names from the lists of those that do not match, after the copies.
        hooked = [module for _, module in reversed(members) if module._load_state_dict_post_hooks]
        if errors or not hooked:
            self._report(incompatible, errors, strict)
        for copy in copies:
            copy()
        for module in hooked:
            for hook in module._load_state_dict_post_hooks.values():
                if hook(module, incompatible) is not None:
                    raise AssertionError(
                        "Hooks registered with ``register_load_state_dict_post_hook`` are not "
                        "expected to return new values, if incompatible_keys need to be modified, "
                        "it should be done inplace."
                    )
        self._report(incompatible, errors, strict)
        return incompatible

    def _report(self, incompatible: IncompatibleKeys, errors: list[str], strict: bool) -> None:
        """Raise a RuntimeError that lists everything that does not fit."""
        problems = list(errors)
        for what, keys in (("Unexpected", incompatible[1]), ("Missing", incompatible[0])):
            if keys and strict:
                named = ", ".join(f'"{key}"' for key in keys)
                problems.insert(0, f"{what} key(s) in state_dict: {named}. ")
        if problems:
            listed = "\n\t".join(problems)
            raise RuntimeError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t{listed}"
            )

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any],
        strict: bool, missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Take what is this module's own, not its children's, from ``state_dict``."""
        for hook in self._load_state_dict_pre_hooks.values():
            hook(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys,
                 error_msgs)  # fmt: skip
        own = self._local_state()
        for name, target in own.items():
            key = prefix + name
            if key in state_dict:
                problem = self._load_one(name, target, key, state_dict[key], local_metadata)
                error_msgs += [problem] if problem else []
            elif strict:
                missing_keys.append(key)
        extra = prefix + EXTRA_STATE
        takes_extra = type(self).set_extra_state is not Stateful.set_extra_state
        if takes_extra and extra in state_dict:
            self.set_extra_state(state_dict[extra])
        elif takes_extra and strict:
            missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        if strict:
            for key in state_dict:
                first, dot, _ = key[len(prefix) :].partition(".")
                if key.startswith(prefix) and key != extra:
                    known: Any = self._modules if dot else own
                    unexpected_keys += [] if first in known else [key]

    def _load_one(
        self, name: str, target: Tensor, key: str, value: Any, about: dict[str, Any]
    ) -> str | None:
        """Schedule the copy of one tensor; returns a message if it does not fit."""
        if not isinstance(value, Tensor):
            return (
                f'While copying the parameter named "{key}", expected torch.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
        if not target.shape and tuple(value.shape) == (1,):
            value = value.reshape(())  # old files have scalars of shape (1,)
        if value.shape != target.shape:
            return (
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {target.shape}."
            )
        how = self._assign if about.get("assign_to_params_buffers") else self._copy
        about[COPIES].append(partial(how, name, target, value))
        return None

    def _copy(self, name: str, target: Tensor, value: Tensor) -> None:
        with no_grad():
            target.copy_(value)

    def _assign(self, name: str, target: Tensor, value: Tensor) -> None:
        if isinstance(target, Parameter):
            if not isinstance(value, Parameter):
                value = Parameter(value, target.requires_grad)
            value.requires_grad_(target.requires_grad)
        setattr(self, name, value)

    # -- hooks ---------------------------------------------------------------------------------

    def register_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after ``state_dict``."""
        return add_hook(self._state_dict_hooks, hook)

    def register_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before ``state_dict``."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` before a state is loaded.
        """
        return self._register_load_state_dict_pre_hook(hook, with_module=True)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., None], with_module: bool = False
    ) -> RemovableHandle:
        """The same, for a hook that is not given the module unless ``with_module``."""
        called = _PreHook(hook, self if with_module else None)
        return add_hook(self._load_state_dict_pre_hooks, called)

    def register_load_state_dict_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after a state was loaded."""
        return add_hook(self._load_state_dict_post_hooks, hook)


def consume_prefix(state_dict: dict[str, Any], prefix: str) -> None:
    """Remove a prefix, such as ``"module."``, from the names of a state, in place.

    Args:
        state_dict: the state.
        prefix: the prefix.
    """
    for key in [k for k in state_dict if k.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    about = getattr(state_dict, "_metadata", None)
    if about is not None:
        for key in [k for k in about if k and (k == prefix.rstrip(".") or k.startswith(prefix))]:
            about[key[len(prefix) :]] = about.pop(key)
