"""Calls of the less common elementwise operations."""

import numpy as np

from samples._words import calls, every, unary

INF, NAN = float("inf"), float("nan")
SPECIAL = {
    "pw_frac": np.array([[-2.75, -0.5, 0.25], [1.5, 2.125, 3.0]]),
    "pw_gap": np.array([NAN, INF, -INF, 1.0, -0.0]),
    "pw_weights": np.array([[0.0, 0.25, 0.5], [0.75, 1.0, -0.5]]),
    "pw_signs": np.array([-0.0, 0.0, -3.0, 3.0, -INF]),
    "pw_probs": np.array([0.0, -1.0, 2.0, 0.5, INF]),
}
FIXED = {
    "pw_shift": np.array([1, 70, -1]), "pw_i16": np.array([3, -4, 0], np.int16),
    "pw_u8": np.array([1, 9, 3], np.uint8), "pw_close": np.array([2.0, 3.00001, 1.0]),
    "pw_div": np.array([2, 4, 6]),
}  # fmt: skip

_PAIRS = """
    mat, mat2; mat, vec; col, row; sc, mat; mat, sc; sc, sc2; cube, one; tran, step; none, vec;
    gap, col; empty, sc; vec, f32; vec, f64; f32, f64; f32, fsc; vec, f16; mat, i; vec, isc;
    edge, zero; edge, edge; inf, nan; nan, inf; inf, inf; vec, vec; f16, f16; vec, u8
"""
_POSITIVE = "pos, big; pos, vpos; spos, pos; ptran, pos; none, vpos; pos, i; vpos, f32; f32, f32"

ARITHMETIC = [
    *every("torch.fmod({x})", x=_PAIRS + "; mat, 0.7; mat, -2; i, 4; i, -4; i, iv; inf, 2; mat, 0"),
    *calls("""
        torch.fmod(?) <- u8, 7; i8, i32; iv, 2.5; f16, 2; kv, 2; half, 2; i, iv[0]
        torch.rsub(?) <- mat, vec; mat, 2; mat, vec, alpha=2; mat, 2, alpha=3; i, iv; i, 2.5
        torch.rsub(?) <- i, iv, alpha=2; sc, mat; mat, 1j; mat, vec, alpha=-0.5; u8, 3; f16, i
        torch.addcmul(?) <- mat, mat2, vec; mat, mat2, vec, value=2; sc, mat, col; none, vec, vec
        torch.addcmul(?) <- mat, row, col, value=-0.5; i, iv, iv; i, iv, iv, value=2; f32, iv, iv
        torch.addcmul(?) <- i, iv, iv, value=0.5; f16, f16, f16; vec, f32, f64; mat, i, vec
        torch.addcmul(?) <- mat, tran, step; inf, mat, nan; mat, mat, mat; vec, vec, c64
        torch.addcmul(?) <- iv, iv, iv, value=True; k, i, iv; mat, vec, sc, value=0; sc, sc, sc2
        torch.addcdiv(?) <- mat, mat2, vpos; mat, mat2, vpos, value=2; sc, mat, spos; none, vec, vec
        torch.addcdiv(?) <- mat, row, col, value=-0.5; f32, f32, iv; f16, f16, f16; i, f32, f32
        torch.addcdiv(?) <- mat, tran, pos; inf, mat, nan; edge, edge, zero; pos, pos, pos
        torch.addcdiv(?) <- vec, f32, f64; vec, iv, vpos; mat, vec, sc, value=0; sc, sc, sc2
        torch.lerp(?) <- mat, mat2, 0.3; mat, vec, 0.75; mat, mat2, 0.5; mat, mat2, 2; sc, sc2, 0.1
        torch.lerp(?) <- mat, mat2, pos; mat, mat2, pw_weights; sc, mat, sc2; none, vec, 0.5
        torch.lerp(?) <- mat, vec, sc; mat, mat2, fsc; row, col, mat; f16, f16, 0.25; tran, step, 1
        torch.lerp(?) <- inf, nan, 0.5; mat, mat, mat; tied, tied2, 1.0; mat, mat2, -1.5
        torch.lerp(?) <- col, row, 0
        torch.lerp(?) <- none, vec, vec; c64, c64, 1j; c64, c64, 0.25; f16, f16, f16; f32, f32, fsc
    """),
]  # fmt: skip
FUNCTIONS = [
    *every("torch.{f}({x})", f="logaddexp; logaddexp2; hypot", x=_PAIRS),
    *calls("torch.logaddexp(?) <- 100 * mat, mat2; c64, c64; f64, c64; mat * 1j, vec * 1j"),
    *unary("sinc", "mat; sc; tran; edge; inf; nan; none; half"),
    *unary("frac", "mat; sc; tran; edge; inf; nan; none; half; pw_frac", "f16"),
    *unary("deg2rad; rad2deg", "mat; sc; tran; edge; inf; nan; none"),
    *calls("""
        torch.ldexp(?) <- mat, iv; mat, vec; iv, iv; f16, iv; sc, mat; mat, sc; none, iv; kv, iv
        torch.ldexp(?) <- inf, iv; tran, ipos; f32, f64; c64, iv; f32, c64; edge, zero; nan, mat
        torch.ldexp(?) <- f32, i32 * 30; f32, i; f64, i32 - 9
        torch.frexp(?) <- mat; sc; tran; edge; none; f16; pos; half
        torch.frexp(mat).mantissa; torch.frexp(mat)[1]; mat.frexp()
        torch.float_power(?) <- mat, 2; pos, 2.5; pos, mat; iv, 2; iv, -1; f32, 2; f32, iv; f16, f16
        torch.float_power(?) <- 2, mat; 2.5, iv; pos, 1j; 2j, pos; c64, 2; pos, c64; pos, f32
        torch.float_power(?) <- 2, f32; -2, mat; -1.5, c64
        torch.float_power(?) <- none, 2; edge, 2; i, ipos; sc, mat; f64, f32; kv, 2; f64, fsc
    """),
    *every("torch.xlogy({x})", x=_POSITIVE),
    *every("torch.special.xlog1py({x})", x=_POSITIVE),
    *calls("""
        torch.xlogy(?) <- mat, pos; mat, vpos; 2, pos; 0, pos; mat, 2; mat, 0.5; iv, iv; kv, f32
        torch.xlogy(?) <- edge, edge; edge, zero; zero, pw_probs; pw_probs, zero; edge, 0; edge, -1
        torch.xlogy(?) <- 0, edge; 0.0, pw_probs; nan, mat; pos, nan; f16, f16; 2, iv; iv, 2.5
        torch.xlogy(?) <- 2, f32
        torch.special.xlogy(?) <- mat, pos; 2, pos; mat, 3; edge, edge
        torch.special.xlog1py(?) <- mat, pos; mat, vpos; 2, pos; 0, pos; mat, 2; mat, 0.5; iv, iv
        torch.special.xlog1py(?) <- edge, edge; edge, zero; zero, pw_probs; pw_probs, zero; edge, -1
        torch.special.xlog1py(?) <- edge, -2; 0, edge; kv, f32; nan, mat; f16, f16; 2, f32; f32, 2.5
        torch.special.sinc(mat)
        torch.round(?) <- mat, decimals=1; mat, decimals=0; mat, decimals=-1; f16, decimals=1
        torch.round(?) <- 30 * mat, decimals=-1; half, decimals=0; inf, decimals=2; none, decimals=1
        torch.special.round(?) <- mat; mat, decimals=2; f32, decimals=1
    """),
]  # fmt: skip
CHOICES = [
    *every("torch.{f}({x})", f="fmax; fmin", x=_PAIRS + "; tied, tied2; i, iv; k, kv; u8, i8"),
    *every("torch.{f}({x})", f="clamp_min; clamp_max", x="""
        mat, 0.5; mat, 0; mat, vec; col, row; sc, mat; none, vec; none, 1; edge, 0; edge, edge;
        edge, zero; nan, 0; mat, nan; mat, NAN; inf, INF; i, 2; i, 1.5; i, iv; i, f32; u8, 3; k, 0;
        f16, 1; f32, f64; tied, tied2; tran, step; mat, i; k, kv; sc, 0.1
    """),
    *calls("""
        torch.nan_to_num(?) <- mat; sc; nan; inf; pw_gap; pw_gap, 2.0; pw_gap, nan=1, posinf=2
        torch.nan_to_num(?) <- pw_gap, neginf=-5.0; none; i; k; f16; c64; tran; nan, 0.5, 1, -1; u8
        torch.heaviside(?) <- mat, vec; edge, zero; edge, edge; i, iv; k, kv; f16, f16; none, vec
        torch.heaviside(?) <- nan, mat; sc, mat; u8, u8; tran, step; pw_signs, zero
        torch.nextafter(?) <- mat, mat2; mat, vec; edge, zero; edge, edge; inf, nan; none, vec
        torch.nextafter(?) <- f32, f64; f16, f16; sc, mat; vec, f32; tran, step
        torch.copysign(?) <- mat, mat2; mat, vec; sc, mat; mat, -2; mat, 3; mat, -0.0; mat, 0.0
        torch.copysign(?) <- edge, edge; edge, -1.0; pw_signs, pw_signs; mat, zero; iv, iv; iv, -2
        torch.copysign(?) <- k, kv; f16, -1; none, vec; nan, mat; mat, inf; tran, step; f32, f64
        torch.copysign(?) <- vec, iv; iv, f32; edge, zero; u8, -1
    """),
]  # fmt: skip
COMPLEX = [
    *unary("angle", "mat; sc; tran; edge; none; pos", "iv; kv; u8; isc; f16; c64; csc"),
    *calls("""
        torch.angle(?) <- nan; inf; mat * 1j; mat * (1 + 2j); zero * 1j; (mat + 1j) * pos
        torch.complex(?) <- mat, mat2; mat, vec; sc, mat; sc, sc2; none, vec; f32, f32; tran, step
        torch.complex(?) <- inf, nan; col, row; mat, mat
        torch.complex(mat, mat2).abs(); torch.complex(mat, mat2) * (1 + 1j)
        torch.polar(?) <- pos, mat; pos, vec; spos, mat; sc, sc2; none, vec; f32, f32; ptran, step
        torch.polar(?) <- edge, zero; mat, mat; zero, edge; col, row
        torch.polar(pos, mat).real; torch.polar(pos, mat) * (1 + 1j)
        torch.conj_physical(?) <- mat; sc; c64; i; none; tran; mat * 1j
        torch.resolve_conj(?) <- mat; i; c64; mat.conj()
        torch.resolve_neg(?) <- mat; i; c64
        torch.positive(?) <- mat; i; c64; f16
        torch.is_conj(mat); torch.is_neg(mat); mat.is_conj(); mat.is_neg()
        torch.is_signed(?) <- mat; i; k; u8; c64
        torch.is_nonzero(?) <- zero; sc; one; isc
        torch.is_same_size(?) <- mat, mat2; mat, vec
        mat.is_signed(); sc.is_nonzero(); mat.is_same_size(mat2)
    """),
]  # fmt: skip
REVIEWED = [
    *calls("""
        torch.fill(?) <- mat, 2; mat, sc; i, 2.7; none, 1; mat, value=3; mat, fsc; f16, sc; sc, sc2
        torch.add(k, kv, alpha=?) <- 2; True; False
        torch.pow(k, True); torch.pow(k, False); torch.pow(iv, -iv); torch.pow(i, i32); 300 - i8
        iv ** -isc; u8 ** i8; -5 - u8; k % 2; k // 2; k % 2.5; torch.fmod(k, 2); kv // 2.5
        torch.signbit(?) <- torch.relu(edge); torch.maximum(edge, -edge); torch.minimum(edge, -edge)
        torch.signbit(?) <- torch.clamp_min(edge, 0); torch.clamp_max(edge, 0.0); -edge; edge * 0
        torch.signbit(?) <- torch.round(half); torch.ceil(half / 4); torch.trunc(half / 4)
        torch.signbit(?) <- edge // 1
        torch.signbit(?) <- torch.sqrt(zero); torch.fmod(half, 0.5)
        torch.signbit(?) <- torch.sign(edge); torch.frac(half); torch.copysign(edge, -0.0)
        f64 ** f64.numpy(); f32.fmod(2)
    """),
]  # fmt: skip
INTEGERS = [
    *calls("""
        torch.gcd(?) <- i, iv; i, i; pw_div, iv; i32, i8; u8, i8; isc, i; iempty, isc; pw_i16, i8
        torch.lcm(?) <- i, iv; i, i; pw_div, iv; i32, i8; isc, i; iempty, isc; pw_i16, i8
        torch.bitwise_left_shift(?) <- i, iv; i, 2; 2, iv; u8, 1; u8, pw_u8; i8, 3; k, 1
        torch.bitwise_left_shift(?) <- iv, pw_shift
        torch.bitwise_left_shift(?) <- i32, i8; i32, 31; i32, 32; isc, isc; iempty, 1; kv, iv
        torch.bitwise_right_shift(?) <- i, iv; i, 2; 2, iv; u8, 1; u8, pw_u8; i8, 3; k, 1
        torch.bitwise_right_shift(?) <- iv, pw_shift; -iv, pw_shift; i32, i8; i32, 32; iempty, 1
        torch.bitwise_right_shift(?) <- u8, 9; -i, 64; kv, iv
        i << ? <- 1; iv; isc; True
        i >> ? <- 1; iv; isc; True
        2 << iv; 100 >> iv; u8 << 1; u8 >> 1; k << 1; True << iv; i8 << i32
        torch.isin(?) <- mat, vec; i, iv; i, 2; 2, i; f32, iv; mat, mat; i, iempty; none, vec
        torch.isin(?) <- i, iv, assume_unique=True; i, iv, invert=True; nan, nan; 2.5, mat; sc, sc
        torch.isin(elements=i, test_elements=iv); torch.isin(i, i)
    """),
]  # fmt: skip
QUESTIONS = [
    *unary("signbit; isposinf; isneginf", "mat; sc; tran; edge; nan; inf; none; pw_signs"),
    *unary("isreal", "mat; sc; edge; nan; none", "iv; kv; f16; c64; csc"),
    *every("torch.{f}({x})", f="isclose; allclose", x="""
        mat, mat; mat, mat2; f32, f32; pw_close, f64; mat, vec; inf, inf; nan, nan; i, iv; k, kv;
        c64, c64; none, vec; sc, mat; nan, nan, equal_nan=True; inf, nan, equal_nan=True;
        mat, mat2, 0.5; mat, mat2, rtol=0.5, atol=0.5; i, iv, atol=2; i, iv, 0.5; edge, zero;
        edge, zero, 0.0, 1.0; f16, f16; pw_close, f64, 0.5, 0.1, True; u8, u8; c64, c64 + 1
    """),
]  # fmt: skip
IN_PLACE = [
    *calls("""
        mat.clone().? <- fmod_(vpos); fmod_(0.7); addcmul_(vec, col); addcmul_(vec, col, value=2)
        mat.clone().? <- addcdiv_(vec, vpos); addcdiv_(vec, vpos, value=-1); lerp_(mat2, 0.3)
        mat.clone().? <- lerp_(vec, pos); hypot_(mat2); sinc_(); frac_(); deg2rad_(); rad2deg_()
        mat.clone().? <- ldexp_(iv); xlogy_(pos); xlogy_(2.0); clamp_min_(0); clamp_min_(vec)
        mat.clone().? <- clamp_max_(0); clamp_max_(vec); nan_to_num_(); nan_to_num_(1.0, posinf=2)
        mat.clone().? <- heaviside_(vec.detach()); nextafter_(mat2); copysign_(mat2); copysign_(-1)
        mat.clone().? <- conj_physical_(); square_(); sgn_(); round_(decimals=1); round_()
        mat.clone().? <- div_(vpos, rounding_mode='floor'); div_(0.3, rounding_mode='trunc')
        mat.clone().? <- div_(2)
        mat.clone().? <- atan2_(mat2); arctan2_(mat2); absolute_(); arctan_(); arcsinh_(); fix_()
        mat.clone().? <- clip_(-1, 1); divide_(vpos); true_divide_(2); multiply_(vec); negative_()
        mat.clone().? <- subtract_(vec); greater_(vec); greater_equal_(vec); less_(vec)
        mat.clone().? <- less_equal_(vec); not_equal_(vec); divide_(2, rounding_mode='floor')
        unit.clone().? <- arcsin_(); arccos_(); arctanh_()
        big.clone().arccosh_(); nan.clone().nan_to_num_(); pw_gap.clone().nan_to_num_(1.0)
        i.clone().? <- fmod_(3); gcd_(iv); lcm_(iv); bitwise_left_shift_(1)
        i.clone().? <- bitwise_right_shift_(iv)
        i.clone().? <- addcmul_(iv, iv); clamp_min_(1); clamp_max_(iv); sgn_(); square_(); fix_()
        i.clone().? <- div_(2, rounding_mode='floor'); nan_to_num_(); conj_physical_()
        i.clone().? <- heaviside_(iv); __ilshift__(1); __irshift__(1)
        c64.clone().conj_physical_(); c64.clone().sgn_(); f64.clone().float_power_(2)
        f64.clone().float_power_(iv); f16.clone().fmod_(2); mat.double().clone().float_power_(2)
        torch.?(mat.clone()) <- abs_; acos_; acosh_; arccos_; arccosh_; arcsin_; arcsinh_; arctan_
        torch.?(unit.clone()) <- arctanh_; asin_; asinh_; atan_; atanh_; ceil_; cos_; cosh_; exp_
        torch.?(unit.clone()) <- conj_physical_; deg2rad_; exp2_; expm1_; fix_; floor_; frac_
        torch.?(pos.clone()) <- log_; log10_; log1p_; log2_; nan_to_num_; neg_; negative_; rad2deg_
        torch.?(pos.clone()) <- reciprocal_; relu_; round_; rsqrt_; sigmoid_; sin_; sinc_; sinh_
        torch.?(pos.clone()) <- sqrt_; square_; tan_; tanh_; trunc_; zero_
        torch.clamp_(mat.clone(), 0, 1); torch.clip_(mat.clone(), 0, 1); torch.fill_(mat.clone(), 2)
        torch.clamp_min_(mat.clone(), 0); torch.clamp_max_(mat.clone(), max=0)
        torch.gcd_(i.clone(), iv); torch.lcm_(i.clone(), iv); torch.ldexp_(mat.clone(), iv)
        torch.xlogy_(mat.clone(), pos)
    """),
]  # fmt: skip
NAMED = [
    *every("torch.{f}(input=mat)", f="""
        neg; reciprocal; exp; log; sin; tanh; sigmoid; relu; abs; sign; sgn; floor; round; square;
        sinc; frac; deg2rad; angle; signbit; isreal; isnan; logical_not; clone; conj; negative; fix;
        nan_to_num; conj_physical; frexp; positive; real
    """),
    *calls("""
        torch.?(input=mat, other=vec) <- add; sub; mul; div; remainder; maximum; minimum; eq; lt
        torch.?(input=mat, other=vec) <- atan2; fmod; hypot; logaddexp; fmax; fmin; copysign; rsub
        torch.?(mat, other=vec) <- add; sub; mul; div; remainder; floor_divide; maximum; eq; ge
        torch.?(mat, other=vec) <- fmod
        torch.?(mat, other=vec) <- logical_and; atan2; hypot; nextafter; ldexp; isclose; arctan2
        torch.?(mat, other=vec) <- mul
        torch.pow(input=pos, exponent=2)
        torch.pow(pos, exponent=vec); torch.clamp(input=mat, min=0)
        torch.lerp(input=mat, end=mat2, weight=0.25); torch.heaviside(input=mat, values=vec)
        torch.addcmul(input=mat, tensor1=vec, tensor2=col); torch.complex(real=mat, imag=mat2)
        torch.polar(abs=pos, angle=mat); torch.bitwise_and(i, other=iv); torch.gcd(i, other=iv)
        torch.xlogy(input=mat, other=pos); torch.float_power(input=mat, exponent=2)
        torch.masked_fill(mat, mask=k, value=2); torch.masked_fill(input=mat, mask=k, value=sc)
        mat.add(other=vec); mat.mul(other=2)
        mat.div(other=vec); mat.fmod(other=2); mat.eq(other=vec)
        mat.pow(exponent=2); mat.maximum(other=vec); mat.add(other=vec, alpha=2)
    """),
]  # fmt: skip
GROUPS = {
    "arithmetic": ARITHMETIC, "functions": FUNCTIONS, "choices": CHOICES, "complex": COMPLEX,
    "integers": INTEGERS, "questions": QUESTIONS, "reviewed": REVIEWED, "in_place": IN_PLACE,
    "named": NAMED,
}  # fmt: skip
ERRORS = [
    *every("torch.{f}({x})", f="maximum; minimum; hypot; logaddexp; fmax; ldexp; gcd; nextafter",
           x="f32, 2; f32, 'a'; 2, f32"),
    *every("torch.{f}({x})", x="'a'; None; 2", f="clone; conj; square; round; positive; sgn; "
           "frexp; is_neg; is_signed; is_nonzero; conj_physical; resolve_conj; resolve_neg; "
           "is_conj; nan_to_num"),
    *every("torch.{f}({x})", f="float_power; rsub; isin; xlogy; copysign; fmod; bitwise_left_shift",
           x="f32, 'a'; 'a', f32; None, f32"),
    *every("torch.{f}({x})", f="isclose; allclose; is_same_size; heaviside",
           x="'a', f32; None, f32; f32, 'a'"),
    *every("torch.{f}(vec, vec2)", f="fmod; hypot; fmax; copysign; xlogy; rsub; complex"),
    *calls("""
        torch.fill(mat, vec); mat.clone().fill_(vec); torch.fill(f32, 1j)
        torch.fmod(?) <- k, kv; c64, c64; i, 0; i, iv - 1; 2, f32; f32, 1j
        torch.rsub(?) <- k, kv; k, 1; iv, iv, alpha=0.5; iv, 2, alpha=2.5; 2, f32
        torch.rsub(?) <- f32, f32, alpha=True
        torch.addcmul(?) <- f32, f32, 2; f32, 2, f32; kv, kv, kv; f32, f32, f32, value=1j
        torch.addcdiv(?) <- iv, iv, iv; f32, iv, iv; f32, f32, 2; f32, f32, f32, value=1j
        torch.addcdiv(?) <- kv, kv, kv
        torch.lerp(?) <- f32, f64, 0.5; iv, iv, 0.5; f32, f32, f64; f32, 2, 0.5; f32, iv, 0.5
        torch.lerp(?) <- f32, f32, iv; f32, f32, 1j; f32, f32, 'a'; iv, iv, iv
        torch.logaddexp(?) <- iv, iv; kv, kv
        torch.logaddexp2(?) <- iv, iv; c64, c64
        torch.hypot(?) <- iv, iv; c64, c64; k, kv
        torch.xlogy(?) <- 2, 2; c64, c64; f32, 1j
        torch.special.xlog1py(?) <- 2, 2; c64, c64
        torch.frac(?) <- iv; c64; kv
        torch.round(?) <- iv, decimals=2; c64, decimals=1; kv; c64; iv, decimals=0
        torch.deg2rad(c64); torch.rad2deg(c64); torch.signbit(c64); torch.isposinf(c64)
        torch.isneginf(c64); torch.angle(2); torch.sinc('a'); torch.frexp(iv); torch.frexp(c64)
        torch.complex(?) <- f32, f64; iv, iv; c64, c64; f32, 2.0; 2.0, f32; f32, iv
        torch.polar(?) <- f32, f64; iv, iv; f16, f16; f32, 2.0; c64, c64
        torch.heaviside(?) <- f32, iv; c64, c64; f32, 2.0; f32, f64
        torch.copysign(?) <- c64, c64; 2, f32; f32, 1j
        torch.clamp_min(?) <- c64, 0; f32, None
        torch.clamp_max(?) <- c64, 0; f32, None
        torch.fmax(c64, c64); torch.fmin(f32, c64); torch.float_power(2, 2)
        torch.nextafter(?) <- iv, iv; c64, c64
        torch.gcd(?) <- f32, f32; kv, kv; c64, c64
        torch.lcm(?) <- f32, f32; kv, kv
        torch.positive(k); +k; torch.isclose(f32, f64); torch.isclose(iv, f32)
        torch.isclose(?) <- f32, 2.0; f32, f32, rtol=-1; f32, f32, atol=-1; f32, f32, rtol=-0.5
        torch.allclose(f32, f64); torch.isin(c64, c64); torch.isin(kv, kv); torch.isin(2, 2)
        torch.is_nonzero(f32); torch.is_nonzero(empty)
        torch.bitwise_left_shift(?) <- f32, 2; kv, kv; 2, 2; iv, 1.5; c64, 1
        torch.bitwise_right_shift(?) <- f32, 2; kv, kv; 2, 2; iv, f32
        f32 << 1; f32 >> iv; iv << 1.5; kv << kv; iv << 'a'; 'a' << iv; iv >> 'a'; 'a' >> iv
        f32.clone().? <- float_power_(2); addcmul_(c64, c64)
        f64.clone().float_power_(1j)
        i.clone().? <- addcmul_(f32, f32); copysign_(2); hypot_(iv); xlogy_(2); true_divide_(2)
        i.clone().? <- atan2_(iv); div_(2); fmod_(0); gcd_(f32); bitwise_left_shift_(1.5)
        k.clone().bitwise_left_shift_(1); mat.clone().div_(2, rounding_mode='up')
        mat.heaviside(vec).sum().backward()
        f32 ? 'a' <- +; -; *; /; **; //; %; &; |; ^; <; @
        'a' ? f32 <- +; -; /; **; //; &; |; ^; <; @
        f32 ? None <- +; -; *; /; **; //; %; <; >=
        f32 ? [1, 2, 3] <- -; /; **; <
        torch.add(f32, 'a'); torch.mul(f32, 'a'); torch.add('a', f32); torch.exp(None)
        torch.pow(f32, 'a'); torch.where(kv, f32, 'a'); torch.where(kv, f32); torch.eq(f32, 'a')
        torch.atan2(f32, 2); torch.logical_and(f32, 2); torch.pow(2, 2); torch.clamp(f32, 1, iv)
        torch.add(iv, iv, alpha=1.0); torch.add(f32, f32, alpha=True); torch.sub(iv, 2, alpha=1.0)
        torch.pow(i8, 300); torch.pow(True, kv); True ** kv; torch.clamp(kv, kv, kv); f32 % 1j
        f32.masked_fill(kv, 1e39); f16.masked_fill(kv, 1e9); f16.clone().fill_(1e9)
        k.clone().bitwise_and_(1); k.clone().bitwise_or_(i); i.clone().bitwise_xor_(1.5)
        c64.clone().abs_(); torch.abs_(c64.clone()); i.clone().add_(1, alpha=1.0)
        torch.igamma(f32, 2); torch.sqrt([1.0])
    """),
]  # fmt: skip

OTHER_GRAPH = {
    r"resolve_conj\(mat\.conj": "conj is done at once; PyTorch's is lazy, and resolved by a copy",
}
ONLY_OURS = {
    r"(asinh|acosh|atanh|arcsinh|arccosh|arctanh)_\(": "PyTorch has none of these in place",
    r"heaviside_\(": "no derivative; the error of PyTorch says heaviside_, ours heaviside",
    r"^torch\.polar\((edge, zero|mat, mat|zero, edge)\)$":
        "sizes of 0 and below, which PyTorch's gradient takes to be of no and of the opposite "
        "direction; ours is that of differences",
    r"^torch\.sinc\(edge\)$": "PyTorch's second derivative at 0 is NaN",
}  # fmt: skip
OTHER_SAVED = {
    "ComplexBackward0": "PyTorch keeps both parts, only to know that they are real",
    "PolarBackward0": "the angle, for a gradient that is right where the size is not above 0",
    "AddcdivBackward0": "PyTorch keeps tensor2 even if no gradient needs it",
}
NOT_COMPLEX = {
    r"\b(inf|nan|pw_gap)\b": "arithmetic of complex infinities is not defined alike",
    r"nan_to_num": "PyTorch refuses to differentiate it",
    r"signbit": "no signs to ask for",
}
ROUGH = {
    r"heaviside|nextafter|floor_divide": "steps, or no derivative at all",
    r"logical_\w+|(greater|less|equal)_?\w*_\(|abs_\(|zero_|fill_": "what goes round the graph",
    r"div_\(.*rounding|divide_\(2, round": "steps",
}
NO_SLOPE = {
    "heaviside": "PyTorch has no derivative of it",
    "nextafter": "one step of the floating-point numbers",
}
OTHER_WORDS = {
    "torch.eq(f32, 'a')",
}
NO_TANGENT = {
    r"^torch.xlogy\(zero, pw_probs\)$": "0 times the logarithm of a negative number: it is 0, as "
                                        "PyTorch has it, but where it is has no slope",
    r"^torch.fill\(f16": "a tangent in half precision, added up in double",
}  # fmt: skip
OTHER_TRANSFORM = {
    r"^torch\.rsub\(mat, 1j\)$": "the result is complex, but PyTorch's tangent of it is real",
    r"^torch\.fmax\((edge, zero|inf, nan|nan, inf|tied, tied2)\)$":
        "of equal numbers the first gets the gradient, and gives the tangent; in PyTorch's tangent "
        "it is the second",
    r"^torch\.clamp_m(in|ax)\(mat, nan\)$":
        "clamped to NaN: no gradient, in PyTorch either, and no tangent; PyTorch's comes from NaN",
}  # fmt: skip
