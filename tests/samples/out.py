"""``out=``: tensors given for results, and the tensors that are refused."""

from samples._words import calls, every

_F32, _F64, _I64, _C64, _K = (
    f"torch.zeros(0, dtype=torch.{name})"
    for name in ("float32", "float64", "int64", "complex64", "bool")
)
_BY_ELEMENT = """
    add(f32, f32; sub(f32, 2; mul(f32, f32; div(i32, 2; pow(f32, 2; atan2(f32, f32; exp(f32;
    sqrt(f32; maximum(f32, f32; lerp(f32, f32, 0.5; addcmul(f32, f32, f32; square(f32;
    sigmoid(f32; erf(f32; outer(f32, f32; special.erf(f32; bitwise_and(i32, i32; mean(f32, 0
"""
_OTHERS = """
    mm(i, i.T; matmul(i, i.T; gather(f32, 0, at[:2]; linalg.inv(torch.eye(2); argmax(f32, 0; triu(i;
    softmax(f32, 0; msort(f32; cross(f32, f32; eq(f32, 1; logical_not(f32; clamp(f32, 0, 1; abs(f32;
    cat([f32, f32]; stack([f32, f32]; sum(f32, 0; prod(i32, 0; cumsum(f32, 0
"""
_TARGETS = f"{_F32}; {_F64}; {_I64}; {_C64}"
GROUPS = {
    "dtypes": every("torch.{call}, out={out})", call=f"{_BY_ELEMENT}; {_OTHERS}", out=_TARGETS),
    "written": calls(f"""
        torch.add(f32, 1, out=f32); torch.add(f32[:2], 1, out=torch.ones(2))
        torch.exp(f32, out=f32); torch.eq(f32, 1, out=f32); torch.cumsum(f32, 0, out=f32)
        torch.special.ndtr(f32[:2], out=f32[1:]); torch.mvlgamma(f32[:2] + 3, 1, out=f32[1:])
        torch.pow(f32, 2, out=f32); torch.exp(f32[::2], out=f32[:2])
        torch.max(torch.eye(3), 1, out=({_F32}, {_I64})); torch.sort(i, 1, out=({_I64}, {_I64}))
        torch.sum(f32, 0, out={_I64}); torch.sum(i, 1, dtype=torch.float32, out={_F32})
        [type(torch.max(torch.eye(3), 1, out=({_F32}, {_I64}))).__name__]
        [torch.topk(f32, 2, out=({_F32}, {_I64})).indices]; torch.cumsum(f32, 0, out=f32)
        [str(torch.min(i, 0, out=({_I64}, {_I64})))]; torch.eq(i, 1, out={_K})
        torch.?, out={_K}) <- eq(vec, 1; lt(mat, vec; logical_not(vec; signbit(vec; isin(vec, vec
        torch.?, out={_I64}) <- argmax(mat, 0; nonzero(vec; searchsorted(vpos, vec; eq(vec, vec
        torch.logical_and(vec, vec2[:1], out={_F64})
    """),
}
ERRORS = [
    *every("torch.{call}, out={out})", call=_BY_ELEMENT.replace("bitwise_and(i32, i32;", ""),
           out=f"{_I64}; {_K}"),
    *calls(f"""
        torch.mm(i, i.T, out={_F32}); torch.gather(f32, 0, at[:2], out={_F64})
        torch.argmax(f32, 0, out={_F32}); torch.max(torch.eye(3), 1, out=({_F64}, {_I64}))
        torch.cat([f32, f32], out={_I64}); torch.abs(f32, out={_F64})
        torch.clamp(f32, 0, 1, out={_F64})
        torch.add(f32[:2], 1, out=f32[1:]); torch.exp(f32[:2], out=f32[1:])
        torch.cat([f32[:1], f32[1:]], out=f32); torch.gather(f32, 0, torch.arange(3), out=f32)
        torch.add(vec, 1, out=vec)
        torch.?, out=f32[1:]) <- eq(f32[:2], 1; logical_not(f32[:2]; pow(f32[:2], 2
        torch.cumsum(f32[:2], 0, out=f32[1:])
        torch.?, out=f32[1:]) <- logical_and(f32[:2], f32[1:]; hypot(f32[:2], f32[:2]
        torch.?, out=f32[1:]) <- logcumsumexp(f32[:2], 0; cumprod(f32[:2], 0
        torch.?, out=f32[1:]) <- diff(f32; kron(f32[:2], f32[:1]; ger(f32[:2], f32[:1]
        torch.?, out=f32) <- take(f32, torch.arange(3); outer(f32, f32[:1]; diff(f32
        torch.bitwise_not(i.flatten()[:2], out=i.flatten()[1:3])
        torch.float_power(mat.detach()[0], 2, out=mat.detach().flatten()[1:4])
    """),
]  # fmt: skip
