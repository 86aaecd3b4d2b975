"""Parametrizations: tensors of a module that are computed from others.

Once a parametrization is registered on ``weight``, ``module.weight`` is a function of
``module.parametrizations.weight.original``, and gradients flow through that function.

The attribute is a descriptor, so a parametrized module has a class of its own, derived from its
original class. Modules of one class with the same names parametrized share it, and it never
changes: parametrizing a module does not affect its copies.
"""

from __future__ import annotations

import copy
import copyreg
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from retrograd.autograd.grad_mode import is_grad_enabled, no_grad
from retrograd.nn.containers import ModuleDict, ModuleList
from retrograd.nn.parameter import Parameter
from retrograd.tensor._tensor import Tensor

# -- caching -------------------------------------------------------------------------------------


class _Cache(threading.local):
    """Results of parametrizations while :func:`cached` is active: for each list its sources,
    whether the result was recorded, and the result.
    """

    depth = 0

    def __init__(self) -> None:
        self.values: dict[ParametrizationList, tuple[tuple[Any, ...], bool, Any]] = {}


_cache = _Cache()


@contextmanager
def cached() -> Iterator[None]:
    """Compute every parametrized tensor only once within the block.

    Returns:
        A context manager.

    Example:
        >>> from retrograd.nn.utils import parametrize
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
        >>> with parametrize.cached():
        ...     print(layer.weight is layer.weight)
        True
        >>> layer.weight is layer.weight
        False
    """
    _cache.depth += 1
    try:
        yield
    finally:
        _cache.depth -= 1
        if not _cache.depth:
            _cache.values.clear()


def _value(parametrizations: ParametrizationList) -> Any:
    if not _cache.depth:
        return parametrizations()
    # A result can be used again only if it was computed from the same tensors, which
    # functional_call may have replaced, and with the same grad mode.
    sources, recorded = parametrizations._originals(), is_grad_enabled()
    cached_value = _cache.values.get(parametrizations)
    if (
        cached_value is not None
        and cached_value[1] is recorded
        and all(a is b for a, b in zip(cached_value[0], sources, strict=True))
    ):
        return cached_value[2]
    value = parametrizations()
    _cache.values[parametrizations] = sources, recorded, value
    return value


# -- the attribute, and the class that has it ----------------------------------------------------


class Computed:
    """The attribute of a parametrized tensor."""

    # functional_call may put a value into the module's __dict__, which then takes precedence.
    replaceable = True

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: Any = None) -> Any:
        if module is None:
            return self
        if self.name in module.__dict__:
            return module.__dict__[self.name]
        try:
            return _value(module.parametrizations[self.name])
        except AttributeError as error:  # else Python would report this attribute as missing
            raise RuntimeError(
                f"The parametrized `{self.name}` of {type(module).__name__} could not be computed: "
                f"{error}"
            ) from error

    def __set__(self, module: Any, value: Any) -> None:
        module.parametrizations[self.name].right_inverse(value)


_classes: WeakValueDictionary[tuple[type, frozenset[str]], type] = WeakValueDictionary()


def _become_parametrized(module: Any, base: type, names: Iterable[str]) -> None:
    """Change the class of a module to one derived from ``base`` in which ``names`` are computed."""
    key = base, frozenset(names)
    kind: Any = _classes.get(key) if key[1] else base
    if kind is None:
        members: dict[str, Any] = {name: Computed(name) for name in key[1]}
        members["__getstate__"] = _refuse_to_be_pickled
        if not hasattr(base, "__deepcopy__"):  # the default would call __getstate__
            members["__deepcopy__"] = _deepcopy
        kind = _classes[key] = type(f"Parametrized{base.__name__}", (base,), members)
    module.__class__ = kind


def _refuse_to_be_pickled(module: Any) -> Any:
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _deepcopy(module: Any, memo: dict[int, Any]) -> Any:
    replica = object.__new__(type(module))
    memo[id(module)] = replica
    replica.__dict__.update(copy.deepcopy(module.__dict__, memo))
    for slot in copyreg._slotnames(type(module)):  # type: ignore[attr-defined]
        if hasattr(module, slot):
            setattr(replica, slot, copy.deepcopy(getattr(module, slot), memo))
    return replica


# -- parametrizations of one tensor --------------------------------------------------------------


def _register(module: Any, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor in order, and its source: ``original``, or ``original0``,
    ``original1``... if the first of them takes several tensors.

    ``register_parametrization`` creates it.

    Args:
        modules: the parametrizations.
        original: the tensor that is replaced.
        unsafe: skip the checks of dtype and shape.

    Shape:
        No input. Output: the shape of the parametrized tensor.

    Example:
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 1))
        >>> layer.parametrizations.weight().shape
        torch.Size([1, 2])
    """

    unsafe: bool

    def __init__(self, modules: Sequence[Any], original: Any, unsafe: bool = False) -> None:
        if not len(modules):
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.data
        with no_grad():
            new: Any = self._inverted(original, may_lack=True)
        if not isinstance(new, Tensor | Sequence):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        try:
            if self.is_tensor:
                self._set_one(original, new)
            else:
                self._set_several(original, tuple(new))
            if not unsafe:
                _check_result(self(), before, "`unsafe`", "unparametrized {}", "parametrized {}")
        except Exception:
            original.data = before
            raise

    def _set_one(self, original: Any, new: Any) -> None:
        if original.dtype != new.dtype:
            raise ValueError(
                "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                f"original.dtype: {original.dtype}\n"
                f"right_inverse(original).dtype: {new.dtype}"
            )
        original.data = new  # the same object: an optimizer may refer to it
        _register(self, "original", original)

    def _set_several(self, original: Any, new: Sequence[Any]) -> None:
        for i, tensor in enumerate(new):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {i} of the sequence with type {type(tensor).__name__}."
                )
            if isinstance(original, Parameter):
                tensor = Parameter(tensor, original.requires_grad)
            tensor.requires_grad_(original.requires_grad)
            _register(self, f"original{i}", tensor)

    def _names(self) -> list[str]:
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _originals(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._names())

    def _inverted(self, value: Any, may_lack: bool = False) -> Any:
        """Apply the right inverses, the last parametrization's first. With ``may_lack``,
        parametrizations without one are skipped.
        """
        for module in list(self)[::-1]:
            if hasattr(module, "right_inverse"):
                try:
                    value = module.right_inverse(value)
                except NotImplementedError:
                    if not may_lack:
                        raise
            elif not may_lack:
                raise RuntimeError(
                    f"parametrization {type(module).__name__} does not implement right_inverse."
                )
        return value

    @no_grad()
    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor is ``value``, as far as possible.

        Args:
            value: the tensor.
        """
        value = self._inverted(value)
        if self.is_tensor:
            if not isinstance(value, Tensor):
                raise ValueError(
                    f"`right_inverse` should return a tensor. Got {type(value).__name__}"
                )
            if value.dtype != self.original.dtype:
                raise ValueError(
                    f"The tensor returned by `right_inverse` has dtype {value.dtype} while "
                    f"`original` has dtype {self.original.dtype}"
                )
            self.original.data = value
            return
        self._check_several(value)
        for original, tensor in zip(self._originals(), value, strict=True):
            original.data = tensor

    def _check_several(self, value: Any) -> None:
        if not isinstance(value, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}."
            )
        if len(value) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(value)}."
            )
        for i, tensor in enumerate(value):
            if not isinstance(tensor, Tensor):
                raise ValueError(
                    "'right_inverse' must return a sequence of tensors or reference-type opaques. "
                    f"Got element {i} of type {type(tensor).__name__}."
                )
            dtype = getattr(self, f"original{i}").dtype
            if dtype != tensor.dtype:
                raise ValueError(
                    f"Tensor {i} returned by `right_inverse` has dtype {tensor.dtype} while "
                    f"`original{i}` has dtype {dtype}"
                )

    def forward(self) -> Any:
        first, *others = self
        value = first(*self._originals())
        for module in others:
            value = module(value)
        return value


def _check_result(result: Any, like: Any, flag: str, before: str, after: str) -> None:
    """Raise a ValueError if a parametrization changes dtype or shape."""
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(result).__name__}.")
    for what in ("dtype", "shape"):
        old, new = getattr(like, what), getattr(result, what)
        if old != new:
            raise ValueError(
                f"Registering a parametrization may not change the {what} of the tensor, unless "
                f"{flag} flag is enabled.\n"
                f"{before.format(what)}: {old}\n"
                f"{after.format(what)}: {new}"
            )


# -- registering and removing --------------------------------------------------------------------


def register_parametrization(
    module: Any, tensor_name: str, parametrization: Any, *, unsafe: bool = False
) -> Any:
    """Replace a parameter or buffer of a module by ``parametrization(original)``.

    If the parametrization has a method ``right_inverse``, it determines the initial ``original``,
    and the tensor can be assigned to. Further parametrizations of the same tensor apply to the
    result.

    Args:
        module: the module, which is modified.
        tensor_name: name of the parameter or buffer.
        parametrization: a module.
        unsafe: allow a change of dtype or shape, and check nothing.

    Returns:
        The module.

    Example:
        >>> from retrograd.nn.utils import parametrize
        >>> class Symmetric(torch.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = torch.nn.Linear(3, 3)
        >>> _ = parametrize.register_parametrization(layer, "weight", Symmetric())
        >>> bool((layer.weight == layer.weight.T).all())
        True
        >>> layer
        ParametrizedLinear(
          in_features=3, out_features=3, bias=True
          (parametrizations): ModuleDict(
            (weight): ParametrizationList(
              (0): Symmetric()
            )
          )
        )
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_further(module, tensor_name, parametrization)
        registered = module.parametrizations[tensor_name]
        registered.append(parametrization)
        registered.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        registered = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        base = type_before_parametrizations(module)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            module.parametrizations = ModuleDict()
        module.parametrizations[tensor_name] = registered
        _become_parametrized(module, base, module.parametrizations)
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def _check_further(module: Any, name: str, parametrization: Any) -> None:
    """Raise a ValueError if a further parametrization or its inverse changes dtype or shape."""
    now = getattr(module, name)
    result = parametrization(now)
    _check_result(
        result, now, "the `unsafe`", f"module.{name}.{{}}", f"parametrization(module.{name}).{{}}"
    )
    if not hasattr(parametrization, "right_inverse"):
        return
    try:
        back = parametrization.right_inverse(result)
    except NotImplementedError:
        return
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for what in ("dtype", "shape"):
        old, new = getattr(now, what), getattr(back, what)
        if old != new:
            raise ValueError(
                f"The tensor returned by parametrization.right_inverse must have the same {what} "
                f"as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{what}: {old}\nreturned {what}: {new}"
            )


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Whether a tensor of a module, or any of its tensors, has a parametrization.

    Args:
        module: the module.
        tensor_name: name of the tensor; None for any.

    Example:
        >>> from retrograd.nn.utils import parametrize
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 1))
        >>> parametrize.is_parametrized(layer), parametrize.is_parametrized(layer, "bias")
        (True, False)
    """
    parametrizations = getattr(module, "parametrizations", None)
    if not isinstance(parametrizations, ModuleDict):
        return False
    return len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Turn a parametrized tensor into an ordinary parameter or buffer again.

    Args:
        module: the module, which is modified.
        tensor_name: name of the tensor.
        leave_parametrized: keep the parametrized value, rather than the original.

    Returns:
        The module.

    Example:
        >>> from retrograd.nn.utils import parametrize
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 1))
        >>> parametrize.remove_parametrizations(layer, "weight")
        Linear(in_features=2, out_features=1, bias=True)
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    registered = module.parametrizations[tensor_name]
    if registered.is_tensor:
        original = registered.original
        if leave_parametrized:
            with no_grad():
                original.data = getattr(module, tensor_name)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    base = type_before_parametrizations(module)
    del module.parametrizations[tensor_name]
    _become_parametrized(module, base, module.parametrizations)
    if not len(module.parametrizations):
        del module.parametrizations
    _register(module, tensor_name, original)
    return module


def type_before_parametrizations(module: Any) -> type:
    """The class that a module had before it was parametrized.

    Args:
        module: the module.

    Example:
        >>> from retrograd.nn.utils import parametrize
        >>> layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 1))
        >>> parametrize.type_before_parametrizations(layer) is torch.nn.Linear
        True
    """
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Any, to_module: Any, tensor_name: str | None = None
) -> Any:
    """Share the parametrizations of a module, and their originals, with another module.

    Args:
        from_module: the parametrized module.
        to_module: the module that gets the parametrizations, which is modified.
        tensor_name: name of the tensor; None for all.

    Returns:
        ``to_module``.

    Example:
        >>> from retrograd.nn.utils import parametrize
        >>> first = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(2, 2))
        >>> second = parametrize.transfer_parametrizations_and_params(first, torch.nn.Linear(2, 2))
        >>> torch.equal(first.weight, second.weight)
        True
    """
    if not is_parametrized(from_module):
        return to_module
    for name in from_module.parametrizations if tensor_name is None else [tensor_name]:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization)
        target = to_module.parametrizations[name]
        for original in source._names():
            setattr(target, original, getattr(source, original))
    return to_module


__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip
