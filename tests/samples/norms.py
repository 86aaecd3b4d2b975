"""Calls of norms, distances and renormalization."""

import numpy as np

from samples._pool import INF, NAN, draw
from samples._words import calls, every

SMOOTH = {"nlarge": draw((70, 1103), -2, 2, 4401)}  # enough to be worked on in blocks
SPECIAL = {
    "nzero": np.zeros((2, 3)), "nsome": np.array([[0.0, 3.0, 0.0], [1.0, -1.0, 0.0]]),
    "nbad": np.array([[NAN, 1.0], [INF, 1.0]]),
    "nslices": np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]),
}  # fmt: skip

_ORDERS = "0; 0.5; 1; 1.5; 2; 3; 2.5; INF; -INF; -1; -2.5; 4"
VECTORS = [
    *every("torch.linalg.vector_norm({x}, {p})", p=_ORDERS, x="mat; vec; sc; nsome; nzero"),
    *every("torch.linalg.vector_norm({x}, {p}, {d})", p=_ORDERS, x="cube",
            d="0; (0, 2); -1, True"),
    *every("torch.linalg.vector_norm(nsome, {p}, 1)", p="0; 1; 2; 3; INF; -INF"),
    *every("{x}.norm({p})", x="mat; tran", p="; 'fro'; 2; 1; p=3; None; 0; INF; 'fro', 0; 1, 1; "
            "dim=0; 2, (0, 1); 2, -1, True; dim=1, keepdim=True; 'fro', (0, 1); 2, []"),
    *every("nlarge.norm({p})", p="; 2, 0; 2, 1; 3, 1; 1, 0; INF, 1; 2, 1, True"),
    *every("{x}.norm()", x="sc; vec; empty; none; gap; f16; c64; step; inf; nan; one"),
    *every("{x}.norm(2, 0)", x="sc; empty; none; gap; f16; c64; nzero"),
    *calls("""
        torch.norm(?) <- mat; mat, 1; mat, 2, 0; mat, dim=(0, 1); cube, 'fro', (0, 1)
        torch.linalg.vector_norm(?) <- mat; mat, 2, (); gap, INF, 0; none, -1, 1; mat, dim=0
        torch.linalg.vector_norm(f32, dtype=torch.float64); f32.norm(2, 0, dtype=torch.float64)
        torch.linalg.vector_norm(f32, 3, dtype=torch.float64)
    """),
    *every("torch.enable_grad()(lambda: torch.autograd.grad(nbad.norm({p}, 1).sum(), nbad))()",
            p="2; INF"),
]  # fmt: skip
MATRICES = [
    *every("torch.linalg.matrix_norm({x}, {p})", p="'fro'; 'nuc'; 1; -1; 2; -2; INF; -INF",
            x="mat; cube; tran"),
    *every("torch.linalg.matrix_norm(cube, {p}, {d})", p="'fro'; 'nuc'; 1; 2; -INF",
            d="(0, 1); (2, 0); (-1, 0), True; dim=(1, 0), keepdim=True"),
    *every("torch.linalg.norm({x})", x="mat; cube; vec; sc; none"),
    *calls("""
        torch.linalg.norm(?) <- input=mat; mat, 'fro'; mat, 'nuc'; mat, 2; mat, 1; mat, -INF; vec, 3
        torch.linalg.norm(?) <- vec, INF
        torch.linalg.norm(?) <- mat, 2, 0; cube, 2, (0, 1); mat, None, (0, 1); mat, keepdim=True
        torch.linalg.norm(?) <- mat, 2, keepdim=True; cube, keepdim=True; mat, dim=1; vec, 0; vec, 2
        torch.linalg.matrix_norm(?) <- mat; none; none, 1; none, 'nuc'; nsome, 1
        torch.linalg.matrix_norm(?) <- none, INF; gap, INF; gap, 1; gap3, 2; gap3, INF, keepdim=True
        torch.linalg.norm(?) <- empty[:, None].expand(0, 0), INF; empty[:, None].expand(0, 0), 2
        mat.norm('nuc'); cube.norm('nuc', (0, 1)); mat.norm('nuc', keepdim=True)
        torch.linalg.matrix_norm(cube[0].detach(), dtype=torch.float64)
    """),
]  # fmt: skip
DISTANCES = [
    *every("torch.dist({x}, {p})", p="0; 0.5; 1; 1.5; 2; 3; INF; -INF; -1",
            x="mat, mat2; mat, vec; col, row"),
    *calls("""
        mat.dist(?) <- mat2; mat2, 3; sc; f64; i; p=1, other=mat2
        torch.dist(?) <- sc, sc2; empty, empty; nzero, nzero; nsome, nzero, 3; f32, f64; vec, c64
        nzero.dist(nzero, 1)
    """),
    *every("{x}.renorm({p}, {d}, {m})", x="mat; cube; tran; nslices",
            p="1; 2; 3; 0.5; INF", d="0; -1", m="1.; 0.7"),
    *calls("""
        torch.renorm(mat, 2, 0, 1.); torch.renorm(input=mat, p=1, dim=1, maxnorm=0.5)
        mat.clone().renorm_(2, 0, 1.); none.renorm(2, 0, 1.); none.renorm(2, 1, 1.)
        nslices.renorm(2, 0, 100); nslices.renorm(2, 0, 0); f16[None].renorm(2, 0, 1)
    """),
]  # fmt: skip
GROUPS = {"vectors": VECTORS, "matrices": MATRICES, "distances": DISTANCES}
ERRORS = [
    *calls("""
        torch.linalg.vector_norm(?) <- i; k; mat, 'fro'; mat, None; mat, 2, 5; mat, 2, (0, 0)
        torch.linalg.vector_norm(?) <- mat, 1j; empty, INF; none, INF, 0; none, -1, 0; gap, -2.5
        torch.linalg.vector_norm(?) <- none, INF, (0, 1); mat, dtype=torch.float32
        torch.linalg.vector_norm(?) <- mat, dtype=torch.int64; mat, dtype=torch.complex128
        torch.linalg.vector_norm(?) <- c64, dtype=torch.float64
        torch.linalg.matrix_norm(?) <- sc; vec; mat, 3; mat, 'abc'; mat, 2, (0,); mat, 'fro', (0, 0)
        torch.linalg.matrix_norm(?) <- i; mat, 'fro', (0, 2); mat, dtype=torch.float32; mat, 2, 0
        torch.linalg.matrix_norm(?) <- mat, 2, (1, -1); mat, 2.5
        torch.linalg.norm(?) <- cube, 'fro'; cube, 2; mat, 2, (0, 1, 2); mat, 'nuc', 0; sc, 2; i
        torch.linalg.norm(?) <- mat, 0; cube, None, (0, 1, 2); mat, 'abc'; vec, 'fro'; vec, 'abc'
        mat.norm(?) <- 'nuc', 0; 'fro', (0, 1, 2); 'abc'; 'nuc', (0, 0); 1j; dtype=torch.float32
        mat.norm(2, 7)
        cube.norm(?) <- 'nuc'; 'fro', (0, 1, 2)
        i.norm(); k.norm(); sc.norm('nuc'); mat.renorm(2, 2, 1.); mat.renorm(-1, 0, 1.)
        mat.renorm(2, 0, -1.); sc.renorm(2, 0, 1.); vec.renorm(2, 0, 1.); i.renorm(2, 0, 1.)
        mat.renorm(0, 0, 1.); mat.renorm(2j, 0, 1); i.dist(i)
        torch.dist(mat, mat, 'fro'); torch.dist(mat, 3.)
        mat.dist(mat3); empty.dist(empty, INF)
    """),
]  # fmt: skip

OTHER_WORDS = {"torch.linalg.matrix_norm(mat, 2, 0)"}
ONLY_OURS = {
    r"^torch.dist\(.*, 0\)$": "PyTorch fails where there is no gradient; here there is none",
    r"^torch.dist\(vec, c64": "PyTorch fails where the complex gradient meets the real tensor",
}
NOT_COMPLEX = {
    r"renorm\(INF": "PyTorch finds no largest element, comparing in two precisions",
    r"grad.*nbad": "the sign of a complex NaN, where NumPy and C disagree",
}
