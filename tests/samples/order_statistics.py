"""Calls of order statistics: medians, the k-th smallest, the most frequent, quantiles."""

import numpy as np

from samples._pool import INF, NAN, draw
from samples._words import calls, every

SMOOTH = {"olarge": draw((41, 203), -2, 2, 4501)}
SPECIAL = {
    "otied": np.array([[2.0, 1.0, 1.0, 2.0], [3.0, 3.0, 1.0, 2.0]]),
    "onan": np.array([[NAN, 1.0, 2.0, 5.0], [NAN, NAN, NAN, NAN], [4.0, NAN, 3.0, 6.0]]),
    "oholes": np.array([[NAN, 1.0, 2.0, 5.0], [8.0, 7.0, 4.0, 9.0], [4.0, NAN, 3.0, 6.0]]),
    "oinf": np.array([[-INF, 1.0, INF, 2.0], [INF, INF, 1.0, 0.0]]),
    "often": np.array([[2.0, 1.0, 2.0, 1.0, 3.0], [5.0, 4.0, 4.0, 4.0, 5.0]]),
    "oq": np.array([0.0, 0.25, 0.6, 1.0]), "oqs": np.array(0.4),
}  # fmt: skip

_ON = "mat; cube; tran; vec; otied; onan; oinf"
MEDIANS = [
    *every("{x}.{r}()", r="median; nanmedian",
            x=f"{_ON}; sc; one; step; empty; none; f16; i; u8; isc; iempty"),
    *every("{x}.{r}({d})", r="median; nanmedian", x="mat; cube; tran; otied; oholes; oinf; often",
            d="0; -1; 1, True; dim=0, keepdim=True"),
    # Which of several NaN is taken PyTorch leaves to chance.
    *every("onan.detach().{r}({d})[0]", r="median; nanmedian", d="0; 1; -1, True"),
    *every("{x}.{r}(0)", r="median; nanmedian", x="sc; vec; one; f16; i; isc; gap"),
    *every("olarge.{r}", r="median(); median(0); nanmedian(1); kthvalue(30); mode(0); "
            "quantile(0.3, 0); quantile(0.7)"),
    *calls("torch.median(mat); torch.nanmedian(oholes, 1).values; none.median(1)"
           "; mat.median(1)[0]"),
]  # fmt: skip
CHOICES = [
    *every("{x}.kthvalue({d})", x="mat; cube; tran; oinf",
            d="1; 2; 2, 0; k=1, dim=1; 2, -1, True; 1, dim=0, keepdim=True"),
    # Which of several equal elements is taken PyTorch leaves to chance.
    *every("{x}.detach().kthvalue({d})[0]", x="otied; onan; often", d="1; 2; 3; 2, 0; 2, -1, True"),
    *calls("sc.kthvalue(1); sc.kthvalue(1, 0, True); i.kthvalue(2); u8.kthvalue(3); f16.kthvalue(1)"
           "; torch.kthvalue(mat, 2).indices; none.kthvalue(2)"),
    *every("{x}.mode({d})", x="mat; cube; tran; otied; often; oinf",
            d="; 0; -1, True; dim=1; dim=0, keepdim=True"),
    *calls("?.mode() <- sc; i; k; u8; f16; isc; none; kv; often\nsc.mode(0, True)"
           "; torch.mode(often, 1).values"),
]  # fmt: skip
QUANTILES = [
    *every("{x}.{r}({q})", r="quantile; nanquantile", x="mat; cube; tran; otied; onan",
            q="0.3; 0.5; 0; 1; 0.3, 0; 0.7, -1; 0.3, 1, True; 0.4, None, True; "
              "0.9, dim=0, keepdim=True; oq; oq, 0; oq, 1, True; oq[:0], 0; oq[1], 1"),
    *every("mat.{r}(0.3, {d}, interpolation='{w}')", r="quantile; nanquantile", d="0; 1; None",
            w="linear; lower; higher; midpoint; nearest"),
    *every("otied.quantile(oq, {d}, interpolation='{w}')", d="0; 1",
            w="linear; lower; higher; midpoint; nearest"),
    *calls("""
        sc.quantile(0.5); sc.quantile(0.5, 0); sc.quantile(oq, -1); one.quantile(0.2, 0)
        mat.quantile(q=0.5, dim=1); torch.quantile(mat, 0.1); torch.nanquantile(onan, 0.5, 1)
        oinf.detach().quantile(0.25, 1); oinf.detach().quantile(oq.detach(), 0)
        mat.quantile(oqs); mat.quantile(oqs, 1); onan.nanquantile(oqs, 0); vec.quantile(0.8)
    """),
]  # fmt: skip
GROUPS = {"medians": MEDIANS, "choices": CHOICES, "quantiles": QUANTILES}
ERRORS = [
    *every("{x}.{r}", x="k; c64", r="median(); median(0); nanmedian(); nanmedian(0); kthvalue(1)"),
    *every("{x}.{r}", x="empty; none", r="median(0); nanmedian(0); mode(0); kthvalue(1, 0)"),
    *every("{x}.{r}", x="mat; sc", r="median(2); mode(2); kthvalue(1, 2); kthvalue(0); kthvalue(4);"
            "quantile(1.5); quantile(-0.1); quantile(NAN); quantile(0.5, 2); nanquantile(2.0); "
            "quantile(0.5, interpolation='abc'); quantile(f32); quantile(f64[None])"),
    *calls("""
        c64.mode(); i.quantile(0.5); f16.quantile(0.5); c64.quantile(0.5); empty.quantile(0.5)
        none.quantile(0.5, 1); i.nanquantile(0.5); mat.quantile(f64); torch.kthvalue(mat, 1.5)
        mat.quantile('a')
    """),
]  # fmt: skip

NOT_COMPLEX = {r"quantile|median|mode|kthvalue": "numbers that have no order; both refuse"}
OTHER_SAVED = {"GatherBackward0": "of the tensor itself only the shape is needed"}
OTHER_GRAPH = {
    r"quantile\(oq(,|\)|\[:)": "PyTorch transposes in place, a node of another name",
    r"\.quantile\((oqs|oq\[1)": "PyTorch has a node for products with a number",
}
NO_TANGENT = {
    r"^onan\.(nan)?quantile\(oq": "between two NaN, where going further in q leads from NaN to NaN",
}
OTHER_TRANSFORM = {
    r"^onan\.median\(\)$": "the median is the NaN: the gradient goes to it, and the tangent comes "
                           "from it; PyTorch's looks for what equals NaN, and finds nothing",
}  # fmt: skip
