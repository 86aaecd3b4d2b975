"""Every sample of every operation, computed again in checkpoints: the same gradients to the bit."""

import functools
import re

import numpy as np
import pytest
from samples import GROUPS, every_group
from samples._pool import FIXED, INF, NAN, as_array, in_dtype, names_in, put, weights_for, written

import retrograd
from retrograd.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts


def derivatives(expression, run):
    """First and second derivatives of a sample, called in a certain way."""
    retrograd.manual_seed(0)
    names = names_in(expression)
    inputs = [retrograd.from_numpy(in_dtype(name, "float64")) for name in names]
    leaves = [
        x.requires_grad_() for name, x in zip(names, inputs, strict=True) if name not in FIXED
    ]
    known = {"torch": retrograd, "put": put, "written": written, "INF": INF, "NAN": NAN}
    found = run(lambda *given: eval(expression, {**known, **dict(zip(names, given, strict=True))}))(
        *inputs
    )
    results = found if isinstance(found, (tuple, list)) else [found]
    roots = [r for r in results if getattr(r, "requires_grad", False)]
    if not roots:
        return []
    grad = functools.partial(retrograd.autograd.grad, allow_unused=True)
    weights = [retrograd.from_numpy(w).requires_grad_() for w in weights_for(roots, 100)]
    first = grad(roots, leaves, weights, create_graph=True)
    again = [g for g in first if g is not None and g.requires_grad]
    second = grad(again, leaves, [retrograd.ones_like(g) for g in again]) if again else ()
    return [None if g is None else as_array(g) for g in (*first, *second)]


def nested(function):
    """``function`` in two checkpoints, one in the other, the inner one stopped early."""
    run = functools.partial(checkpoint, use_reentrant=False)
    return lambda *args: run(lambda *given: run(function, *given), *args, early_stop=False)


def keeping_all(function):
    keep = functools.partial(create_selective_checkpoint_contexts, lambda ctx, op, *a, **k: True)
    return lambda *args: checkpoint(function, *args, use_reentrant=False, context_fn=keep)


# What writes over its own inputs is refused, and so is what writes over what was kept.
REFUSALS = {
    nested: "one of the variables needed for gradient computation has been modified",
    keeping_all: "has been m",  # modified, or mutated
}
WRITES = re.compile(r"_\(|inplace|True, True|max_norm|instance_norm|put\(|written|out=|ebw \+ 0")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", [nested, pytest.param(keeping_all, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("group", every_group(default=8))
def test_every_operation_to_the_bit(group, how):
    for expression in GROUPS[group]:
        expected, found = (
            attempt(derivatives, expression, run) for run in (lambda function: function, how)
        )
        if isinstance(expected, Exception):
            assert type(found) is type(expected), expression
        elif isinstance(found, Exception):
            assert WRITES.search(expression), f"{expression}: {found}"
            assert REFUSALS[how] in str(found), expression
        else:
            assert len(found) == len(expected), expression
            for a, b in zip(expected, found, strict=True):
                assert (a is None) == (b is None), expression
                assert a is None or np.array_equal(a, b, equal_nan=True), expression


def attempt(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return error
