"""``linearize``: the derivative of a function at a point, as a linear function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd._modes import within
from retrograd.func._arguments import Given, as_tensor, check_outputs, has_arrays
from retrograd.func._reverse import Recording, zeros_for
from retrograd.func._trees import describe, flatten, flatten_as, tree_map, unflatten


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Computes a function and returns its Jacobian-vector product as a function.

    It is ``jvp`` for many tangents: ``func`` runs once, and each tangent costs one pass over what
    was recorded.

    Args:
        func: a function of tensors, or of nested tuples, lists and dictionaries of tensors.
        primals: the arguments of ``func``.

    Returns:
        The results, and a function that takes a tangent for each argument and returns those of the
        results.

    Example:
        >>> from retrograd.func import linearize
        >>> value, push_forward = linearize(torch.sin, torch.zeros(2))
        >>> push_forward(torch.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    if has_arrays(primals):
        given = Given(primals)
        value, push = linearize(func, *given.tree)
        return given.values(value), lambda *tangents: given.values(
            push(*tree_map(as_tensor, tangents))
        )
    recording = Recording(func, primals, primals)
    with recording.running:
        output = func(*recording.tree)
    outputs, shape = flatten(output)
    check_outputs(outputs, "linearize(f, *primals)")
    # Products with the Jacobian from the left are linear in the vectors, so *their* Jacobian is it
    # transposed, and products with that from the left are those wanted.
    vectors = Recording(None, [zeros_for(y) for y in outputs], scope=recording.scope)
    with within(grad_enabled=True, inference=False):
        pulled = recording.pulled(outputs, vectors.variables, create_graph=True)

    def push_forward(*tangents: Any) -> Any:
        try:
            leaves = flatten_as(recording.shape, tangents)
        except ValueError:
            raise RuntimeError(
                f"Expected the tangents {describe(flatten(tangents)[1])} to have the same argspec "
                f"as the primals {describe(recording.shape)}"
            ) from None
        for i, (t, x) in enumerate(zip(leaves, recording.variables, strict=True)):
            for what, of_t, of_x in (("shape", t.shape, x.shape), ("dtype", t.dtype, x.dtype)):
                if of_t != of_x:
                    raise RuntimeError(
                        f"tangent:{i} with {what} {of_t} in flattened pytree doesn't match the "
                        f"{what} {of_x} of the corresponding primal."
                    )
        moved = flatten(vectors.pull(pulled, leaves))[0]
        return unflatten(moved, shape)

    value = recording.cut(output)
    recording.close()
    return value, push_forward
