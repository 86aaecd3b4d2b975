"""Calls of operations on one element at a time, or on pairs."""

from samples._words import binary, calls, unary

ARITHMETIC = [
    *binary("+"), *binary("-"), *binary("*"), *binary("/"),
    *calls("""
        torch.add(?) <- mat, vec, alpha=2; mat, vec, alpha=-0.5; i, iv, alpha=3; mat, 3, alpha=2
        torch.add(?) <- sc, mat, alpha=1; mat, i, alpha=2; mat, vec, alpha=1j
        torch.sub(?) <- mat, vec, alpha=2; mat, vec, alpha=-0.5; i, iv, alpha=3; mat, 3, alpha=2
        torch.mul(?) <- mat, 2; mat, mat2
        torch.div(?) <- mat, pos; i, iv; mat, 4
        torch.div(?, rounding_mode='floor') <- mat, pos; i, iv; mat, 0.3; i, 2; inf, vpos
        torch.div(?, rounding_mode='floor') <- mat, zero
        torch.div(?, rounding_mode='trunc') <- mat, pos; i, iv; mat, 0.3; i, 2; inf, vpos
        torch.div(?, rounding_mode='trunc') <- mat, zero
    """),
    *unary("neg; reciprocal", "mat; sc; tran; edge; inf; nan; none", "iv; u8; isc; f16"),
    *calls("""
        torch.reciprocal(kv); +mat; -mat; +i; edge / zero; zero / edge; edge / edge; 1 / edge
        mat / 0; 0 / mat
        torch.remainder(?) <- mat, pos; mat, vec; mat, 0.7; i, 4; i, -4; mat, i; inf, vpos
        torch.remainder(?) <- mat, edge[0]; big, tied; u8, 7; f32, iv; i8, i32
        mat % ? <- 0.7; pos; sc
        7 % ipos[1]; 2.5 % pos
        ? // 2 <- mat; i; u8; f16
        mat // pos; i // iv; 7 // iv; inf // 2; edge // 0; -7 // iv; torch.floor_divide(mat, vec)
        torch.floor_divide(i, -2); torch.square(mat); torch.square(i)
        torch.negative(mat); torch.true_divide(mat, pos)
        torch.?(mat, mat2) <- divide; multiply; subtract; greater; greater_equal; less; less_equal
        torch.?(mat, mat2) <- not_equal; arctan2
        torch.?(unit) <- arcsin; arccos; arcsinh; arctanh
        torch.arccosh(big)
    """),
]  # fmt: skip
POWERS = [
    *calls("""
        mat ** ? <- 0; 1; 2; 3; -1; -2; 0.0; 2.0; True; i; iv; isc
        pos ** ? <- 0.5; -0.5; 2.5; vpos; sc; mat; f32; ptran; pos; csc; 1j
        edge ** ? <- 0; 1; 2; 3; 0.5; -1; edge; 1.5; 2.5; zero
        ? ** mat <- 2; 0.5; 0; 1; sc; iv
        ? ** edge <- 0; 0.0; 2; 1j; -2
        ? ** 2 <- sc; tran; inf; nan; none; i; kv; u8; f16; c64; k
        2 ** iv; 2.5 ** iv; iv ** 2.5; iv ** iv; ipos ** iv; i ** ipos; f32 ** iv; iv ** f32
        tied ** inf; inf ** tied; nan ** 0; 0 ** pos; 1 ** i; torch.pow(pos, vpos)
        torch.pow(-2, mat); (-1.5) ** pos; (-1) ** vec; i ** (0.5+1j); f64 ** (0.5+1j); (-1) ** f64
        torch.pow(2, mat); torch.pow(i, 3); zero ** mat; zero ** zero; mat ** zero; zero ** pos
        zero ** -1; isc ** isc; fsc ** iv; spos ** ipos
    """),
    *unary("sqrt; rsqrt", "pos; spos; ptran; edge; inf; nan; none; mat"),
]  # fmt: skip
FUNCTIONS = [
    *unary("exp; exp2; expm1; sin; cos; tan; atan; sinh; cosh; tanh; asinh; sigmoid",
            "mat; sc; tran; edge; inf; nan; none"),
    *unary("log; log2; log10; log1p", "pos; spos; ptran; edge; inf; nan; none; mat"),
    *unary("asin; acos; atanh", "unit; sc; edge; inf; nan; none; big"),
    *unary("acosh", "big; edge; inf; nan; none; mat"),
    *unary("relu; abs; sign; sgn; floor; ceil; trunc; round",
            "mat; sc; tran; edge; half; inf; nan; none"),
    *calls("torch.?(i) <- floor; ceil; trunc; round; abs; sign; sgn; relu"),
    *calls("torch.?(u8) <- floor; ceil; trunc; round; abs; sign; sgn; relu"),
    *calls("i32.clone().?_() <- floor; ceil; trunc; round; abs; sign; relu"),
    *calls("torch.?(isc) <- floor; ceil; trunc"),
    *calls("""
        torch.atan2(?) <- mat, mat2; mat, vec; sc, mat; edge, edge; inf, nan; edge, zero
        torch.atan2(?) <- zero, edge; i, iv; mat, i; none, vec; f32, f64
    """),
    *unary("isnan; isinf; isfinite", "mat; sc; tran; edge; inf; nan; none"),
    *calls("""
        abs(mat); mat.absolute(); mat.arctan(); tied.sigmoid(); (100 * mat).sigmoid()
        (1000 * mat).tanh(); (40 * mat).exp().log1p(); (mat * 1e-9).expm1(); (mat * 1e-9).log1p()
    """),
]  # fmt: skip
_COMPARED = """
    mat ? mat2; mat ? vec; sc ? mat; tied ? tied2; nan ? inf; mat ? 0.5; 0.5 ? mat; i ? iv; i ? 2;
    i ? 2.5; k ? kv; u8 ? -1; none ? vec; mat ? i; f32 ? fsc; fsc ? f32; 2 ? iv; i8 ? 1000;
    isc ? 2.5; k ? True; c64 ? c64; edge ? 0
"""
_BITS = "k ? kv; i ? iv; i ? 5; u8 ? i8; k ? True; k ? i; i ? isc; u8 ? 300; 5 ? i"
COMPARISONS = [
    *[e for symbol in ("==", "!=", "<", "<=", ">", ">=") for e in binary(symbol, _COMPARED)],
    *calls("""
        torch.?(mat, vec) <- eq; ne; lt; le; gt; ge; logical_and; logical_or; logical_xor
        torch.?(i, k) <- logical_and; logical_or; logical_xor
        torch.?(edge, zero) <- logical_and; logical_or; logical_xor
    """),
    *unary("logical_not", "mat; edge; nan; none"),
    *[e for symbol in "&|^" for e in binary(symbol, _BITS)],
    *calls("""
        ~k; ~i; ~u8; torch.bitwise_not(iv)
        torch.bitwise_?(i, iv) <- and; or; xor
    """),
]  # fmt: skip
CHOICES = [
    *calls("""
        torch.where(?) <- k, mat, mat2; kv, mat, vec; k, mat, 0.5; k, 2, mat; k, sc, mat
        torch.where(?) <- ksc, mat, vec; mat > 0, mat, mat2; k, row, col; k, i, mat; k, i, 2.5
        torch.where(?) <- k, 1, 2; k, 1.5, 2; k, i, iv; kv, u8, i8; k, nan, mat; k, mat, nan
        torch.where(?) <- kv, f32, fsc; kv, f32, f64; kv, none, vec; k, mat, 1j; ksc, 1, 2.0
        torch.where(?) <- knot, tran, step; k, mat, mat; kv, f16, 1; ksc, sc, sc2
        mat.where(k, mat2); mat.where(k, 0.); torch.where(k); torch.where(mat > 0)
        torch.maximum(?) <- mat, mat2; tied, tied2; mat, vec; nan, mat; mat, nan; i, iv; mat, i
        torch.maximum(?) <- sc, mat; none, vec; f32, f64; k, kv; tran, step; edge, zero; inf, nan
        torch.maximum(?) <- u8, i8
        torch.minimum(?) <- mat, mat2; tied, tied2; mat, vec; nan, mat; mat, nan; i, iv; mat, i
        torch.minimum(?) <- sc, mat; none, vec; f32, f64; k, kv; tran, step; edge, zero; inf, nan
        torch.minimum(?) <- u8, i8
        torch.max(?) <- mat, mat2; tied, tied2
        torch.min(?) <- mat, mat2; tied, tied2
        ?.clamp(-1, 1) <- mat; edge; sc; inf; nan; none; i; tran; f16
        mat.clamp(?) <- min=0; max=0.5; 0.25; None, 0.25; -0.5, 0.5; 1, -1; min=vec; max=vec
        mat.clamp(?) <- vec, mat2; sc, sc2; i, None; min=INF; -INF, INF; min=NAN; mat2, vec
        edge.clamp(?) <- min=0; max=0; 0, 0; zero, None; edge, edge; min=edge
        i.clamp(?) <- 0, 3; 0.5, 2.5; min=2; max=1.5; min=iv; min=0.5
        torch.clip(mat, 0, 1)
        mat.masked_fill(?) <- k, 0.5; kv, 2; k, sc; knot, 1; ksc, 3; k, NAN; k, fsc; k, isc
        ?.masked_fill(kv, 2) <- vec; tran; i; none; row; nan; u8; f16
        sc.masked_fill(ksc, 2); sc.masked_fill(k, 2); row.masked_fill(k, 2); i.masked_fill(k, isc)
        i.masked_fill(k, True)
    """),
]  # fmt: skip
COMPLEX = [
    *calls("""
        ?.real <- mat; sc; c64; csc; none; tran
        ?.conj() <- mat; sc; i; c64; none; tran; f32
        ?.abs() <- mat; c64; csc; zero; edge
        mat.to(torch.complex128).? <- imag; real; conj(); abs(); sgn()
        torch.?(mat) <- real; conj; abs
        mat.conj() * mat; (mat * 1j).real; (mat * (1 + 2j)).imag; (mat * vec.conj()).sum()
        (mat * 1j).abs(); (mat * 1j).sum(0); torch.imag(mat * 1j); (mat * 1j).exp()
        (1j * pos) ** 2; (1j * pos) ** 2.5; (pos + 1j) ** (1 + 1j); 2 ** (pos + 1j)
        (pos * 1j).log(); (mat * 1j).prod(); (zero * 1j).abs(); (zero * 1j).sgn(); c64 @ c64
        c64.sum(); c64.mean(); c64.prod(); (mat * 1j).mean(0); (edge * 1j).prod()
        (mat.real * 2).exp(); mat.conj() @ mat3; mat.conj().t() @ mat; torch.dot(vec, vec.conj())
        (mat * NAN * 1j).sgn(); (mat * NAN * 1j).abs(); torch.asinh(edge * 2j)
        mat.sgn(); mat.conj().real; torch.view_as_real(mat * 1j); torch.view_as_complex(mat3)
    """),
]  # fmt: skip
# Negative numbers wrap around where a dtype has none.
UNSIGNED = [
    *calls("""
        torch.add(?, alpha=-3) <- u8, u8; u8, 2; u8, i8; u8, isc
        torch.sub(?, alpha=-3) <- u8, u8; u8, 2; i8, u8
        torch.rsub(?, alpha=-3) <- u8, u8; u8, 2; u8, -2
        u8.clone().add_(u8.flip(0), alpha=-2); u8.clone().fill_(-3); u8.masked_fill(kv, -2)
        torch.where(kv, u8, -2); torch.where(kv, -5, u8); torch.where(kv, i8, 100)
        torch.where(kv, i8, 3.5); torch.where(kv, 1, 2); torch.where(kv, u8, True)
        torch.full_like(u8, -9); torch.full((2,), -9, dtype=torch.uint8)
        torch.scalar_tensor(-5, dtype=torch.uint8); put(u8, 0, -3)
        torch.addcmul(u8, u8, u8, value=-2)
        u8.index_add(0, at[:1], u8[:1], alpha=-1); u8.index_fill(0, at[:1], -4)
        u8.scatter(0, at[:1], -4); u8[:, None].expand(3, 3).clone().fill_diagonal_(-1)
    """),
]  # fmt: skip
GROUPS = {
    "unsigned": UNSIGNED,
    "arithmetic": ARITHMETIC,
    "powers": POWERS,
    "functions": FUNCTIONS,
    "comparisons": COMPARISONS,
    "choices": CHOICES,
    "complex": COMPLEX,
}
ERRORS = [
    *calls("""
        ? + vec <- vec2; mat3; cube
        mat * mat3; mat / mat3; mat - mat3; mat ** mat3; mat == mat3; mat < vec2
        torch.where(k, mat, mat3); torch.where(kv, vec, vec2); torch.maximum(mat, mat3)
        torch.atan2(vec, vec2); mat.masked_fill(k[:, :2], 1); torch.where(mat, mat, mat)
        torch.where(i, mat, mat)
        k - kv; -k; k - True; 1 - k; torch.add(i, i, alpha=1.5)
        torch.sub(i, i, alpha=1j); i // 0; i % 0
        torch.div(i, 0, rounding_mode='trunc'); torch.div(mat, 2, rounding_mode='up'); k % kv
        k // kv; i ** -1; k ** kv; mat & mat; mat | 1; ~mat; torch.bitwise_xor(f32, f32)
        torch.bitwise_not(f32); mat.clamp(); f32.imag; i.imag; i.masked_fill(k, 1j)
        u8.masked_fill(kv, 300); mat.masked_fill(i, 1); mat.masked_fill(k, vec)
        torch.?(2, vec) <- eq; ne; lt; le; gt; ge; greater; less; not_equal; max; min
        torch.?(2, 3) <- eq; clamp_max; clamp_min; max; min; ge
        torch.clamp_max(2, vec); torch.where(kv, i8, 300); torch.where(kv, -300, u8)
        torch.add(u8, u8, alpha=300); torch.sub(i8, i8, alpha=-300); torch.add(u8, 2, alpha=-256)
        f32.masked_fill(kv, csc); f32.masked_fill(f32, 1); torch.exp(2); torch.exp('a')
    """),
]  # fmt: skip

OTHER_GRAPH = {
    r"torch\.where\(k, mat, 1j\)": "promotion is part of where, not a node before it",
    r"\.conj\(\)\.real$": "conj is done at once; PyTorch's is lazy, and is resolved by a second",
}
ONLY_OURS = {r"^2\.5 % pos$": "no derivative of a number % a tensor"}
NOT_COMPLEX = {
    r"\b(inf|nan|INF|NAN)\b": "arithmetic of complex infinities is not defined alike",
    r"\b(edge|zero) \*\* |\*\* (edge|zero)\b|^0(\.0)? \*\*": "powers of a complex zero",
    r"^torch\.(asin|acos|atanh)\(edge\)$": "on a branch cut, or at a pole",
    r"^torch\.(sqrt|rsqrt)\(edge\)$": "infinite slopes",
}
ROUGH = {
    r"//|floor_divide": "steps, whose derivative PyTorch does not implement",
    r"^0 \*\*": "a convention",
}
NO_RULE = {
    ("where", "condition"): "a condition is true or false",
    ("masked_fill", "mask"): "a mask is true or false",
    ("masked_fill_number", "mask"): "a mask is true or false",
}
NO_SLOPE = {
    "floor_divide": "steps, whose derivative PyTorch does not implement",
    "floor_divide_number": "steps, whose derivative PyTorch does not implement",
    "ceil": "steps; rules of others call it on whole numbers, where it jumps",
    "round": "steps; rules of others call it on whole numbers, where it jumps",
    "threshold_backward": "jumps at 0, which half of the results of relu are",
}
NO_TANGENT = {
    r"^(mat|edge) \*\* zero$": "of a negative number there are no powers but whole ones, and so no "
                               "slope in the exponent",
}  # fmt: skip
_REAL_TANGENT = (
    "the result is complex, and so is how it moves, by differences and by gradients; "
    "PyTorch's tangent lost its imaginary part"
)
OTHER_TRANSFORM = {
    r"^pos \*\* (csc|1j)$": _REAL_TANGENT,
    r"^1j \*\* edge$": _REAL_TANGENT,
    r"atan2\((edge|zero), (edge|zero)\)$":
        "at the origin it has no slope: both gradients say 0, and so does our tangent; PyTorch's "
        "divides 0 by 0",
    r"(max|min)imum\((nan, mat|mat, nan|inf, nan)\)$":
        "NaN is as large as anything: both get the whole gradient, so both tangents count; in "
        "PyTorch's tangent only that of the NaN does",
    r"^edge\.clamp\(zero, None\)$":
        "on the bound the gradient goes to the number, and our tangent comes from it; PyTorch's "
        "tangent comes from the bound",
}  # fmt: skip
