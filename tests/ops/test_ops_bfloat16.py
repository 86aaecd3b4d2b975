"""Operations on bfloat16 beside PyTorch's: dtypes, errors, values and gradients of samples.

PyTorch's kernels compute in float32 and round once. So do ours, and where that says all, values are
compared to the bit. Elsewhere PyTorch rounds within a kernel, or has several kernels where we have
one: there the values may differ by some units of the last of the eight bits.
"""

import re
from typing import Any

import numpy as np
import pytest
from samples import MODULES, SAMPLES, SOURCE
from samples._pool import FIXED, _run, in_dtype, names_in
from test_ops import attempt, words

import retrograd

# Modules of samples. Of the first, values are compared to the bit.
EXACT = ("differences", "dropout", "elementwise", "in_place", "indexing", "padding",
         "products", "reductions", "sampling", "shapes", "sorting")  # fmt: skip
ROUNDED = ("activations", "attention", "convolution", "pointwise", "softmax")
LONG = ("arranging", "embedding", "losses", "matrices", "normalization", "norms",
        "order_statistics", "placing", "pooling", "recurrent", "scans", "special", "statistics",
        "unpooling")  # fmt: skip
UNIT = 2.0**-8
# Where PyTorch rounds more than once, or not as its own other kernels do.
NOT_EXACT = {
    r"\*\* 3|pow_\(3\)|\*\* -2|prod\(": "it rounds each product",
    r"rsqrt|\*\* -0\.5": "it rounds the root",
    r"vec \* fsc": "it takes the number in double precision, though it is a tensor",
    r"alpha=3": "it rounds the product",
}
# Differences of numbers that are equal but for their rounding, and long chains of rounded steps.
COARSE = {
    r"softsign\(act_huge|mat / mat|sinc\(sc\)|cosine_similarity\(sc, sc2": "nearly zero",
    r"ndtr\(sp_far|i0e\(|cube / one|addcdiv\(sc, sc, sc2\)|angle\(\(mat": "it rounds quotients",
    r"\.std\(-1\)|logsumexp\(|corrcoef|multi_head_attention|scaled_dot": "it rounds in between",
    r"nll_loss\(ls_image, ls_tm, torch.tensor": "it adds up in bfloat16",
    r"olarge\.(kthvalue|mode)": "which one of equal elements is chosen",
    r"signbit\(nan\)": "NumPy loses the sign of a NaN",
}
# We compute what PyTorch has no kernel for, or refuse what it has one for by chance.
OTHER_ERROR = re.compile(
    r"cdist|pdist\(ls_x\[:1\]|am, 0\.0, True|view_as_complex|binomial"
)
# PyTorch's gradients of these fail, or are of a wrong shape.
OTHER_GRADIENT = re.compile(
    r"2\.5 % pos|floor_divide_|a(sinh|cosh|tanh)_|arc(sinh|cosh|tanh)_|scatter|index_fill"
    r"|addr\(mx_i|heaviside_|dtype=torch.complex64|group_norm\(nx, 2, None|dist\(|special\.i1"
)
# Of these, PyTorch's gradient is another one than its tangent, in any dtype.
WRONG_GRADIENT = re.compile(r"tied, 'amax', include_self=False")


def evaluated(library: Any, expression: str) -> tuple[dict[str, Any], list[Any]]:
    tensors = {}
    for name in names_in(expression):
        tensor = library.from_numpy(in_dtype(name, "float32"))
        if name not in FIXED:
            tensor = tensor.to(library.bfloat16).requires_grad_(True)
        tensors[name] = tensor
    result = _run(library, expression, tensors)
    return tensors, list(result) if isinstance(result, (tuple, list)) else [result]


def gradients(library: Any, tensors: dict[str, Any], results: list[Any]) -> list[Any]:
    roots = [r for r in results if getattr(r, "requires_grad", False)]
    leaves = [t for t in tensors.values() if t.requires_grad]
    drawn = np.random.default_rng(1)
    given = [
        library.from_numpy(drawn.uniform(-1, 1, tuple(r.shape)).astype("f4")).to(r.dtype)
        for r in roots
    ]
    return list(library.autograd.grad(roots, leaves, given, allow_unused=True)) if roots else []


def elements(x: Any) -> np.ndarray:
    x = x.detach().resolve_conj().resolve_neg()
    narrow = str(x.dtype) == "torch.bfloat16"
    return np.asarray((x.float() if narrow else x).numpy())


def difference(theirs: Any, ours: Any, units: float) -> str:
    """What differs by more than some units of the last place of the largest element."""
    if not hasattr(theirs, "numel") or not hasattr(ours, "numel"):
        return "" if type(theirs).__name__ == type(ours).__name__ else f"{theirs} {ours}"
    if (str(theirs.dtype), tuple(theirs.shape)) != (str(ours.dtype), tuple(ours.shape)):
        return f"{theirs.dtype} {theirs.shape} in PyTorch, {ours.dtype} {ours.shape} here"
    a, b = elements(theirs), elements(ours)
    if np.array_equal(a, b, equal_nan=a.dtype.kind in "fc"):
        return ""
    if a.dtype.kind in "fc" and str(theirs.dtype) != "torch.bfloat16":
        # Wider dtypes are rounded as the vector instructions of the processor have it.
        eps = 4 * np.finfo(a.dtype).eps
        if np.allclose(a, b, eps, eps, equal_nan=True):
            return ""
    if units and a.dtype.kind in "fc":
        finite = np.isfinite(a)
        far = units * UNIT * np.abs(a[finite]).max(initial=2.0**-44)
        same = a[~finite].tolist() == b[~finite].tolist() or np.isnan(a[~finite]).any()
        same = same and np.array_equal(finite, np.isfinite(b))
        if same and np.abs(a[finite] - b[finite]).max(initial=0) <= far:
            return ""
    return f"{a.ravel()[:6].tolist()} in PyTorch, {b.ravel()[:6].tolist()} here"


def differences(torch: Any, expression: str, exact: bool) -> list[str]:
    torch.manual_seed(0)
    theirs = attempt(evaluated, torch, expression)
    retrograd.manual_seed(0)
    ours = attempt(evaluated, retrograd, expression)
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        same = words(theirs) == words(ours) or OTHER_ERROR.search(expression)
        return [] if same else [f"{words(theirs)} in PyTorch, {words(ours)} here"]
    if any(re.search(p, expression) for p in COARSE):
        return []
    exact = exact and not any(re.search(p, expression) for p in NOT_EXACT)
    results = zip(theirs[1], ours[1], strict=True)
    found = [x for a, b in results if (x := difference(a, b, 0 if exact else 5))]
    if WRONG_GRADIENT.search(expression):
        return found
    grads = attempt(gradients, torch, *theirs), attempt(gradients, retrograd, *ours)
    if any(isinstance(x, Exception) for x in grads):
        same = words(grads[0]) == words(grads[1]) or OTHER_GRADIENT.search(expression)
        return found if same else [*found, f"{words(grads[0])} in PyTorch, {words(grads[1])} here"]
    for a, b in zip(*grads, strict=True):
        if (a is None) != (b is None):
            found.append(f"gradient: {a} in PyTorch, {b} here")
        elif a is not None and (x := difference(a, b, 8)):
            found.append(f"gradient: {x}")
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "module", [*EXACT, *ROUNDED, *(pytest.param(m, marks=pytest.mark.long) for m in LONG)]
)
def test_samples_in_bfloat16(torch: Any, module: str) -> None:
    if module not in MODULES:
        pytest.skip("not among the samples that were asked for")
    found = []
    for e in SAMPLES:
        if SOURCE[e] is MODULES[module] and not all(n in FIXED for n in names_in(e)):
            found += [f"{e}: {x}" for x in differences(torch, e, module in EXACT)]
    assert not found, "\n".join(found)


def test_exceptions_are_needed(torch: Any) -> None:
    """Each pattern of values that are not compared to the bit is there for a sample."""
    samples = [e for e in SAMPLES if SOURCE[e].__name__.split(".")[-1] in EXACT]
    for pattern in NOT_EXACT:
        matching = [e for e in samples if re.search(pattern, e)]
        pairs = [(evaluated(torch, e), evaluated(retrograd, e)) for e in matching]
        assert any(
            difference(a, b, 0)
            for theirs, ours in pairs
            for a, b in zip(theirs[1], ours[1], strict=True)
        ), pattern
