"""``functional_call``: calling a module with given parameters.

A module is any object that is called, names its tensors by ``named_parameters()`` and
``named_buffers()``, and has them as attributes along those names: ``"layer.weight"`` is
``module.layer.weight``. Where there are dicts ``_parameters`` and ``_buffers``, as in PyTorch's
modules, they are what is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retrograd.ops.shapes import slicing
from retrograd.tensor._tensor import Tensor

MISSING: Any = object()


def functional_call(
    module: Any, parameter_and_buffer_dicts: Any, args: Any = None,
    kwargs: dict[str, Any] | None = None, *, tie_weights: bool = True, strict: bool = False,
) -> Any:  # fmt: skip
    """Calls a module with the given parameters and buffers instead of its own.

    If the module replaces one of them while it runs, the dictionary holds the new value afterwards.
    The module itself is unchanged.

    Args:
        module: the module to call.
        parameter_and_buffer_dicts: a dictionary of tensors by name, as in ``named_parameters()``,
            or a tuple of such dictionaries.
        args: the argument of the call, or a tuple of arguments.
        kwargs: keyword arguments of the call.
        tie_weights: replace a tensor that the module has under several names under all of them.
        strict: raise an error unless exactly the names of the module's tensors are given.

    Returns:
        The result of the call.

    Example:
        >>> from retrograd.func import functional_call, grad
        >>> model, x = torch.nn.Linear(2, 1, bias=False), torch.tensor([2.0, 3.0])
        >>> functional_call(model, {"weight": torch.tensor([[10.0, 100.0]])}, x)
        tensor([320.])
        >>> parameters = dict(model.named_parameters())
        >>> grad(lambda p: functional_call(model, p, x).sum())(parameters)
        {'weight': tensor([[2., 3.]])}
    """
    tensors = _one_dict(parameter_and_buffer_dicts)
    values = _with_tied(module, tensors) if tie_weights else tensors
    if strict:
        _check_names(module, values)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    before: dict[str, Any] = {}
    try:
        for name, value in values.items():
            before[name] = _swap(module, name, value)
        return module(*args, **(kwargs or {}))
    finally:
        after = {name: _swap(module, name, old) for name, old in reversed(before.items())}
        tensors.update({name: value for name, value in after.items() if name in tensors})


def _one_dict(given: Any) -> dict[str, Any]:
    if isinstance(given, dict):
        return given
    if not isinstance(given, Sequence):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(given)}"
        )
    if not all(isinstance(d, dict) for d in given):
        raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
    names = [name for d in given for name in d]
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is "
            "ambiguous"
        )
    return {name: value for d in given for name, value in d.items()}


def _named_tensors(module: Any) -> dict[str, Any]:
    """All tensors of a module by all of their names."""
    return {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }


def _with_tied(module: Any, given: dict[str, Any]) -> dict[str, Any]:
    """The values given, for all names of the tensors that they are to replace."""
    names_of: dict[int, list[str]] = {}
    for name, tensor in _named_tensors(module).items():
        names_of.setdefault(id(tensor), []).append(name)
    values = dict(given)
    for names in names_of.values():
        replacements = [given[name] for name in names if name in given]
        if any(value is not replacements[0] for value in replacements):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                "Consider using tie_weights=False"
            )
        if replacements:
            values.update(dict.fromkeys(names, replacements[0]))
    return values


def _check_names(module: Any, values: dict[str, Any]) -> None:
    known = _named_tensors(module)
    unexpected = [name for name in values if name not in known]
    missing = [name for name in known if name not in values]
    problems = []
    if unexpected:
        problems.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if missing:
        problems.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if problems:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {type(module).__name__}:\n\t" + "\n\t".join(problems)
        )


def _swap(module: Any, path: str, value: Any) -> Any:
    """Put a tensor in the place of another, which is returned; MISSING stands for there being
    none."""
    if value is not MISSING and value is not None and not isinstance(value, Tensor):
        raise TypeError(f"{path}: {value} is not an instance of torch.Tensor")
    *owners, name = path.split(".")
    if not name:
        raise KeyError('tensor name can\'t be empty string ""')
    for owner in owners:
        if not hasattr(module, owner):
            raise AttributeError(f"{type(module).__name__} has no attribute `{owner}`")
        module = getattr(module, owner)
    for store in (getattr(module, "_parameters", None), getattr(module, "_buffers", None)):
        if isinstance(store, dict) and name in store:
            old = store[name]
            if value is MISSING:
                del store[name]
            else:
                store[name] = value
            return old
    own = getattr(module, "__dict__", {})
    if getattr(getattr(type(module), name, None), "replaceable", False):  # a parametrized tensor
        old = own.pop(name, MISSING)
        own.update({} if value is MISSING else {name: value})
        return old
    shown = getattr(module, name, MISSING)
    if shown is not MISSING and shown is not None and not isinstance(shown, Tensor):
        raise TypeError(f"attribute `{name}`: {shown} is not an instance of torch.Tensor")
    # What the object has itself: an attribute of its class comes back when that is gone.
    old = shown if name in own or not hasattr(type(module), name) else MISSING
    if value is not MISSING:
        setattr(module, name, value)
    elif shown is not MISSING:
        delattr(module, name)
    return old


def stack_module_state(models: Sequence[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Stacks the parameters and buffers of modules of the same class: an ensemble for ``vmap``.

    Args:
        models: the modules, all in the same mode (training or evaluation).

    Returns:
        Two dictionaries, of parameters and of buffers by name, stacked along a new first dimension.
        The parameters are new leaves.

    Example:
        >>> from retrograd.func import functional_call, stack_module_state, vmap
        >>> models = [torch.nn.Linear(3, 1) for _ in range(4)]
        >>> parameters, buffers = stack_module_state(models)
        >>> parameters["weight"].shape
        torch.Size([4, 1, 3])
        >>> call = lambda p, x: functional_call(models[0], p, x)
        >>> vmap(call, in_dims=(0, None))(parameters, torch.ones(3)).shape
        torch.Size([4, 1])
    """
    if not len(models):
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({bool(getattr(m, "training", True)) for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = _stacked([dict(m.named_parameters()) for m in models])
    return parameters, _stacked([dict(m.named_buffers()) for m in models])


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    """By name, the tensors of all models as one: a leaf, if they require grad."""
    results = {}
    for name in states[0]:
        tensors = [state[name] for state in states]
        requires_grad = {t.requires_grad for t in tensors}
        if len(requires_grad) > 1:
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        stacked = slicing.stack(tensors)
        results[name] = stacked.detach().requires_grad_() if requires_grad == {True} else stacked
    return results


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Disables the running statistics of all batch norms in a module, in place.

    Running averages are state that is written in place, which does not work under transforms.

    Args:
        root: the module.

    Returns:
        The module.

    Example:
        >>> from retrograd.func import replace_all_batch_norm_modules_
        >>> model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        >>> list(replace_all_batch_norm_modules_(model)[1].state_dict())
        ['weight', 'bias']
    """
    from retrograd.nn.normalization import BatchNorm  # modules are for those who use them

    for module in root.modules():
        if isinstance(module, BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
