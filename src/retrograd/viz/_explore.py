"""Pages that step through a backward pass, or a Jacobian-vector product."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from retrograd.autograd._roots import as_tuple, is_tensor
from retrograd.autograd.forward_ad import dual_level, make_dual
from retrograd.viz._page import Page
from retrograd.viz._recording import record_pass, recording
from retrograd.viz._story import Story


def explore(
    loss_or_story: Any,
    params: Any = None,
    title: str | None = None,
    *,
    grad_tensors: Any = None,
) -> Page:
    """Create a page that shows a program next to its graph and steps through a backward pass.

    For tensors, a backward pass is run and recorded: by the engine, over the existing graph, which
    is kept, with every ``.grad`` left unchanged. A recorded story is shown with all its passes. A
    notebook displays the page; ``.save("page.html")`` writes it as one file that works offline, and
    ``.show()`` opens it.

    Args:
        loss_or_story: a tensor, a list of tensors, or what ``viz.recording`` recorded.
        params: a module or a dictionary of tensors, for names.
        title: title of the page.
        grad_tensors: initial gradients, as for ``autograd.backward``.

    Returns:
        The page.

    Example:
        >>> import retrograd as torch
        >>> from retrograd import viz
        >>> w = torch.tensor(2.0, requires_grad=True)
        >>> page = viz.explore((w * w).sin(), title="A sine")
        >>> page
        <Page 'A sine': 3 steps; .show() opens it, .save(path) writes it>
        >>> w.grad is None
        True
    """
    if isinstance(loss_or_story, Story):
        if params is not None or grad_tensors is not None:
            raise TypeError(
                "a recorded story has its names and gradients already; give params where it is "
                "recorded: viz.recording(params)"
            )
        return Page(loss_or_story.to_json(), title)
    losses = as_tuple(loss_or_story) if _is_tensors(loss_or_story) else ()
    if not losses:
        raise TypeError(
            "viz.explore takes a loss (a Tensor, or several in a list), or what viz.recording "
            f"gave, but got {_kind(loss_or_story)}"
        )
    vector = next((x for x in losses if x.numel() != 1 and x.requires_grad), None)
    if vector is not None and grad_tensors is None:
        raise RuntimeError(
            "grad can be implicitly created only for scalar outputs, but this one has the shape "
            f"{list(vector.shape)}: pass the initial gradient, for example "
            "viz.explore(y, grad_tensors=torch.ones_like(y))"
        )
    story = record_pass(losses, grad_tensors, params=params, title=title or "")
    return Page(story.to_json(), title)


def jvp(
    func: Callable[..., Any], primals: Any, tangents: Any, title: str | None = None
) -> Page:
    """Create a page that steps through a Jacobian-vector product: ``func`` runs forward, and each
    operation takes the tangents of its inputs along, with the rule and the numbers.

    Args:
        func: a function of tensors, which returns a tensor or several.
        primals: a tensor, or a tuple of tensors: the arguments of ``func``, as for
            ``torch.func.jvp``.
        tangents: for each of them how fast it changes, a tensor of the same shape.
        title: title of the page.

    Returns:
        The page.

    Example:
        >>> import retrograd as torch
        >>> from retrograd import viz
        >>> page = viz.jvp(lambda x: x * x, torch.tensor(3.0), torch.tensor(1.0))
        >>> page.story["forward"][0]["moved"]
        ['t(x) · x + x · t(x)', '1.0 · 3.0 + 3.0 · 1.0 = 6.0']
    """
    inputs, moves = as_tuple(primals), as_tuple(tangents)
    if len(inputs) != len(moves):
        raise ValueError(f"there are {len(inputs)} primals, but {len(moves)} tangents")
    try:
        names = list(inspect.signature(func).parameters)
    except (TypeError, ValueError):  # not written in Python
        names = []
    with recording(title=title or "Jacobian-vector product") as story, dual_level():
        leaves = [x.detach().requires_grad_() for x in inputs]
        duals = [make_dual(x, t) for x, t in zip(leaves, moves, strict=True)]
        for pair in zip(names, zip(leaves, duals, strict=True), strict=False):
            for tensor in pair[1]:
                story.tensors.name(tensor, pair[0])
        result = func(*duals)
        outputs = list(result) if isinstance(result, (tuple, list)) else [result]
        story.results = [x for x in outputs if is_tensor(x) and x._node is not None]
        if not story.results:
            raise RuntimeError("func returned nothing that was computed from the primals")
        return Page(story.to_json(), title)


def _is_tensors(x: Any) -> bool:
    """Whether this is a Tensor, or a list of them."""
    return is_tensor(x) or (isinstance(x, (list, tuple)) and all(map(is_tensor, x)))


def _kind(x: Any) -> str:
    if isinstance(x, (list, tuple)):
        odd = [type(entry).__name__ for entry in x if not is_tensor(entry)]
        return f"a list with a {odd[0]} in it" if odd else "an empty list"
    return f"a {type(x).__name__}"
