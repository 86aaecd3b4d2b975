"""Calls of statistics: variance and its kin, covariance, sums without NaN, extremes in pairs."""

import numpy as np

from samples._pool import INF, NAN, draw
from samples._words import calls, every

# Large enough to be worked on in blocks, and no multiple of anything.
SMOOTH = {"slarge": draw((70, 1103), -2, 2, 4001), "scols": draw((1103, 70), -2, 2, 4002).T}
SPECIAL = {
    "stwo": np.array([1.0, 1.0]), "slow": np.array([[-INF, -INF], [-INF, 1.0]]),
    "shigh": np.array([[INF, 1.0], [INF, INF]]), "snan": np.array([[NAN, 1.0], [NAN, NAN]]),
}  # fmt: skip
FIXED = {
    "fw": np.array([1, 2, 4]), "aw": np.array([0.5, 1.0, 2.5]), "fwnone": np.array([0, 0, 0]),
    "fless": np.array([1, -1, 2]), "fshort": np.array([1, 2]), "fdeep": np.array([[1]]),
    "aless": np.array([0.5, -1.0, 2.5]),
}  # fmt: skip

SPREADS = [
    *every("{x}.{r}({d})", r="var; std", x="mat; cube",
            d="; 0; 1; -1; (0, 1); 0, True; 0, False; 0, False, True; 1, keepdim=True; False; True;"
              "unbiased=False; dim=1, unbiased=False; dim=0, correction=2; correction=0; "
              "(0, 1), correction=0.5, keepdim=True; None; dim=None, unbiased=True; "
              "keepdim=True; axis=0, keepdims=True; correction=None; [1]; 0, correction=2; "
              "0, correction=5; correction=30"),
    *every("torch.{r}_mean({x}{d})", r="var; std", x="mat; cube",
            d="; , 0; , (0, 1); , 0, False; , 0, True, True; , False; , dim=1, correction=2; "
              ", unbiased=False; , 1, keepdim=True; , correction=0; , None"),
    *every("{x}.{r}()", r="var; std", x="sc; one; vec; tran; step; zero; stwo; empty; none; gap; "
                                        "inf; nan; f16; c64"),
    *every("{x}.{r}(0)", r="var; std", x="sc; one; vec; tran; btran; stwo; empty; none; gap; "
                                         "inf; nan; f16; c64"),
    *every("{x}.{r}(-1, correction=0)", r="var; std", x="sc; one; col; tied; none; gap; stwo"),
    *every("torch.{r}_mean({x})", r="var; std", x="sc; one; vec; tran; stwo; empty; none; f16"),
    *every("torch.{r}_mean({x}, 0)[{n}]", r="var; std", n="0; 1", x="mat; tran; sc; none"),
    *every("{x}.{r}({d})", x="slarge; scols", r="var; std; logsumexp", d="0; 1; (0, 1)"),
    *calls("mat.var(correction=6); mat.var(correction=7); mat.var(0, correction=2); torch.var(mat)"
           "; torch.std(mat, 0); torch.std(mat, False); torch.var(mat, [0, 1], True)"
           "; mat.detach().var(()); mat.detach().std(dim=[])"),
]  # fmt: skip
SUMS = [
    *every("{x}.logsumexp({d})", x="mat; cube; tran; tied; inf; nan",
            d="0; -1; (0, 1); 1, True; dim=0, keepdim=True; [1]"),
    *every("{x}.logsumexp(0)", x="sc; one; vec; empty; none; gap; gap3; slow; shigh; snan; big; iv;"
                                 "k; u8; f16; c64; isc"),
    *every("{x}.logsumexp(1)", x="none; gap; gap3; slow; shigh; snan; i"),
    *calls("torch.special.logsumexp(mat, dim=0); torch.special.logsumexp(i, 1, True)"),
    *calls("torch.logsumexp(?) <- mat, 0; mat, (0, 1), True; none, (0, 1); mat * 1000, 1"),
    *every("{x}.{r}({d})", r="nansum; nanmean", x="mat; nan; snan; tran",
            d="; 0; -1; (0, 1); 1, True; dim=0, keepdim=True; [1]; dim=None; ()"),
    *every("{x}.{r}()", r="nansum; nanmean", x="sc; empty; none; gap; f16; inf"),
    *calls("""
        i.nansum(); k.nansum(0); u8.nansum(); i.nansum(1, True); isc.nansum(0)
        i.nansum(?) <- dtype=torch.float32; 0, dtype=torch.float64; dtype=torch.complex64
        snan.detach().nansum(?) <- dtype=torch.int32; 0, dtype=torch.uint8; 1, dtype=torch.bool
        slarge.nansum(); slarge.nansum(0); scols.nansum(1); scols.aminmax(dim=0)
        torch.nansum(nan, 0); torch.nanmean(nan, 1, True)
    """),
]  # fmt: skip
EXTREMES = [
    *every("{x}.aminmax({d})", x="mat; tied; tran; nan; inf; cube",
            d="; dim=0; dim=-1; dim=1, keepdim=True; keepdim=True"),
    *every("{x}.aminmax()", x="sc; i; k; u8; f16; isc"),
    *calls("sc.aminmax(dim=0); none.aminmax(dim=1); gap.aminmax(dim=0); torch.aminmax(tied, dim=0)"
           "; tied.aminmax(dim=1).min; tied.aminmax().max; i.aminmax(dim=1)"),
]  # fmt: skip
COVARIANCES = [
    *every("{x}.{r}()", r="cov; corrcoef",
            x="mat; sq; tran; step; vec; sc; one; row; col; empty; none; gap; i; iv; inf"),
    *calls("""
        mat.cov(?) <- correction=0; correction=2; correction=3; correction=7
        mat.cov(?) <- fweights=fw; aweights=aw; fweights=fw, aweights=aw
        mat.cov(?) <- fweights=fw, correction=0; aweights=aw, correction=0
        torch.cov(mat, fweights=fw); torch.corrcoef(sq); vec.cov(fweights=fw); i.cov(aweights=aw)
    """),
]  # fmt: skip
GROUPS = {"spreads": SPREADS, "sums": SUMS, "extremes": EXTREMES, "covariances": COVARIANCES}
ERRORS = [
    *every("{x}.{r}", x="i; k", r="var(); std(0); nanmean(); var(2); var(0, True)"),
    *calls("""
        torch.var_mean(?) <- i; k, 0; mat, 5
        torch.std_mean(?) <- i; k, 0; mat, (0, 0)
        mat.? <- var(2); std((0, 0)); logsumexp(2); logsumexp((0, 0)); nansum(2)
        mat.? <- aminmax(dim=2); nanmean(4)
        ?.aminmax() <- none; empty; c64
        none.aminmax(dim=0); gap.aminmax(dim=1); cube.cov(); cube.corrcoef(); k.cov()
        c64.nansum(dtype=torch.int32); f64.nansum(dtype=torch.complex64)
        f64.nanmean(dtype=torch.int32); f64.mean(dtype=torch.int32)
        f64.cumsum(0, dtype=torch.bool); f64.cumprod(0, dtype=torch.bool)
        c64.nansum(); c64.nanmean(); mat.var(0, correction=1, unbiased=True); mat.var('a')
        mat.cov(?) <- fweights=fwnone; fweights=fless; fweights=fshort; fweights=fdeep; fweights=aw
        mat.cov(?) <- aweights=fw; aweights=aless; aweights=aw[:2]; aweights=aw[None]
        mat.logsumexp(); mat.aminmax(0)
    """),
]  # fmt: skip

OTHER_WORDS = {
    "mat.var(0, correction=1, unbiased=True)", "mat.var('a')", "mat.logsumexp()", "mat.aminmax(0)",
}  # fmt: skip
OTHER_GRAPH = {
    r"^(vec|sc|one|row|col|empty)\.(cov|corrcoef)\(": "PyTorch takes the real part",
}
NOT_COMPLEX = {
    r"^mat.cov\(correction=[37]": "a complex number over zero, where NumPy and C disagree",
}
OTHER_SAVED = {"ComplexBackward0": "PyTorch keeps both parts, only to know that they are real"}
NO_TANGENT = {
    r"\b(none|gap|empty)\b": "what is NaN because there is nothing moves by NaN; the gradient has "
                             "no elements to show it",
    r"^(col|inf)\.corrcoef": "NaN clamped: it does not move, but on the way back that is 0 over 0",
}  # fmt: skip
OTHER_TRANSFORM = {
    r"logsumexp\(none, \(0, 1\)\)$|^((empty|none)\.logsumexp\(0|gap3?\.logsumexp\(1)\)$":
        "of no numbers it is minus infinity for good, and does not move; PyTorch divides 0 by 0",
    r"^((empty|none)\.std\(0?\)|gap\.std\((-1, correction=0)?\))$|"
    r"^torch\.std_mean\((empty|none)(, 0)?\)(\[0\])?$":
        "the spread of no numbers depends on nothing, and does not move; PyTorch divides 0 by 0",
    r"\.aminmax\(keepdim=True\)$": "PyTorch's vmap keeps one dimension, not all of an entry",
}  # fmt: skip
