"""The Module that each operation belongs to: as recorded, or inferred from the names of
parameters."""

from __future__ import annotations

from retrograd.autograd._node import Node
from retrograd.viz._facts import is_leaf
from retrograd.viz._naming import Names
from retrograd.viz._node_info import recorded_info

Kinds = tuple[str, ...]


def modules_of(
    nodes: list[Node], index: dict[Node, int], names: Names
) -> tuple[list[str], list[Kinds]]:
    """For each operation the path of its Module, "" where it is in none, and the class names along
    the path."""
    modules: list[str] = []
    kinds: list[Kinds] = []
    recorded = False
    for node in nodes:
        info = recorded_info(node)
        recorded = recorded or info is not None
        modules.append(info.module if info is not None else "")
        kinds.append(info.module_types if info is not None else ())
    if not recorded and names.parameters:
        modules = _by_parameters(nodes, names)
    return modules, kinds


def _by_parameters(nodes: list[Node], names: Names) -> list[str]:
    """An operation that uses ``layers.0.weight`` belongs to ``layers.0``. Operations between two of
    the same Module are in it too, and so on: see ``between``."""
    known = [_module_of(node, names) for node in nodes]
    before: list[str | None] = []
    last: str | None = None
    for module in known:
        last = module if module is not None else last
        before.append(last)
    result = [""] * len(nodes)
    following: str | None = None
    for i in range(len(nodes) - 1, -1, -1):
        own, earlier = known[i], before[i]
        if own is not None:
            following = own
            result[i] = own
        elif earlier is not None and following is not None:
            result[i] = between(earlier, following)
    return result


def _module_of(node: Node, names: Names) -> str | None:
    """The Module whose parameters a node uses, itself or transposed; None if it uses none."""
    path: str | None = None
    for origin in node.next_nodes:
        if origin is not None and is_leaf(origin):
            variable = origin.variable  # type: ignore[attr-defined]
            name = names.parameters.get(id(variable))
            if name is not None:
                module = name.rpartition(".")[0]
                path = module if path is None else common(path, module)
    return path


def between(earlier: str, following: str) -> str:
    """The Module of an operation without parameters, between two operations with parameters. What
    follows the last part of a Module, such as an addition, counts as part of the Module.

    >>> between("layers.0.attention", "layers.0.norm"), between("layers.0.norm", "layers.1.norm")
    ('layers.0', 'layers.0')
    >>> between("first", "second")
    ''
    """
    shared = common(earlier, following)
    deeper = earlier.count(".") - shared.count(".") + (shared == "")
    return earlier.rpartition(".")[0] if deeper >= 2 else shared


def common(first: str, second: str) -> str:
    """The longest path that two paths begin with.

    >>> common("layers.0.attention", "layers.0.norm")
    'layers.0'
    """
    shared = []
    for a, b in zip(first.split("."), second.split("."), strict=False):
        if a != b:
            break
        shared.append(a)
    return ".".join(shared)
