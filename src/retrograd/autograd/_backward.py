"""``backward`` and ``grad``: turning a user's request into a backward pass."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, within
from retrograd.autograd._engine import Root, Task, run
from retrograd.autograd._node import NOWHERE, AccumulateGrad, Node
from retrograd.autograd._roots import (
    GradientEdge,
    as_gradients,
    as_tuple,
    is_tensor,
    locate,
    make_roots,
    root_of,
)
from retrograd.autograd._wrap import SPARSE, Plug, wrap
from retrograd.ops import copies
from retrograd.ops._lifted import Lifted, device_value

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
            elif like is not None and (there := device_value(like)) is not None:
                g = there.placed(g)  # a constant that a rule gave under a transform
            else:
                g = arrays.owned(g, like)
            g = wrap(g)
        if g is not None and getattr(targets[i], "_differentiated", None) is not None:
            g = targets[i]._with(g)
        gradients.append(g)
    return gradients
