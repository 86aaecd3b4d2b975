"""``Optimizer``: groups of parameters with their options, the state of each, and hooks."""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable
from copy import deepcopy
from itertools import chain
from typing import Any

from retrograd import arrays
from retrograd._source import depth_of_user
from retrograd.autograd._hooks import RemovableHandle, add_hook
from retrograd.autograd._wrap import wrap
from retrograd.ops._sections import like
from retrograd.tensor._conversion import from_dlpack
from retrograd.tensor._tensor import Tensor

Hooks = OrderedDict[int, Callable[..., Any]]
ParamsT = Iterable[Tensor | dict[str, Any] | tuple[str, Tensor]]

_REGISTRIES = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip
_global_pre_hooks: Hooks = OrderedDict()
_global_post_hooks: Hooks = OrderedDict()


class _Required:
    def __repr__(self) -> str:
        return "<required parameter>"


required = _Required()  # the default of an option that every group has to give


def typename(value: Any) -> str:
    """The name of a type as PyTorch writes it in messages."""
    if isinstance(value, Tensor):
        return str(value.type())
    kind = type(value)
    named = kind.__module__ not in ("builtins", "__builtin__")
    return f"{kind.__module__}.{kind.__qualname__}" if named else kind.__name__


def _without_parameters() -> ValueError:
    from retrograd.autograd._explaining._hints import no_parameters

    return no_parameters(ValueError("optimizer got an empty parameter list"))


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """``step`` with its hooks. If a subclass calls it by ``super()``, hooks run only for the outer
    call.
    """

    @functools.wraps(step)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        self = args[0]
        if type(self).step is not hooked:
            return step(*args, **kwargs)
        self._opt_called = True
        before, after = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
        if not (before or after or _global_pre_hooks or _global_post_hooks):
            return step(*args, **kwargs)
        for hook in (*_global_pre_hooks.values(), *before.values()):
            changed = hook(self, args, kwargs)
            if changed is None:
                continue
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(
                    f"{step} must return None or a tuple of (new_args, new_kwargs), but got "
                    f"{changed}."
                )
            args, kwargs = changed
        result = step(*args, **kwargs)
        for hook in (*after.values(), *_global_post_hooks.values()):
            hook(self, args, kwargs)
        return result

    return hooked


class Optimizer:
    """The base class of all optimizers.

    A subclass passes the defaults of its options to ``__init__`` and overrides ``step``:

    Args:
        defaults: options of groups that do not set their own.

    Example:
        >>> class Descent(torch.optim.Optimizer):
        ...     def __init__(self, params, lr=0.1):
        ...         super().__init__(params, {"lr": lr})
        ...     @torch.no_grad()
        ...     def step(self, closure=None):
        ...         for group in self.param_groups:
        ...             for param in group["params"]:
        ...                 param -= group["lr"] * param.grad
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> optimizer = Descent([x])
        >>> (x * x).sum().backward()
        >>> optimizer.step()
        >>> x
        tensor([0.8000, 1.6000], requires_grad=True)
    """

    _optimizer_step_pre_hooks: Hooks
    _optimizer_step_post_hooks: Hooks
    _optimizer_state_dict_pre_hooks: Hooks
    _optimizer_state_dict_post_hooks: Hooks
    _optimizer_load_state_dict_pre_hooks: Hooks
    _optimizer_load_state_dict_post_hooks: Hooks
    shared_hooks = (_global_pre_hooks, _global_post_hooks)  # guarded by compiled functions
    _opt_called = False  # whether a step was done since a scheduler was made
    _scheduled = False  # whether a scheduler was made
    _step_when_scheduled: Any = None  # what a user had put in the place of ``step`` by then

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in cls.__dict__:
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {typename(params)}"
            )
        self.state: defaultdict[Any, Any] = defaultdict(dict)
        self.param_groups: list[dict[str, Any]] = []
        groups: list[Any] = list(params)
        if not groups:
            raise _without_parameters()
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getattr__(self, name: str) -> Any:
        if name not in _REGISTRIES:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        # When first used: subclasses need not call __init__, and none of it is pickled.
        hooks: Hooks = self.__dict__.setdefault(name, OrderedDict())
        return hooks

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("defaults", "state", "param_groups")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.defaults.setdefault("differentiable", False)

    def __repr__(self) -> str:
        groups = []
        for i, group in enumerate(self.param_groups):
            options = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            groups.append(f"Parameter Group {i}\n{''.join(options)}")
        return f"{type(self).__name__} (\n" + "\n".join(groups) + ")"

    # -- stepping --------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update the parameters once.

        Args:
            closure: clears the gradients, computes the loss, calls ``backward`` and returns the
                loss.

        Returns:
            The loss, or None without a closure.
        """
        raise NotImplementedError

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Reset the gradients of all parameters.

        Args:
            set_to_none: set them to None, rather than to zeros.
        """
        for group in self.param_groups:
            for param in group["params"]:
                grad = param.grad
                if grad is None:
                    continue
                if set_to_none:
                    param.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    # -- groups ----------------------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters.

        Args:
            param_group: a dictionary with ``params`` and options.

        Example:
            >>> x, y = torch.zeros(2, requires_grad=True), torch.zeros(2, requires_grad=True)
            >>> optimizer = torch.optim.SGD([x], lr=0.1)
            >>> optimizer.add_param_group({"params": [y], "lr": 0.01})
            >>> [group["lr"] for group in optimizer.param_groups]
            [0.1, 0.01]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _parameters(param_group["params"])
        for param in params:
            self._check_parameter(param)
        group = {**param_group, "params": params}
        if names:
            group["param_names"] = names
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            group.setdefault(name, default)
        if len(params) != len(set(params)):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information",
                stacklevel=depth_of_user(),
            )
        for other in self.param_groups:
            if ("param_names" in group) != ("param_names" in other):
                has_names = "with" if "param_names" in group else "without"
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param "
                    f"group {has_names} names to the optimizer"
                )
        if not set(params).isdisjoint(chain(*(other["params"] for other in self.param_groups))):
            raise ValueError("some parameters appear in more than one parameter group")
        param_group.update(group)
        self.param_groups.append(param_group)

    def _check_parameter(self, param: Any) -> None:
        if not isinstance(param, Tensor):
            raise TypeError(
                f"optimizer can only optimize Tensors, but one of the params is {typename(param)}"
            )
        if not (self.defaults.get("differentiable") or param.is_leaf or param.retains_grad):
            raise ValueError("can't optimize a non-leaf Tensor")

    # -- the state as a dictionary ---------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The options of all groups and the state of all parameters, by number.

        Tensors share memory with the optimizer's own.

        Returns:
            A dictionary with ``state`` and ``param_groups``.

        Example:
            >>> x = torch.zeros(2, requires_grad=True)
            >>> torch.optim.SGD([x], lr=0.1).state_dict()["param_groups"][0]["params"]
            [0]
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers: dict[int, int] = {}
        groups, start = [], 0
        for group in self.param_groups:
            params = group["params"]
            for i, param in enumerate(params, start):
                numbers.setdefault(id(param), i)
            start += len(params)
            packed = {key: value for key, value in group.items() if key != "params"}
            groups.append({**packed, "params": [numbers[id(p)] for p in params]})
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: v for k, v in self.state.items()}
        result: dict[str, Any] = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            result = result if changed is None else changed
        return result

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load a state. Its tensors are copied.

        Args:
            state_dict: what ``state_dict`` returned.
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            state_dict = state_dict if changed is None else changed
        given = deepcopy(state_dict["param_groups"])
        if len(self.param_groups) != len(given):
            raise ValueError("loaded state dict has a different number of parameter groups")
        pairs = list(zip(self.param_groups, given, strict=True))
        if any(len(own["params"]) != len(new["params"]) for own, new in pairs):
            raise ValueError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        owners = {
            number: (param, new)
            for own, new in pairs
            for number, param in zip(new["params"], own["params"], strict=True)
        }
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, value in state_dict["state"].items():
            if number in owners:
                param, group = owners[number]
                state[param] = self._cast(param, group, value)
            else:
                state[number] = value
        for own, new in pairs:
            new["params"] = own["params"]
            if "param_names" in own:
                new.setdefault("param_names", own["param_names"])
        self.__setstate__({"state": state, "param_groups": given})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def _cast(self, param: Any, group: dict[str, Any], value: Any, key: Any = None) -> Any:
        """A copy of a state with its tensors in the dtype of the parameter, and on its device,
        except for the step count.
        """
        if isinstance(value, dict):
            return {k: self._cast(param, group, v, k) for k, v in value.items()}
        if isinstance(value, (list, tuple, set)):
            return type(value)(self._cast(param, group, v) for v in value)
        if not isinstance(value, Tensor):
            if not hasattr(value, "__dlpack__"):
                return value
            value = from_dlpack(value)  # a tensor of another library
        value = value.detach().clone()
        if key != "step":
            value = value.to(param.dtype) if param.is_floating_point() else value
            return value if value.device == param.device else _beside(param, value)
        return value.float() if group.get("capturable") or group.get("fused") else value

    # -- hooks -----------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step.

        Args:
            hook: may return new arguments, as a pair.

        Returns:
            A handle, whose ``remove()`` removes the hook.

        Example:
            >>> x = torch.zeros(1, requires_grad=True)
            >>> optimizer = torch.optim.SGD([x], lr=0.1)
            >>> handle = optimizer.register_step_pre_hook(lambda *given: print("stepping"))
            >>> optimizer.step()
            stepping
        """
        return add_hook(self._optimizer_step_pre_hooks, hook)

    @like(register_step_pre_hook, hook="the function.")
    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``.

        Args:
            hook: the function.
            prepend: run it before those registered earlier.

        Returns:
            A handle, whose ``remove()`` removes the hook.
        """
        return _add(self._optimizer_state_dict_pre_hooks, hook, prepend)

    @like(register_state_dict_pre_hook)
    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after ``state_dict``.

        Args:
            hook: may return another dictionary.
        """
        return _add(self._optimizer_state_dict_post_hooks, hook, prepend)

    @like(register_state_dict_pre_hook)
    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before ``load_state_dict``.

        Args:
            hook: may return another state to load.
        """
        return _add(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    @like(register_state_dict_pre_hook)
    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after ``load_state_dict``."""
        return _add(self._optimizer_load_state_dict_post_hooks, hook, prepend)


def _parameters(given: Any) -> tuple[list[Any], list[str]]:
    """The tensors of a group, and their names if they come with names."""
    if isinstance(given, Tensor):
        return [given], []
    if isinstance(given, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of "
            "tensors in sets will change between runs. Please use a list instead."
        )
    given = list(given)
    names = [item[0] for item in given if isinstance(item, tuple)]
    if names and len(names) != len(given):
        raise ValueError(
            "all optimizer params should be with/without names. Some param names are missing"
        )
    return [item[1] for item in given] if names else given, names


def _beside(param: Any, value: Any) -> Any:
    """A tensor of a state on the device of a parameter. On a mesh of devices, a tensor of the shape
    of the parameter is split as the parameter is."""
    like_param = value.shape == param.shape and value.dtype == param.dtype
    if param.device._mesh is None or not like_param:
        return value.to(param.device)
    return wrap(arrays.updates.zeros_like(param._data)).copy_(value)


def _add(registry: Hooks, hook: Callable[..., Any], prepend: bool) -> RemovableHandle:
    handle = add_hook(registry, hook)
    if prepend:
        registry.move_to_end(handle.id, last=False)
    return handle


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before each step of any optimizer."""
    return add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after each step of any optimizer."""
    return add_hook(_global_post_hooks, hook)


__all__ = [
    "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
    "required",
]  # fmt: skip
