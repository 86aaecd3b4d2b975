"""Calls of scans: running products, extremes and logarithms of sums; differences and integrals."""

import numpy as np

from samples._pool import INF, NAN, draw
from samples._words import calls, every

# Large enough to be summed by products, and no multiple of anything.
SMOOTH = {"clong": draw((6, 1013), -2, 2, 4301), "ctall": draw((203, 70), -1.1, 1.1, 4302),
          "cline": draw((709,), -1.2, 1.2, 4303)}  # fmt: skip
SPECIAL = {
    "zline": np.where(np.arange(709) % 300 == 70, 0.0, np.cos(np.arange(709)) + 0.9),
    "cinfinite": np.where(np.arange(5000) == 70, INF, np.sin(np.arange(5000))),
    "zrun": np.array([[2.0, 0.0, 3.0, -1.0], [0.0, 0.0, 2.0, 5.0], [1.0, 2.0, 3.0, 0.0]]),
    "lrun": np.array([[-INF, -INF, 1.0, 2.0], [1.0, -INF, 3.0, 2.0], [INF, 1.0, 2.0, INF]]),
    "nrun": np.array([1.0, NAN, NAN, 2.0]), "trun": np.array([2.0, 1.0, 2.0, 1.0, 3.0]),
}  # fmt: skip

_ON = "mat; cube; tran; tied; nan; inf; zrun"
PRODUCTS = [
    *every("{x}.cumprod({d})", x=_ON, d="0; -1; dim=1"),
    *every("{x}.cumprod(0)", x="sc; vec; one; zero; empty; none; gap; gap3; onez; twoz; f16; iv; k;"
                               "u8; isc; c64; edge"),
    *every("{x}.cumprod(1)", x="none; gap; gap3; onez; twoz; i"),
    *calls("""
        torch.cumprod(?) <- mat, 0; mat, -1, dtype=torch.float64; iv, 0, dtype=torch.float32
        mat.clone().cumprod_(?) <- 0; -1; dim=0
        zrun.clone().cumprod_(1); (zrun.cumprod(1) * zrun).sum(); mat.clone().cumsum_(1)
        mat.clone().cumsum_(dim=0); sc.clone().cumprod_(0); i.clone().cumprod_(1)
        zrun.prod(); zrun.prod(0); zrun.prod(1); zrun.prod(1, True); cube.cumprod(2)
    """),
]  # fmt: skip
LARGE = calls("""
    clong.cumsum(?) <- 0; 1; -1
    ctall.cumsum(?) <- 0; 1
    clong.t().cumsum(?) <- 0; 1
    ctall.cumprod(0); ctall.cummax(0); ctall.logcumsumexp(0); clong.logcumsumexp(1)
    cline.cumprod(0); zline.cumprod(0); zline.prod(); cline.prod(); ctall.prod(0)
    (clong[:, :300] * 0.6).prod(1)
    cinfinite.cumsum(0); clong.cummin(1)
""")
EXTREMES = [
    *every("{x}.{r}({d})", r="cummax; cummin", x="mat; cube; tran; tied; nan; inf",
            d="0; -1; dim=1"),
    *every("{x}.{r}(0)", r="cummax; cummin", x="sc; vec; trun; nrun; empty; none; gap; f16; i; k; "
                                               "u8; isc"),
    *calls("torch.cummax(tied, 1).values; torch.cummin(trun, 0).indices; none.cummax(1)"),
]  # fmt: skip
LOGARITHMS = [
    *every("{x}.logcumsumexp({d})", x="mat; cube; tran; tied", d="0; -1; dim=1"),
    *every("{x}.logcumsumexp(0)", x="sc; vec; one; empty; none; gap; f16"),
    # Next to infinities, first derivatives only: second ones are NaN, here more, there less.
    *every("torch.enable_grad()(lambda: torch.autograd.grad({x}.logcumsumexp({d}).sum(), {x}))()",
            x="lrun; nan", d="0; 1"),
    "torch.enable_grad()(lambda: torch.autograd.grad(nrun.logcumsumexp(0).sum(), nrun))()",
    *every("{x}.detach().logcumsumexp({d})", x="lrun; nan", d="0; 1"),
    "torch.logcumsumexp(mat * 4, 1)",
]  # fmt: skip
GROUPS = {"products": PRODUCTS, "large": LARGE, "extremes": EXTREMES, "logarithms": LOGARITHMS}
ERRORS = [
    *every("{x}.{r}({d})", r="cumprod; cummax; cummin; logcumsumexp", x="mat; sc", d="2; -3"),
    *calls("""
        ?.cummax(0) <- c64
        ?.cummin(0) <- c64
        ?.logcumsumexp(0) <- i; k
        mat.cumprod(); mat.cummax()
    """),
]  # fmt: skip

OTHER_WORDS = {"mat.cumprod()", "mat.cummax()"}
OTHER_GRAPH = {r"^torch.cumprod\(mat.*dtype": "converting is a node of its own"}
NOT_COMPLEX = {
    r"^(sc|empty|none|gap)\.cumm": "both refuse, PyTorch first for another reason",
    r"^torch.cumprod.*dtype": "PyTorch also differentiates the imaginary part that was thrown away",
    r"^(nan|inf)\.cumprod|nan.*logcumsumexp": "infinities and NaN, where NumPy and C disagree",
}
