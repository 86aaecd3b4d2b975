"""A page that steps through a backward pass."""

from __future__ import annotations

from typing import Any

from retrograd.autograd._backward import as_tuple, is_tensor
from retrograd.viz._page import Page
from retrograd.viz._recording import record_pass
from retrograd.viz._story import Story


def explore(
    loss_or_story: Any,
    params: Any = None,
    title: str | None = None,
    *,
    grad_tensors: Any = None,
) -> Page:
    """Make a page that shows a program beside its graph and steps through a backward pass, node by
    node: the gradient that arrives, the rule, the values it uses, the gradients that leave.

    Of a tensor, or a list of tensors, the backward pass is run to be looked at: by the real engine
    over the real graph, which is kept, and with every ``.grad`` left as it was. What
    ``viz.recording`` has recorded is shown as it happened, with all its passes.
    ``grad_tensors`` are gradients to begin with, as ``autograd.backward`` takes them.

    ``params``, a Module or a dictionary of tensors, gives names. A notebook shows the page;
    ``.save("page.html")`` writes it, one file that needs no network, and ``.show()`` opens it.

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
            f"{list(vector.shape)}: say what to begin with, for example "
            "viz.explore(y, grad_tensors=torch.ones_like(y))"
        )
    story = record_pass(losses, grad_tensors, params=params, title=title or "")
    return Page(story.to_json(), title)


def _is_tensors(x: Any) -> bool:
    """Whether this is a Tensor, or a list of them."""
    return is_tensor(x) or (isinstance(x, (list, tuple)) and all(map(is_tensor, x)))


def _kind(x: Any) -> str:
    if isinstance(x, (list, tuple)):
        odd = [type(entry).__name__ for entry in x if not is_tensor(entry)]
        return f"a list with a {odd[0]} in it" if odd else "an empty list"
    return f"a {type(x).__name__}"
