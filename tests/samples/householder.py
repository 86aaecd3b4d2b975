"""Calls of products of Householder reflections."""

from samples._pool import draw
from samples._words import calls

# Negative scales: at 1 / |v|² PyTorch's derivative divides by zero.
SMOOTH = {
    "hh_tall": draw((4, 3), -0.6, 0.6, 301), "hh_tau": draw((3,), -1, -0.2, 302),
    "hh_batch": draw((2, 4, 2), -0.6, 0.6, 303), "hh_taus": draw((2, 2), -1, -0.2, 304),
    "hh_short": draw((2,), -1, -0.2, 305),
}  # fmt: skip
GROUPS = {
    "householder": calls("""
        torch.linalg.householder_product(?) <- hh_tall, hh_tau; hh_batch, hh_taus; mat3, hh_short
        torch.linalg.householder_product(?) <- hh_tall, hh_short; hh_tall, hh_tau.detach()
        torch.linalg.householder_product(?) <- hh_tall.detach(), hh_tau
        torch.orgqr(hh_tall, hh_tau); hh_tall.orgqr(hh_tau)
        [x.detach() for x in torch.geqrf(?)] <- hh_tall; hh_batch; mat; sq; c64[None]
        [x.detach() for x in hh_tall.geqrf()]
    """)
}
ERRORS = calls("""
    torch.linalg.householder_product(?) <- vec, vec; mat, vec2; hh_tall, hh_taus; hh_batch, hh_tau
    torch.linalg.householder_product(?) <- mat3, vec; f32[None].t(), f64[:1]; hh_batch, hh_taus[:1]
    torch.linalg.householder_product(?) <- i.t(), iv[:2]; mat3, 1
    torch.geqrf(?) <- vec; i
""")
OTHER_GRAPH = {"householder|orgqr": "reflections one after the other, not one node"}
NO_SLOPE = {"geqrf": "has no derivative, as in PyTorch"}
NOT_COMPLEX = {"geqrf": "PyTorch refuses to record complex ones"}
ROUGH = {"geqrf": "has no derivative, as in PyTorch", "detach": "not all that moves is followed"}
