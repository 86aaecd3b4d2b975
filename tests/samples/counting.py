"""Calls that count: elements that are not zero, integers, and numbers in bins."""

import numpy as np

from samples._pool import INF, NAN, draw
from samples._words import calls, every

SMOOTH = {"hmany": draw((4, 10), -2, 2, 4201), "hweight": draw((4, 10), 0.5, 2, 4202),
          "bweight": draw((4,), -2, 2, 4203)}  # fmt: skip
SPECIAL = {
    "hedge": np.array([0.0, 0.5, 1.0, 2.0, -1.0]), "hsame": np.array([1.0, 1.0]),
    "hbins": np.array([-1.0, 0.0, 0.25, 2.0]), "hnan": np.array([NAN, 1.0, INF]),
}  # fmt: skip
FIXED = {"bints": np.array([3, 1, 2, 1]), "bneg": np.array([1, -2])}

COUNTS = [
    *every("{x}.count_nonzero({d})", x="mat; twoz; i; k; nan",
            d="; 0; -1; (0, 1); dim=1; []; dim=None"),
    *calls("""
        ?.count_nonzero() <- sc; zero; empty; none; gap; u8; f16; c64; cube; tran
        sc.count_nonzero(0); gap.count_nonzero(1); torch.count_nonzero(onez, 0)
    """),
]  # fmt: skip
INTEGERS = calls("""
    torch.bincount(?) <- bints; bints, minlength=6; iempty; iempty, minlength=3; u8; i32.abs()
    torch.bincount(iv, ?) <- f16; f32; f64; iv
    torch.bincount(bints, ?) <- bweight; weights=bweight, minlength=7; weights=bints
    torch.hash_tensor(?) <- mat; i; k; mat, 1; i, 0, keepdim=True; f32, (); i32; f16; cube, (0, 2)
    mat.hash_tensor()
    torch.nonzero_static(?, size=3) <- twoz; i; sc; kv; none
    twoz.nonzero_static(size=1); torch.nonzero_static(twoz, size=5, fill_value=7)
    bints.bincount(); bints.bincount(bweight); bints[::2].bincount(weights=bweight[::2])
""")
BINS = [
    *every("{x}.histc({d})", x="hmany; mat; tran", d="; 4; 4, -1, 1; bins=3, min=0, max=2"),
    *calls("""
        hedge.histc(2, 0, 1); hsame.histc(3); empty.histc(3); hnan.histc(3, 0, 2); f16.histc(4)
        torch.histc(hedge, 5); torch.histc(hedge, bins=4, max=2)
    """),
    *every("torch.histogram({x}, {d})", x="hmany; mat", d="4; 3, range=(-1., 1.); 5, density=True"),
    *calls("""
        torch.histogram(hmany, hbins.detach()); hmany.histogram(3, weight=hweight)
        torch.histogram(hmany, 3, weight=hweight, density=True); hedge.histogram(2, range=(0., 1.))
        hsame.histogram(2); empty.histogram(3); hedge.histogram(3, range=(1., 1.))
        (lambda r: (r.hist, *r.bin_edges))(torch.histogramdd(hmany.detach()[:, :2], ?)) <- 2; [2, 3]
        torch.histogramdd(hmany.detach()[:, :2], 2, density=True).hist
        torch.histogramdd(hmany.detach()[:, :2], ?).bin_edges[1] <- 2, [-1., 1., 0., 2.]
        torch.histogramdd(hmany.detach()[:, :2], ?).hist <- [hbins.detach()] * 2
        torch.histogramdd(hmany.detach()[:, :2], ?).hist <- 3, weight=hweight.detach()[:, 0]
        torch.histogramdd(hmany.detach().reshape(4, 5, 2), (2, 2)).hist
        torch.histogramdd(none.detach(), bins=2).hist
        hedge.histogram(hbins.detach(), density=True); torch.histogram(input=hedge, bins=2).hist
    """),
]  # fmt: skip
GROUPS = {"counts": COUNTS, "integers": INTEGERS, "bins": BINS}
ERRORS = calls("""
    mat.count_nonzero(2); mat.count_nonzero((0, 0)); i.histc(); mat.histc(0); mat.histc(4, 1, -1)
    hnan.histc(3); c64.histc(); torch.histc(mat, 2.5)
    torch.bincount(?) <- bints, vec; bneg; i; vec; bints, minlength=-1; k; kv; isc; bints, mat
    torch.histogram(?) <- i, 3; mat, 0; mat, mat; mat, 3, range=(1., -1.); mat, empty; f16, 3
    torch.histogramdd(?) <- vec, 2; mat, [2]; mat, [2, 0, 1]; i, 2; mat, 2, [0., 1.]; f16[None], 2
    torch.histogramdd(?) <- mat, 2, weight=vec; mat, 2, [0., 1., 2., 1., 0., 1.]; hnan[:, None], 2
    torch.nonzero_static(mat, size=-1)
    torch.histogram(?) <- hnan, 2; mat, 3, range=(1.,); mat, 3, weight=vec; mat, f32
""")

ONLY_OURS = {r"bweight": "sums of weights are linear in them"}
NOT_COMPLEX = {r"hist|bincount|hash": "numbers that have no order; both refuse"}
_REFUSED = "PyTorch has no derivative of it either; its node says so"
NO_SLOPE = {"histogram": _REFUSED, "weighed_histogram": _REFUSED, "histogramdd": _REFUSED,
            "weighed_histogramdd": _REFUSED}  # fmt: skip
OTHER_WORDS = {"hnan.histc(3)"}
ROUGH = {"histogram": _REFUSED}
NOT_BATCHED = {r"nonzero_static|histogramdd": "shapes or ranges that depend on values",
               r"bincount\(": "as many results as the greatest number is"}  # fmt: skip
