"""Decompositions of matrices of low rank. Every sample sets the seed."""

import numpy as np

from samples._pool import draw
from samples._words import calls

_LEFT, _RIGHT = draw((6, 2), -1, 1, 4301), draw((2, 4), -1, 1, 4302)
SMOOTH = {"lrx": _LEFT @ _RIGHT, "lrwide": (_LEFT @ _RIGHT).T, "lrfull": draw((5, 4), -1, 1, 4303)}
FIXED = {"lrsym": np.diag(np.arange(1.0, 8)) + 0.1, "lrpos": np.diag(np.arange(2.0, 9))}


def _seeded(expressions: list[str]) -> list[str]:
    return [f"(torch.manual_seed({n}), {e})[1]" for n, e in enumerate(expressions)]


GROUPS = {
    "low_rank": _seeded(calls("""
        torch.svd_lowrank(?)[1] <- lrx, 2; lrwide, 2; lrx, q=2, niter=1; lrx, 2, M=lrx.detach() / 2
        torch.svd_lowrank(?)[1] <- lrfull, 4; lrfull, 4, 0
        torch.pca_lowrank(?)[1] <- lrx, 2; lrx, 2, False; lrwide, q=2, niter=3
        torch.svd_lowrank(?)[0].abs() <- lrx.detach(), 2; lrwide.detach(), 2
        torch.lobpcg(lrsym, k=2, niter=300, tol=1e-10)[0]
        torch.lobpcg(lrsym, 1, lrpos, niter=300, tol=1e-10)[0]
        torch.lobpcg(lrsym, 2, largest=False, niter=300, tol=1e-10)[1].abs()
    """))
}
ERRORS = calls("""
    torch.pca_lowrank(?) <- lrx, 5; lrx, 2, True, -1
    torch.lobpcg(?) <- lrsym, 3; lrx
""")
COARSE = {"lowrank": "the last of several random projections", "lobpcg": "PyTorch's iterates"}
OTHER_GRAPH = {"M=": "what is subtracted is subtracted once"}
ROUGH = {"M=": "the differences move M, too"}
NOT_BATCHED = {"lowrank": "random numbers"}
