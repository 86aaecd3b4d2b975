"""Calls of special functions."""

import numpy as np

from samples._words import calls, every, unary

INF, NAN = float("inf"), float("nan")
SMOOTH = {
    "sp_open": np.random.default_rng(60).uniform(0.1, 0.9, (2, 3)) + 0j,
    "sp_wide": np.random.default_rng(61).uniform(1.5, 12.0, (2, 3)) + 0j,
    "sp_left": np.array([[-0.3, -1.7, -2.2], [-3.6, -5.1, -0.9]]) + 0j,
}
SPECIAL = {
    "sp_poles": np.array([0.0, -0.0, -1.0, -2.0, 1.0, 2.0]),
    "sp_far": np.array([-30.0, -8.0, -4.5, 4.5, 8.0, 30.0]),
    "sp_probs": np.array([0.0, 1.0, 0.5, -0.5, 1.5, 1e-5]),
    "sp_one": np.array([-1.0, 1.0, 0.0, -0.999, 0.9, 1.5]),
    "sp_kinks": np.array([0.0, -0.0, NAN, 1.0]),
    "sp_ends": np.array([0.0, -0.0, INF, -INF, NAN, 1.0]),
    "sp_large": np.array([0.5, 5.0, 50.0, 200.0]),
}
FIXED = {
    "sp_n": np.array([0, 1, 2]), "sp_deg": np.array([[0, 3, 5], [2, -1, 9]]),
    "sp_a": np.array([[0.5, 1.5, 3.0], [2.0, 0.1, 8.0]]),
    "sp_af": np.array([0.5, 2.5, 4.0], np.float32),
    "sp_order": np.array([1.5, 2.0, 3.5]), "sp_half": np.array([0.25, 0.5, 0.75], np.float16),
    "sp_pos32": np.array([0.3, 4.0, 11.0], np.float32),
}  # fmt: skip

_ON = "mat; sc; tran; edge; inf; nan; none; sp_far; sp_ends"
_POSITIVE = "pos; spos; ptran; sp_wide; sp_poles; sp_kinks; none; f32"

ERRORS_AND_GAMMAS = [
    *unary("erf; erfc; i0; special.i0e; special.i1; special.i1e", _ON),
    *unary("special.erfcx; special.ndtr", _ON, "iv; kv; u8; isc; f32"),
    *unary("special.log_ndtr", "mat; sc; tran; edge; inf; nan; none; sp_far.double()",
           "iv; kv; u8; isc; f32"),
    *unary("erfinv", "unit; sp_open; sp_one; none; nan", "kv; sp_half"),
    *unary("special.ndtri", "sp_open; sp_probs; none; nan", "kv; f32"),
    *unary("lgamma; digamma", _POSITIVE + "; sp_left; mat", "iv; kv; u8; isc; sp_half"),
    *every("torch.special.{f}({x})", f="erf; erfc; i0; gammaln; digamma; psi",
           x="pos; f32; sp_poles"),
    *every("torch.special.erfinv({x})", x="unit"),
    *every("torch.polygamma({n}, {x})", n="0; 1; 2; 3", x=_POSITIVE + "; iv; sp_half; sp_pos32"),
    *every("torch.polygamma({n}, {x})", n="1", x="sp_left; mat; sp_large"),
    *calls("""
        pos.polygamma(?) <- 0; 1; 2
        torch.lgamma(sp_ends.detach()); torch.digamma(sp_ends.detach()); torch.lgamma(nan.detach())
        torch.polygamma(1, sp_ends.detach())
        torch.special.polygamma(2, pos); sp_left.digamma(); sp_large.lgamma(); sp_large.digamma()
        torch.mvlgamma(?) <- big, 1; big, 2; sp_wide, 4; iv + 3, 2; none, 2; f32 + 3, 2; spos + 1, 2
        torch.special.multigammaln(?) <- big, 2; sp_wide, 3
        torch.igamma(?) <- sp_a, pos; sp_a, vpos; sp_a, sc; sp_af, vpos; sp_a, iv; none, vpos
        torch.igamma(?) <- sp_af, sp_af; sp_order, sp_large[0]; sp_half, sp_half; sp_a, sp_a
        torch.igamma(?) <- sc, vpos
        torch.igammac(?) <- sp_a, pos; sp_a, vpos; sp_af, vpos; sp_a, iv; none, vpos; sc, vpos
        torch.igammac(?) <- sp_af, sp_af; sp_half, sp_half; sp_a, sp_a; f32, f64
        torch.special.gammainc(sp_a, pos); torch.special.gammaincc(sp_a, pos)
        torch.special.zeta(?) <- sp_order, vpos; sp_order, pos; 2, pos; 3.5, pos; 2, sp_wide; 1, pos
        torch.special.zeta(?) <- pos + 1, 2; iv, iv; 2, iv; sp_order, sp_order; none, vpos
        torch.special.zeta(?) <- 4, f32 + 3
        torch.special.zeta(?) <- sp_order, 2; sp_order, 0.5; pos + 1, pos; 3, mat; 2, sp_poles
    """),
]  # fmt: skip
LOGITS = [
    *calls("""
        torch.logit(?) <- sp_open; sp_probs; sp_probs, 0.1; sp_open, 1e-6; sp_open, eps=0.3; none
        torch.logit(?) <- kv; iv; sp_half; nan; sp_open[0, 0]; sp_open.t(); sp_open, None; mat, 0.1
        torch.special.logit(?) <- sp_open; sp_probs, 0.2
        torch.special.entr(?) <- pos; sp_probs; mat; none; iv; kv; sp_half; sp_ends; spos; ptran
        torch.special.expit(?) <- mat; iv; sp_ends
        torch.special.exp2(?) <- mat; iv
        torch.special.expm1(?) <- mat; iv
        torch.special.log1p(?) <- pos; iv
    """),
]  # fmt: skip
_PLAIN = ("bessel_j0; bessel_j1; bessel_y0; bessel_y1; modified_bessel_i0; modified_bessel_i1; "
          "modified_bessel_k0; modified_bessel_k1; scaled_modified_bessel_k0; "
          "scaled_modified_bessel_k1; spherical_bessel_j0; airy_ai")  # fmt: skip
BESSEL = every("torch.special.{f}({x})", f=_PLAIN,
               x="pos; sp_wide; none; iv; sp_pos32; spos; kv; ptran; sp_large")  # fmt: skip
_POLYNOMIALS = ("chebyshev_polynomial_t; chebyshev_polynomial_u; chebyshev_polynomial_v; "
                "chebyshev_polynomial_w; shifted_chebyshev_polynomial_t; "
                "shifted_chebyshev_polynomial_u; shifted_chebyshev_polynomial_v; "
                "shifted_chebyshev_polynomial_w; hermite_polynomial_h; hermite_polynomial_he; "
                "laguerre_polynomial_l; legendre_polynomial_p")  # fmt: skip
POLYNOMIALS = every("torch.special.{f}({x})", f=_POLYNOMIALS, x="""
    mat, sp_n; mat, 3; unit, sp_deg; sp_open, 5;
    0.3, sp_n; none, sp_n; iv, sp_n; f32, 2; sc, sp_deg;
    sp_one, sp_ends; unit, NAN; unit, INF; sp_one, sp_ends * 1e30;
    unit, 0; unit, -1; sp_one, 4; sp_one, 1; sp_open, 2.7; sc, 3; unit, 8; 2, sp_deg; sp_open, 12
""")  # fmt: skip
IN_PLACE = [
    *calls("""
        mat.clone().? <- erf_(); erfc_(); i0_()
        unit.clone().erfinv_(); pos.clone().lgamma_(); pos.clone().digamma_()
        pos.clone().? <- polygamma_(1); polygamma_(2); logit_(0.1)
        big.clone().mvlgamma_(2); sp_open.clone().logit_(); sp_a.clone().igamma_(vpos.detach())
        sp_a.clone().igammac_(vpos.detach()); pos.clone().igamma_(vpos.detach())
        torch.erf_(mat.clone()); torch.erfc_(mat.clone()); torch.i0_(mat.clone())
        torch.logit_(sp_open.clone(), 0.2); f32.clone().erf_(); sp_half.clone().erf_()
    """),
]  # fmt: skip
NAMED = [
    *every("torch.{f}(input=sp_open)", f="erf; erfinv; lgamma; digamma; i0; logit; special.i1; "
           "special.entr; special.ndtri; special.gammaln"),
    *calls("""
        torch.mvlgamma(input=big, p=2); torch.logit(input=sp_open, eps=0.2)
        torch.igamma(input=sp_a, other=pos); torch.special.zeta(input=sp_order, other=vpos)
        torch.special.chebyshev_polynomial_t(x=unit, n=iv)
    """),
]  # fmt: skip
GROUPS = {
    "functions": ERRORS_AND_GAMMAS, "logits": LOGITS, "bessel": BESSEL, "polynomials": POLYNOMIALS,
    "in_place": IN_PLACE, "named": NAMED,
}  # fmt: skip
ERRORS = [
    *every("torch.{f}(c64)", f="erf; erfc; erfinv; lgamma; digamma; i0; logit; special.i0e; "
           "special.i1; special.i1e; special.erfcx; special.ndtr; special.ndtri; special.log_ndtr; "
           "special.entr; special.bessel_j0; special.airy_ai"),
    *every("torch.{f}('a')", f="erf; lgamma; i0; special.ndtri; special.bessel_j0; logit; "
           "special.i0e; special.i1; special.i1e; special.erfcx; special.log_ndtr; special.round"),
    *every("torch.special.{f}(f16)", f="erfcx; ndtri; log_ndtr; bessel_y1; airy_ai"),
    *every("torch.special.{f}({x})", f=_POLYNOMIALS, x="c64, 2; 2, 2; f16, 2; vec, iv[:2]"),
    *calls("""
        torch.polygamma(-1, f32); torch.polygamma(1.5, f32); torch.polygamma(1, c64)
        torch.polygamma(0, c64); torch.mvlgamma(kv, 2); torch.mvlgamma(f32, 0)
        torch.mvlgamma(f32, 1.5); torch.mvlgamma(c64, 2); torch.igamma(iv, iv)
        torch.igamma(c64, c64); torch.igamma(f32, 2); torch.igammac(iv, iv); torch.igammac(2, f32)
        torch.special.zeta(?) <- 2, 3; c64, c64; f16, f16; vec, vec2
        torch.logit(f32, 'a'); torch.igamma(sc, vpos).sum().backward(); i.clone().erf_()
        torch.special.zeta(vpos, vpos).sum().backward()
        torch.special.zeta(vpos, 2).sum().backward()
        torch.igammac(sc, vpos).sum().backward(); i.clone().lgamma_(); torch.igamma(vec, vec2)
    """),
]  # fmt: skip

_NDTR = r"special\.ndtr\((mat|sc|tran|edge|inf|nan|none|sp_)"
OTHER_GRAPH = {
    _NDTR: "one node, exact in the lower tail; PyTorch composes it from erf",
    r"polygamma_\(": "one kind of node, whether in place or not",
}
OTHER_SAVED = {"SpecialI1Backward0": "the rule does not divide the result by the input"}
COARSE = {
    r"gamma|psi|gammaln": "PyTorch has nine digits of trigamma, which all derivatives lead to",
    r"bessel_[jy]": "PyTorch has eight digits of these beyond 5",
}
ONLY_OURS = {
    r"bessel_|airy_ai|_polynomial_": "constants in PyTorch, without an error",
    r"\.i[01]\((nan|sp_ends)\)": "PyTorch's gradient of i1 at NaN is a half",
}
NO_RULE = {
    (f"special_{name}", "n"): "a degree is cut to an integer" for name in _POLYNOMIALS.split("; ")
}
ROUGH = {
    r"igammac?_?\((sc|pos|input=pos)|igammac?_\(": "no derivative in the first argument",
    r"zeta\((pos|sp_order, 2|sp_order, 0\.5)": "PyTorch has no derivative in the first argument",
    r"logit\(mat, 0\.1\)|logit_\(0\.1": "some of it is clamped",
}
NO_SLOPE = {
    "igamma": "PyTorch has no derivative in the first argument",
    "igammac": "PyTorch has no derivative in the first argument",
    "special_zeta": "PyTorch has no derivative in the first argument",
    "zeta_by_number": "PyTorch has no derivative in the first argument",
}
