"""Calls of products of Householder reflections."""

from samples._pool import draw
from samples._words import calls

# Negative scales: at 1 / |v|² PyTorch's derivative divides by zero.
SMOOTH = {
    "hh_tall": draw((4, 3), -0.6, 0.6, 301), "hh_tau": draw((3,), -1, -0.2, 302),
    "hh_batch": draw((2, 4, 2), -0.6, 0.6, 303), "hh_taus": draw((2, 2), -1, -0.2, 304),
    "hh_short": draw((2,), -1, -0.2, 305), "hh_four": draw((4, 2), -1, 1, 306),
    "hh_fours": draw((2, 4, 3), -1, 1, 307),
}  # fmt: skip
GROUPS = {
    "householder": calls("""
        torch.linalg.householder_product(?) <- hh_tall, hh_tau; hh_batch, hh_taus; mat3, hh_short
        torch.linalg.householder_product(?) <- hh_tall, hh_short; hh_tall, hh_tau.detach()
        torch.linalg.householder_product(?) <- hh_tall.detach(), hh_tau
        torch.orgqr(hh_tall, hh_tau); hh_tall.orgqr(hh_tau)
        torch.ormqr(hh_tall, hh_tau, ?) <- hh_four; hh_four, True, True; hh_four.mT, False
        torch.ormqr(hh_tall, hh_tau, ?) <- hh_four.mT, left=False, transpose=True
        torch.ormqr(hh_batch, hh_taus, hh_fours); hh_tall.ormqr(hh_tau, hh_four, transpose=True)
        [x.detach() for x in torch.geqrf(?)] <- hh_tall; hh_batch; mat; sq; c64[None]
        [x.detach() for x in hh_tall.geqrf()]
    """)
}
ERRORS = calls("""
    torch.linalg.householder_product(?) <- vec, vec; mat, vec2; hh_tall, hh_taus; hh_batch, hh_tau
    torch.linalg.householder_product(?) <- mat3, vec; f32[None].t(), f64[:1]; hh_batch, hh_taus[:1]
    torch.linalg.householder_product(?) <- i.t(), iv[:2]; mat3, 1
    torch.geqrf(?) <- vec; i
    torch.ormqr(hh_tall, hh_tau, ?) <- hh_four[:3]; hh_four[0]; hh_four, False; f32[None]
    torch.ormqr(hh_tall, ?) <- hh_short, hh_four; hh_taus, hh_four; hh_tau[0], hh_four; hh_tau, 1
    torch.ormqr(hh_batch, hh_taus, hh_four); torch.ormqr(i, iv[:2], i); torch.ormqr(vec, vec, mat)
""")
OTHER_GRAPH = {"householder|orgqr|ormqr": "reflections one after the other, not one node"}
NO_SLOPE = {"geqrf": "has no derivative, as in PyTorch"}
NOT_COMPLEX = {"geqrf": "PyTorch refuses to record complex ones"}
ROUGH = {"geqrf": "has no derivative, as in PyTorch", "detach": "not all that moves is followed"}
