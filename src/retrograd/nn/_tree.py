"""The parts of a module: parameters, buffers and submodules, by name.

Each kind is kept in a dictionary of its own, separate from ordinary attributes, so that its members
can be listed in the order in which they were assigned. Attribute access looks there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from retrograd.nn.parameter import Buffer, Parameter
from retrograd.tensor._tensor import Tensor

if TYPE_CHECKING:
    from retrograd.nn.module import Module

_KINDS = ("_parameters", "_buffers", "_modules")


def typename(value: Any) -> str:
    """The name of a type as PyTorch writes it in messages."""
    kind = type(value)
    if kind.__module__ in ("builtins", "__builtin__"):
        return kind.__name__
    if isinstance(value, Tensor) and kind.__module__.startswith("retrograd"):
        return {"Tensor": "torch.FloatTensor"}.get(kind.__name__, f"torch.nn.{kind.__name__}")
    return f"{kind.__module__}.{kind.__qualname__}"


class Tree:
    """Registers the parts of a module and iterates over them."""

    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Any]
    _non_persistent_buffers_set: set[str]

    def __init__(self) -> None:
        own = self.__dict__
        own["_parameters"], own["_buffers"], own["_modules"] = {}, {}, {}
        own["_non_persistent_buffers_set"] = set()

    # -- attributes ----------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        for kind in _KINDS:
            members = own.get(kind)
            if members is not None and name in members:
                return members[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, Parameter):
            self._release_name(name, "parameters")
            self.register_parameter(name, value)
        elif name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' "
                    "(torch.nn.Parameter or None expected)"
                )
            self.register_parameter(name, None)
        elif isinstance(value, Tree):
            self._release_name(name, "module")
            own["_modules"][name] = value
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' "
                    "(torch.nn.Module or None expected)"
                )
            own["_modules"][name] = None
        elif isinstance(value, Buffer) or name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(
                    f"cannot assign '{typename(value)}' as buffer '{name}' "
                    "(torch.nn.Buffer, torch.Tensor or None expected)"
                )
            own.pop(name, None)
            persistent = name not in self._non_persistent_buffers_set
            self.register_buffer(name, value, getattr(value, "persistent", persistent))
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for kind in _KINDS:
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def _release_name(self, name: str, what: str) -> None:
        """Remove a member of another kind that has the name."""
        own = self.__dict__
        if "_parameters" not in own:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        own.pop(name, None)
        keeping = "_parameters" if what == "parameters" else "_modules"
        for kind in _KINDS:
            if kind != keeping:
                own[kind].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __dir__(self) -> list[str]:
        names = {*dir(type(self)), *self.__dict__, *(n for k in _KINDS for n in self.__dict__[k])}
        return sorted(name for name in names if not name[:1].isdigit())

    # -- registering ---------------------------------------------------------------------------

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None for an absent one, under a name.

        Args:
            name: name of the attribute.
            param: the parameter, a leaf.
        """
        self._check_name("parameter", name, "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{typename(param)}' object to parameter '{name}' "
                "(torch.nn.Parameter or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a buffer: a tensor that belongs to the state of the module but is not trained.

        Args:
            name: name of the attribute.
            tensor: the tensor, or None.
            persistent: whether the buffer is part of ``state_dict``.

        Example:
            >>> module = torch.nn.Module()
            >>> module.register_buffer("mean", torch.zeros(2))
            >>> module.mean
            tensor([0., 0.])
        """
        self._check_name("buffer", name, "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                "(torch Tensor or None required)"
            )
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a submodule under a name."""
        if module is not None and not isinstance(module, Tree):
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if isinstance(name, str) and "." in name:
            raise KeyError(f'module name can\'t contain ".", got: {name}')
        self._check_name("module", name, "_modules")
        self._modules[name] = module

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as ``add_module``."""
        self.add_module(name, module)

    def _check_name(self, what: str, name: Any, kind: str) -> None:
        if kind not in self.__dict__:
            raise AttributeError(f"cannot assign {what} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{what} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{what} name can\'t contain "."')
        if not name:
            raise KeyError(f'{what} name can\'t be empty string ""')
        if hasattr(self, name) and name not in self.__dict__[kind]:
            raise KeyError(f"attribute '{name}' already exists")

    # -- finding by a path ---------------------------------------------------------------------

    def get_submodule(self, target: str) -> Module:
        """The module at a path such as ``"encoder.layers.0"``; the module itself for an empty path.
        """
        module: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(module, part):
                raise AttributeError(f"{module._get_name()} has no attribute `{part}`")
            module = getattr(module, part)
            if not isinstance(module, Tree):
                raise AttributeError(f"`{part}` is not an nn.Module")
        result: Module = module
        return result

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the module at a path, or add one.

        Args:
            target: path of the module.
            module: the new module.
            strict: fail if there is no module at the path.
        """
        if not target:
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Tree):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Tree):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> Parameter:
        """The parameter at a path."""
        parameter: Parameter = self._member(target, "_parameters", "an nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """The buffer at a path."""
        buffer: Tensor = self._member(target, "_buffers", "a buffer")
        return buffer

    def _member(self, target: str, kind: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
        if name not in module.__dict__[kind]:
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(module, name)

    def _get_name(self) -> str:
        return type(self).__name__

    # -- walking -------------------------------------------------------------------------------

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Iterate over this module and all below it, with their paths.

        Args:
            memo: modules to leave out; those visited are added.
            prefix: put in front of the paths.
            remove_duplicate: yield a module that occurs more than once only once.

        Example:
            >>> [name for name, _ in torch.nn.Sequential(torch.nn.ReLU()).named_modules()]
            ['', '0']
        """
        seen: set[Any] = set() if memo is None else memo
        to_visit: list[tuple[str, Any]] = [(prefix, self)]
        while to_visit:
            path, module = to_visit.pop()
            if module in seen:
                continue
            if remove_duplicate:
                seen.add(module)
            yield path, module
            below = [(f"{path}.{n}" if path else n, m) for n, m in module._modules.items()]
            to_visit += [(n, m) for n, m in reversed(below) if m is not None]

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Iterate over this module and all below it."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Iterate over the direct submodules with their names, each once."""
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """Iterate over the direct submodules."""
        for _, module in self.named_children():
            yield module

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Iterate over the parameters with their paths.

        Args:
            prefix: put in front of the paths.
            recurse: include the parameters of submodules.
            remove_duplicate: yield a shared parameter only once.

        Example:
            >>> [name for name, _ in torch.nn.Linear(2, 1).named_parameters()]
            ['weight', 'bias']
        """
        yield from self._named_members(
            lambda module: module._parameters, prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Iterate over the parameters, including those of submodules if ``recurse``."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Iterate over the buffers with their paths; arguments as of ``named_parameters``."""
        yield from self._named_members(
            lambda module: module._buffers, prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Iterate over the buffers, including those of submodules if ``recurse``."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _named_members(
        self, members: Callable[[Any], dict[str, Any]], prefix: str, recurse: bool, once: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        modules: Any = [(prefix, self)]
        if recurse:
            modules = self.named_modules(prefix=prefix, remove_duplicate=once)
        for path, module in modules:
            for name, member in members(module).items():
                if member is None or id(member) in seen:
                    continue
                if once:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member
