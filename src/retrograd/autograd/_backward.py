"""``backward`` and ``grad``: from what a user asks for to a backward pass."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

from retrograd import arrays
from retrograd._modes import modes, within
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._engine import Root, Task, run
from retrograd.autograd._history import edge
from retrograd.autograd._node import NOWHERE, AccumulateGrad, Node
from retrograd.autograd._wrap import SPARSE, Plug, wrap
from retrograd.ops import copies
from retrograd.ops._lifted import Lifted


class GradientEdge(NamedTuple):
    """An edge of the graph: a node, and the index of one of its outputs.

    Args:
        node: the node.
        output_nr: index of the output.
        ownership_token: keeps the node of a leaf alive.

    Example:
        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> torch.autograd.graph.get_gradient_edge(y).output_nr
        0
    """

    node: Node
    output_nr: int
    ownership_token: Any = None


class _KnownEdge(GradientEdge):
    """An edge that knows what its tensor was like, which a node does not know of its results."""

    shape: Any
    dtype: Any


_KnownEdge.__name__ = "GradientEdge"


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge of the graph that the gradient of a tensor flows along.

    It stays valid if the tensor is written in place, and keeps no values alive.

    Args:
        tensor: a tensor that requires grad.

    Returns:
        A named tuple of a node and the index of its output, which ``grad`` and ``backward`` accept
        in place of the tensor.

    Example:
        >>> y = torch.ones(2, requires_grad=True) * 2
        >>> torch.autograd.graph.get_gradient_edge(y).node.name()
        'MulBackward0'
    """
    if not tensor.requires_grad:
        raise RuntimeError(
            "It is not possible to get the gradient edge for a Tensor that does not require "
            "gradients"
        )
    node, number = edge(tensor)
    assert node is not None
    result = _KnownEdge(node, number or 0, None)
    result.shape, result.dtype = tensor.shape, tensor.dtype
    return result


def is_tensor(value: object) -> bool:
    return isinstance(value, Plug.tensor)


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One tensor or edge, or several, as a tuple."""
    if is_tensor(value) or isinstance(value, GradientEdge):
        return (value,)
    return tuple(value)


def locate(target: Any) -> tuple[Node | None, int | None]:
    """The node and output number of a tensor or edge; the number is None for an only output."""
    if isinstance(target, GradientEdge):
        if not isinstance(target.node, Node):
            raise TypeError(
                f"the node of a GradientEdge must be a Node, but got {type(target.node).__name__}"
            )
        several = getattr(target.node, "outputs", None)
        return target.node, target.output_nr if several is not None else None
    values = target._differentiated
    return edge(target if values is None else values())


# -- where a pass starts ---------------------------------------------------------------------


def make_roots(
    outputs: tuple[Any, ...], given: tuple[Any, ...], recorded: bool, batched: bool = False
) -> list[Root]:
    """The node of each output and the gradient to start from: what was given, checked and in the
    output's dtype, or one for a scalar."""
    return [
        root_of(i, output, recorded, g, batched)
        for i, (output, g) in enumerate(zip(outputs, given, strict=True))
    ]


def root_of(i: int, output: Any, recorded: bool, g: Any = None, batched: bool = False) -> Root:
    """The root of output ``i``."""
    plain = type(output) is Plug.tensor
    node, number = edge(output) if plain else locate(output)
    if node is None or node is NOWHERE:
        from retrograd.autograd._explaining._hints import without_history

        raise without_history(
            RuntimeError(
                f"element {i} of tensors does not require grad and does not have a grad_fn"
            )
        )
    if g is None:
        data = getattr(output, "_data", None)
        if data is not None and data.size == 1 and data.dtype.kind in dtypes.FLOATS:
            if isinstance(data, Lifted) and not data.level.number:  # on a device
                start: Any = data.level.ones_like(data)
            else:
                start = arrays.ones(data.shape, data.dtype)
        else:
            start = implicit_gradient(output)
        return node, number, wrap(start) if recorded else start
    if not is_tensor(g):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    known = output if plain else described(output)
    data, own = getattr(known, "_data", None), g._data
    fits = data is not None and not batched and own.shape == data.shape and own.dtype == data.dtype
    fits = fits and isinstance(own, Lifted) is isinstance(data, Lifted)
    if known is not None and not fits:
        _check_gradient(i, known, g, batched)
        if g.dtype != known.dtype:
            g = g.to(known.dtype)
    return node, number, g if recorded else g._data


def described(output: Any) -> Any:
    """Something of the shape and dtype of an output, which may be an edge; None if its node does
    not know them."""
    if isinstance(output, GradientEdge) and not isinstance(output, _KnownEdge):
        return getattr(output.node, "variable", None)
    return output


def implicit_gradient(output: Any) -> Raw:
    """One, for an output that is a real scalar."""
    known = described(output)
    if known is None or math.prod(known.shape) != 1:
        error = RuntimeError("grad can be implicitly created only for scalar outputs")
        if known is None:
            error.add_note(
                "A GradientEdge made by hand does not say whether it is one. Use "
                "get_gradient_edge(), or give the gradient."
            )
            raise error
        from retrograd.autograd._explaining._hints import not_a_scalar

        raise not_a_scalar(error, output, known)
    dtype = known.dtype.numpy
    if dtype.kind not in dtypes.FLOATS:
        raise RuntimeError(
            f"grad can be implicitly created only for real scalar outputs but got {known.dtype}"
        )
    return arrays.ones(tuple(known.shape), dtype)


def _check_gradient(i: int, output: Any, g: Any, batched: bool) -> None:
    shape = tuple(g.shape)[1:] if batched else tuple(g.shape)
    if shape != tuple(output.shape):
        size = type(output.shape)
        mismatch = (
            f"grad_output[{i}] has a shape of {size(shape)} and output[{i}] has a shape of "
            f"{output.shape}."
        )
        if batched:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output "
                "as the batch dimension. The sizes of the remaining dimensions are expected to "
                "match the shape of corresponding output, but a mismatch was detected: "
                f"{mismatch} If you only want some tensors in `grad_output` to be considered "
                "batched, consider using vmap."
            )
        raise RuntimeError(f"Mismatch in shape: {mismatch}")
    on_devices = isinstance(g._data, Lifted) or isinstance(getattr(output, "_data", None), Lifted)
    if on_devices and g.device != output.device:
        raise RuntimeError(
            f"invalid gradient at index {i} - expected device {output.device} but got {g.device}"
        )
    if g.dtype.is_complex != output.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. "
            f"Mismatch in dtype: grad_output[{i}] has a dtype of {g.dtype} and output[{i}] has a "
            f"dtype of {output.dtype}."
        )


# -- the part of the graph that is needed ----------------------------------------------------


def nodes_between(roots: Sequence[Root], targets: set[Node]) -> set[Node]:
    """The targets and all nodes on a path from a root to one.

    A node is older than whatever used its output, so nothing older than the oldest target can
    lead to one: the walk stops there.
    """
    oldest = max(t.order for t in targets)
    users: dict[Node, list[Node]] = {}
    result: set[Node] = set()
    to_visit = [node for node, _, _ in roots if node.order <= oldest]
    while to_visit:
        node = to_visit.pop()
        if node in result:
            continue
        result.add(node)
        for n in node.next_nodes:
            if n is not None and n.order <= oldest:
                users.setdefault(n, []).append(node)
                to_visit.append(n)
    needed: set[Node] = set()
    to_visit = [t for t in targets if t in result]
    while to_visit:
        node = to_visit.pop()
        if node not in needed:
            needed.add(node)
            to_visit.extend(users.get(node, ()))
    return needed


def check_inputs(inputs: tuple[Any, ...]) -> None:
    for i in inputs:
        if not is_tensor(i) and not isinstance(i, GradientEdge):
            raise RuntimeError(
                f"all inputs have to be Tensors or GradientEdges, but got {type(i).__name__}"
            )


# -- what users call -------------------------------------------------------------------------


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, grad_variables: Any = None, inputs: Any = None,
) -> None:  # fmt: skip
    """Computes the gradients of tensors with respect to the leaves, and adds them to their
    ``.grad``.

    Args:
        tensors: a tensor, or several.
        grad_tensors: the vectors of the vector-Jacobian product: a tensor of the shape of each of
            ``tensors``. May be None for a tensor of one element, which means 1.
        retain_graph: keep the graph, so that it can be used again. By default, the value of
            ``create_graph``.
        create_graph: record the pass, so that the gradients can be differentiated.
        grad_variables: an older name of ``grad_tensors``.
        inputs: tensors (or edges) to accumulate gradients into; all leaves by default. Only the
            part of the graph that leads to them runs.

    Example:
        >>> z = torch.tensor([1.0, 3.0], requires_grad=True)
        >>> torch.autograd.backward(tensors=z**2, grad_tensors=torch.tensor([1.0, 1.0]))
        >>> z.grad
        tensor([2., 6.])
    """
    if grad_variables is not None:
        warnings.warn(
            "`grad_variables` is deprecated. Use `grad_tensors` instead.",
            FutureWarning,
            stacklevel=2,
        )
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to "
                "`backward()`. Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    targets = None
    if inputs is not None:
        targets = as_tuple(inputs.values() if isinstance(inputs, dict) else inputs)
        if not targets:
            raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
        check_inputs(targets)
    now = modes.frame.states[-1]
    if now.running is not None or (
        now.levels and not all([level.transparent for level in now.levels])
    ):
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use "
            "functorch.grad or functorch.vjp instead or call backward() outside of functorch "
            "transforms."
        )
    if type(tensors) is Plug.tensor and (
        grad_tensors is None or type(grad_tensors) is Plug.tensor
    ):  # most calls
        roots = [root_of(0, tensors, create_graph, grad_tensors)]
    else:
        outputs = as_tuple(tensors)
        roots = make_roots(outputs, as_gradients(grad_tensors, len(outputs)), create_graph)
    keep_graph = create_graph if retain_graph is None else retain_graph
    if create_graph:
        _warn_of_cycle()
    differentiate(roots, keep_graph, create_graph, accumulate_into=targets)


def _warn_of_cycle() -> None:
    warnings.warn(
        "Using backward() with create_graph=True will create a reference cycle between the "
        "parameter and its gradient which can cause a memory leak. We recommend using "
        "autograd.grad when creating the graph to avoid this. If you have to use this function, "
        "make sure to reset the .grad fields of your parameters to None after use to break the "
        "cycle and avoid the leak.",
        UserWarning,
        stacklevel=4,
    )


def as_gradients(given: Any, count: int) -> tuple[Any, ...]:
    gradients = (None,) * count if given is None else as_tuple(given)
    if len(gradients) != count:
        raise RuntimeError(f"got {count} tensors and {len(gradients)} gradients")
    return gradients


def differentiate(
    roots: list[Root], keep_graph: bool, recorded: bool,
    accumulate_into: tuple[Any, ...] | None = None, capture: tuple[Any, ...] = (),
) -> dict[int, Any]:  # fmt: skip
    """Run one backward pass. The gradients of ``capture`` come back by position; those of all
    leaves, or of ``accumulate_into``, are added to ``.grad``."""
    task = Task(keep_graph, recorded)
    if accumulate_into is not None:
        ends = keep_gradients_of(accumulate_into)
        task.needed = nodes_between(roots, ends)
        # A result among the inputs is where the pass stops, unless a path to a leaf leads through
        # it.
        task.wanted = {n: [] for n in ends if not isinstance(n, AccumulateGrad)}
    elif capture:
        for place, target in enumerate(capture):
            node, number = locate(target)
            assert node is not None
            if node is not NOWHERE:
                task.wanted.setdefault(node, []).append((number or 0, place))
        if not task.wanted:
            return {}
        task.needed = nodes_between(roots, set(task.wanted))
    if task.needed is not None:
        roots = [root for root in roots if root[0] in task.needed]
    if not recorded:
        return run(task, roots)
    with within(grad_enabled=True):
        return run(task, roots)


def keep_gradients_of(targets: tuple[Any, ...]) -> set[Node]:
    """The nodes of the ``inputs`` of backward. Results among them keep their gradient too."""
    nodes = set()
    for target in targets:
        if is_tensor(target) and not target.is_leaf:
            target.retain_grad()
        node, _ = locate(target)
        if node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        nodes.add(node)
    return nodes


def grad(
    outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
    create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
    is_grads_batched: bool = False, materialize_grads: bool = False,
) -> Any:  # fmt: skip
    """Computes the gradients of outputs with respect to inputs, and returns them.

    No ``.grad`` is written.

    Args:
        outputs: a tensor, or several.
        inputs: tensors (or edges) to differentiate with respect to. They need not be leaves.
        grad_outputs: the vectors of the vector-Jacobian product: a tensor of the shape of each
            output. May be None for an output of one element, which means 1.
        retain_graph: keep the graph, so that it can be used again. By default, the value of
            ``create_graph``.
        create_graph: record the pass, so that the gradients can be differentiated.
        only_inputs: must be True.
        allow_unused: return None for an input that the outputs do not depend on, rather than raise
            an error. By default, the value of ``materialize_grads``.
        is_grads_batched: whether the first dimension of ``grad_outputs`` is a batch dimension. All
            its entries are computed in one pass.
        materialize_grads: return zeros for an input that the outputs do not depend on.

    Returns:
        A tuple with the gradient of each input.

    Example:
        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> (first,) = torch.autograd.grad(x**3, x, create_graph=True)
        >>> torch.autograd.grad(first, x)
        (tensor(18.),)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> torch.autograd.grad(x**2, x, torch.eye(2), is_grads_batched=True)
        (tensor([[2., 0.],
                [0., 4.]]),)
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, "
            "but got: allow_unused=False."
        )
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To "
            "accumulate gradient for other parts of the graph, please use torch.autograd.backward.",
            FutureWarning, stacklevel=2,
        )  # fmt: skip
    names = tuple(inputs) if isinstance(inputs, dict) else None
    targets = as_tuple(inputs.values() if isinstance(inputs, dict) else inputs)
    if not targets:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    check_inputs(targets)
    sources = as_tuple(outputs)
    given = as_gradients(grad_outputs, len(sources))
    if is_grads_batched and not any(is_tensor(g) and g.dim() for g in given):
        raise RuntimeError(
            "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as "
            "the batch dimension, but none of them has a dimension."
        )
    roots = make_roots(sources, given, create_graph, is_grads_batched)
    keep_graph = create_graph if retain_graph is None else retain_graph
    if any(is_tensor(t) and not t.requires_grad for t in targets):
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    allowed = materialize_grads or bool(allow_unused)
    if is_grads_batched:
        from retrograd.autograd._batched import gradients_of_rows  # few programs need it

        gradients = gradients_of_rows(
            roots, given,
            lambda roots: _gradients(roots, targets, keep_graph, create_graph, allowed, sources),
        )  # fmt: skip
    else:
        gradients = _gradients(roots, targets, keep_graph, create_graph, allowed, sources)
    if materialize_grads:
        pairs = zip(targets, gradients, strict=True)
        gradients = [_zeros_for(t, create_graph) if g is None else g for t, g in pairs]
    return tuple(gradients) if names is None else dict(zip(names, gradients, strict=True))


def _zeros_for(target: Any, requires_grad: bool) -> Any:
    if not is_tensor(target):
        raise RuntimeError(
            "materialize_grads cannot be used when the given input is a GradientEdge"
        )
    return wrap(copies.zeros_like(target._data)).requires_grad_(requires_grad)


def _gradients(
    roots: list[Root], targets: tuple[Any, ...], keep_graph: bool, recorded: bool, allowed: bool,
    outputs: tuple[Any, ...],
) -> list[Any]:  # fmt: skip
    """The gradient of each target; ``allowed``: None where nothing depends on it."""
    captured = differentiate(roots, keep_graph, recorded, capture=targets)
    gradients = []
    for i in range(len(targets)):
        g: Any = captured.get(i)
        if g is None and not allowed:
            from retrograd.autograd._explaining._hints import not_used

            raise not_used(
                RuntimeError(
                    f"The differentiated Tensor at index {i} appears to not have been used in the "
                    "graph. Set allow_unused=True if this is the desired behavior."
                ),
                outputs,
                targets[i],
            )
        if type(g) in SPARSE:
            g = g if recorded else g.clone()
        elif g is not None and not recorded:  # others may hold the same array
            leaf = getattr(targets[i], "_data", None)
            like = leaf if isinstance(leaf, Lifted) else None  # which may be on a device
            if isinstance(g, Lifted):
                g = (g if g.copied_on_write else copies.clone(g)).as_gradient()
            else:
                g = arrays.owned(g, like)
            g = wrap(g)
        if g is not None and getattr(targets[i], "_differentiated", None) is not None:
            g = targets[i]._with(g)
        gradients.append(g)
    return gradients
