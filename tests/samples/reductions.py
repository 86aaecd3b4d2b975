"""Calls of reductions and running sums."""

from samples._words import calls, every

_ALL = "sum; mean; prod; all; any; amax; amin; max; min; argmax; argmin"
_WHOLE = "sum; prod; all; any; max; min; argmax; argmin; amax; amin"
REDUCTIONS = [
    *every("{x}.{r}()", r="sum; mean; prod; all; any",
            x="mat; sc; none; gap; tran; cube; nan; inf; onez; twoz; f16"),
    *every("{x}.{r}()", r="max; min; amax; amin; argmax; argmin",
            x="mat; sc; tran; tied; nan; inf; cube; f16"),
    *every("{x}.{r}()", r=_WHOLE, x="i; iv; k; u8; isc; ksc; i32; c64"),
    *every("mat.{r}({d})", r=_ALL,
            d="0; -1; 1; 0, True; -1, keepdim=True; dim=1, keepdim=False"),
    *every("{x}.{r}(0)", r=f"{_ALL}; cumsum", x="sc; tied; nan; inf; tran; cube; none; gap"),
    *every("{x}.{r}(-1)", r=f"{_WHOLE}; cumsum",
            x="i; k; u8; isc; i32; none; gap; onez; twoz; nan; tied; f16"),
    *every("cube.{r}({d})", r="sum; mean; amax; amin; all; any",
            d="(0, 2); [1]; (-1, 0), True; dim=(0, 1, 2); (); dim=[], keepdim=True"),
    *every("cube.{r}({d})", r="sum; mean",
            d="None, True; dim=None; axis=1; dim=1, keepdim=True; dtype=torch.float64; "
              "0, dtype=torch.float64; 0, True, dtype=torch.complex64"),
    *calls("""
        cube.prod(?) <- 1; 1, True; -1; dtype=torch.float64; 0, dtype=torch.float64
        cube.max(?) <- 1; 1, True; -1; axis=2
        cube.argmax(?) <- 1; 1, True; -1; None, True
        torch.argmin(?) <- tied; tied, 0; cube, 2; mat, None, True
        torch.max(?) <- mat; mat, 1
        torch.sum(?) <- mat; mat, 0; mat, (0, 1); i, dtype=torch.float32; k, 0; u8, 0; mat, dim=1
        torch.mean(?) <- mat; mat, 0; mat, (0, 1), True; i, dtype=torch.float32
        torch.mean(?) <- i, 0, dtype=torch.float64
        torch.prod(?) <- mat; mat, 0; iv, dtype=torch.float32; onez, 1; twoz, 1; twoz, 0
        torch.prod(?) <- onez, 0, True
        torch.cumsum(?) <- mat, 0; mat, -1; cube, 1; tran, 1; iv, 0; mat, 0, dtype=torch.float64
        torch.cumsum(?) <- k, 1; none, 0; empty, 0
        torch.amax(?) <- tied, (0, 1); tied, 1; mat, 0, True; nan, 1; i, 0
        torch.amin(?) <- tied, (0, 1); tied, 1; mat, 0, True; nan, 1; i, 0
        torch.all(?) <- k; mat, 0; nan; k, 0, True
        torch.any(?) <- k; mat, 0; nan; k, 0, True
        torch.max(?) <- mat, mat2; mat, other=mat2; i, iv; tied, 0, True; nan, 0; k, 1; i, 0
        torch.min(?) <- mat, mat2; mat, other=mat2; tied, 1; f16, 0; nan, 1; kv, 0
        torch.max(mat.detach(), 0, out=(vec.detach().clone(), iv.clone()))
        torch.min(mat.detach(), 1, out=(empty.detach().clone(), iempty.clone()))
        torch.max(mat.detach(), mat2.detach(), out=mat.detach().clone())
        torch.sum(?) <- u8, 0, dtype=torch.uint8; i, dtype=torch.int32; k, 0, dtype=torch.bool
        torch.prod(?) <- i, 0, dtype=torch.int8; k; f16; f16, 0; i8, 0; c64
        torch.cumsum(?) <- i, 0, dtype=torch.int16; f16, 0; i8, 0
        torch.argmax(?) <- nan; nan, 1; i8; tied, 1, True; input=tied, dim=0
        torch.argmin(?) <- nan, 0; f16; f16, 0; inf, 1
        torch.all(?) <- c64; i8; f16; mat, None, True; u8, 0; mat, axis=1
        torch.any(?) <- c64; i8; f16; i, (0, 1); u8; mat, 1, True
        mat.clone().cumsum_(0, dtype=mat.dtype); i32.clone().cumsum_(0); f16.clone().cumsum_(-1)
        one.prod(); one.prod(1); zero.prod(); gap.prod(1); gap.sum(1); gap.mean(1); gap.mean(0)
        none.sum((0, 1)); gap.all(1); gap.any(1); gap.max(0); gap3.max(2); gap3.argmax(0)
        gap3.amax(0); tied.max(1).values; tied.max(1).indices; tied.min(0)[1]; sc.max(0, True)
        sc.amax(-1); sc.cumsum(-1); one.sum(0); one.mean((0, 1))
    """),
]  # fmt: skip
NARROW = [
    *calls("""
        torch.ones(?, dtype=torch.float16).mean() <- 70000; 300, 300
        torch.ones(2, 70000, dtype=torch.float16).mean(?) <- 1; 0; (0, 1); 1, keepdim=True
        torch.tensor([NAN, 0.0, 0.0, 2.0]).to(sc.dtype).mul(sc * 0 + 1).prod()
        torch.where(k, nan, twoz).prod(); torch.where(k, nan, onez).prod()
    """),
]  # fmt: skip
GROUPS = {"reductions": REDUCTIONS, "narrow": NARROW}
ERRORS = [
    *every("{x}.{r}", x="mat; i",
            r="sum(2); mean(-3); prod(2); amax(5); max(2); argmax(-4); all(2); any(3); cumsum(2); "
              "sum((0, 0)); sum((0, -2)); amax((0, 0)); mean((0, 2)); all((1, 1))"),
    *calls("""
        sc.? <- sum(1); mean(-2); prod(1); max(1); cumsum(1); argmin(-2); amin(1)
        i.mean(); k.mean(); i.mean(0); mat.sum('a')
        ?.max() <- none; empty
        ?.argmax() <- none; empty
        ?.amax() <- none; gap
        gap.max(1); gap.argmin(1); gap3.amin((0, 1)); none.min(0); none.amin(0); mat.cumsum()
        torch.max(mat, 1.5); mat.clone().cumsum_(0, dtype=torch.float32); mat.clone().cumsum_(3)
        mat.sum(1.5); c64.argmax(0); k.argmax(); c64.max()
    """),
]  # fmt: skip

OTHER_GRAPH = {
    r"^(cube|torch.cumsum\(mat).*dtype=torch": "converting is a node of its own, not part of a sum",
    r"\bdim=None\b": "dim=None says no more than no dim; in PyTorch it is another overload",
}
ONLY_OURS = {r"^cube.*dtype=torch.complex64": "an internal assertion fails for real to complex"}
NOT_COMPLEX = {r"^(gap|none|gap3)\.am(ax|in)\(": "both refuse, PyTorch first for another reason"}
OTHER_WORDS = {"mat.sum('a')", "mat.sum(1.5)", "mat.cumsum()"}
NO_TANGENT = {r"^(none|gap)\.mean\((0|1|)\)$": "the mean of nothing is NaN, and moves by NaN; the "
                                              "gradient has no elements to show it"}  # fmt: skip
OTHER_TRANSFORM = {
    r"^nan\.(max|min)\(\)$":
        "the gradient goes to the NaN, and the tangent comes from it; PyTorch's looks for what "
        "equals NaN, and finds nothing",
    r"^(nan|inf)\.prod\(0\)$":
        "gradients divide the product, infinite, by infinity, in PyTorch too, and our tangent is "
        "NaN as they are; PyTorch's multiplies the other numbers",
}  # fmt: skip
