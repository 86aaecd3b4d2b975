"""Calls of every operation, as expressions in the arrays of ``op_pool``.

What each does is compared with PyTorch by ``test_ops.py``: values, dtypes, memory, graph, first and
second derivatives. ``test_table.py`` asks that no operation of the table is left out.
"""

from itertools import product


def _calls(text: str) -> list[str]:
    """Expressions parted by semicolons. ``f(?) <- x; y`` stands for ``f(x); f(y)``."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        template, arrow, arguments = line.partition(" <- ")
        items = [item.strip() for item in (arguments if arrow else line).split(";")]
        found += [template.strip().replace("?", a) if arrow else a for a in items]
    return found


def _every(template: str, **words: str) -> list[str]:
    """``template`` with every combination of the words given for its names."""
    choices = [[w.strip() for w in text.split(";")] for text in words.values()]
    return [template.format(**dict(zip(words, w, strict=True))) for w in product(*choices)]


_PAIRS = """
    mat ? mat2; mat ? vec; col ? row; sc ? mat; mat ? sc; sc ? sc2; cube ? one; tran ? step;
    mat ? mat; none ? vec; gap ? col; empty ? sc; inf ? nan; nan ? mat; mat ? 2; mat ? 2.5;
    mat ? True; mat ? (1+2j); 3 ? pos; 2.5 ? pos; mat ? i; i ? mat; mat ? k; sc ? i; vec ? isc;
    vec ? u8; vec ? f32; vec ? f64; sc ? f64; f32 ? sc; vec ? f16; vec ? c64; mat ? csc;
    vec ? fsc
"""
_PROMOTED = """
    i ? iv; i ? 2; i ? 2.5; i ? True; isc ? 2.5; i32 ? i8; i32 ? u8; u8 ? i8; u8 ? 3; i8 ? isc;
    k ? i; kv ? u8; f16 ? i; f16 ? 2; f16 ? f32; f32 ? f64; f32 ? fsc; f64 ? c64; f32 ? csc;
    i ? (1j); f32 ? i; isc ? f32; fsc ? f32; ksc ? i; 3 ? i32; 2.5 ? iv; kv ? 2.5; i32 ? c64;
    fsc ? isc; isc ? fsc; isc ? i8; fsc ? iv
"""


def _binary(symbol: str, pairs: str = _PAIRS + ";" + _PROMOTED) -> list[str]:
    return [pair.strip().replace("?", symbol) for pair in pairs.split(";") if pair.strip()]


def _unary(names: str, on: str, fixed: str = "iv; kv; u8; isc; f16") -> list[str]:
    return _every("torch.{name}({x})", name=names, x=f"{on}; {fixed}")


ARITHMETIC = [
    *_binary("+"), *_binary("-"), *_binary("*"), *_binary("/"),
    *_calls("""
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
    *_unary("neg; reciprocal", "mat; sc; tran; edge; inf; nan; none", "iv; u8; isc; f16"),
    *_calls("""
        torch.reciprocal(kv); +mat; -mat; +i; edge / zero; zero / edge; edge / edge; 1 / edge
        mat / 0; 0 / mat
        torch.remainder(?) <- mat, pos; mat, vec; mat, 0.7; i, 4; i, -4; mat, i; inf, vpos
        torch.remainder(?) <- mat, edge[0]; big, tied; u8, 7; f32, iv; i8, i32
        mat % ? <- 0.7; pos; sc
        7 % ipos[1]; 2.5 % pos
        ? // 2 <- mat; i; u8; f16
        mat // pos; i // iv; 7 // iv; inf // 2; edge // 0; -7 // iv; torch.floor_divide(mat, vec)
        torch.floor_divide(i, -2); torch.square(mat); torch.square(i)
    """),
]  # fmt: skip
POWERS = [
    *_calls("""
        mat ** ? <- 0; 1; 2; 3; -1; -2; 0.0; 2.0; True; i; iv; isc
        pos ** ? <- 0.5; -0.5; 2.5; vpos; sc; mat; f32; ptran; pos; csc; 1j
        edge ** ? <- 0; 1; 2; 3; 0.5; -1; edge; 1.5; 2.5; zero
        ? ** mat <- 2; 0.5; 0; 1; sc; iv
        ? ** edge <- 0; 0.0; 2; 1j; -2
        ? ** 2 <- sc; tran; inf; nan; none; i; kv; u8; f16; c64; k
        2 ** iv; 2.5 ** iv; iv ** 2.5; iv ** iv; ipos ** iv; i ** ipos; f32 ** iv; iv ** f32
        tied ** inf; inf ** tied; nan ** 0; 0 ** pos; 1 ** i; torch.pow(pos, vpos)
        torch.pow(2, mat); torch.pow(i, 3); zero ** mat; zero ** zero; mat ** zero; zero ** pos
        zero ** -1; isc ** isc; fsc ** iv; spos ** ipos
    """),
    *_unary("sqrt; rsqrt", "pos; spos; ptran; edge; inf; nan; none; mat"),
]  # fmt: skip
FUNCTIONS = [
    *_unary("exp; exp2; expm1; sin; cos; tan; atan; sinh; cosh; tanh; asinh; sigmoid",
            "mat; sc; tran; edge; inf; nan; none"),
    *_unary("log; log2; log10; log1p", "pos; spos; ptran; edge; inf; nan; none; mat"),
    *_unary("asin; acos; atanh", "unit; sc; edge; inf; nan; none; big"),
    *_unary("acosh", "big; edge; inf; nan; none; mat"),
    *_unary("relu; abs; sign; sgn; floor; ceil; trunc; round",
            "mat; sc; tran; edge; half; inf; nan; none"),
    *_calls("""
        torch.atan2(?) <- mat, mat2; mat, vec; sc, mat; edge, edge; inf, nan; edge, zero
        torch.atan2(?) <- zero, edge; i, iv; mat, i; none, vec; f32, f64
    """),
    *_unary("isnan; isinf; isfinite", "mat; sc; tran; edge; inf; nan; none"),
    *_calls("""
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
    *[e for symbol in ("==", "!=", "<", "<=", ">", ">=") for e in _binary(symbol, _COMPARED)],
    *_calls("""
        torch.?(mat, vec) <- eq; ne; lt; le; gt; ge; logical_and; logical_or; logical_xor
        torch.?(i, k) <- logical_and; logical_or; logical_xor
        torch.?(edge, zero) <- logical_and; logical_or; logical_xor
    """),
    *_unary("logical_not", "mat; edge; nan; none"),
    *[e for symbol in "&|^" for e in _binary(symbol, _BITS)],
    *_calls("""
        ~k; ~i; ~u8; torch.bitwise_not(iv)
        torch.bitwise_?(i, iv) <- and; or; xor
    """),
]  # fmt: skip
CHOICES = [
    *_calls("""
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
PRODUCTS = [
    *_calls("""
        ? @ mat3 <- mat; vec; step; cube2; mat3.t(); row; none; gap3
        mat @ ? <- vec; mat3; tran.t(); cube; four; none.t(); sq
        vec @ vec; vec @ sq; sq @ vec; cube @ vec2; vec @ cube; vec2 @ cube2; cube @ cube2
        cube1 @ cube; four @ cube2; cube @ cube2[:1]; four @ mat; four @ vec2; vec @ four
        btran @ cube2; gap @ gap.t(); gap.t() @ gap; empty @ empty; gap @ empty
        cube.expand(2, 2, 3, 2) @ cube2; i @ i.t(); iv @ iv; i @ iv; mat @ mat.t(); sq @ sq
        cube.transpose(1, 2) @ cube; cube.permute(2, 0, 1) @ mat3; cube1 @ mat3
        mat @ cube1.transpose(1, 2); gap3 @ sq; gap3 @ vec; four.unsqueeze(0) @ cube2
        cube[:, :, :0] @ cube2[:, :0]; nan @ sq; inf @ mat3; torch.matmul(mat, mat3)
        torch.mm(mat, mat3); torch.mm(tran, mat3); torch.mv(mat, vec); torch.mv(tran, vec)
        torch.dot(vec, vec); torch.dot(vec, mat[0]); torch.dot(empty, empty)
        torch.bmm(cube, cube2); torch.bmm(btran, cube2); torch.bmm(cube2, cube)
        torch.bmm(cube, cube.transpose(1, 2)); torch.outer(vec, vec2); torch.outer(vec, vec)
        torch.outer(iv, iv); torch.outer(empty, vec); vec.outer(vec2); torch.outer(vec, iv)
        torch.outer(iv, f32); torch.mm(i, i.t()); torch.dot(iv, iv); torch.mm(none.t(), none)
        torch.mv(none, vec); torch.mm(gap, gap.t())
        torch.bmm(gap3, cube.transpose(1, 2)[:, :0, :].transpose(1, 2).expand(2, 3, 0)[:, :3])
    """),
]  # fmt: skip
_ALL = "sum; mean; prod; all; any; amax; amin; max; min; argmax; argmin"
_WHOLE = "sum; prod; all; any; max; min; argmax; argmin; amax; amin"
REDUCTIONS = [
    *_every("{x}.{r}()", r="sum; mean; prod; all; any",
            x="mat; sc; none; gap; tran; cube; nan; inf; onez; twoz; f16"),
    *_every("{x}.{r}()", r="max; min; amax; amin; argmax; argmin",
            x="mat; sc; tran; tied; nan; inf; cube; f16"),
    *_every("{x}.{r}()", r=_WHOLE, x="i; iv; k; u8; isc; ksc; i32; c64"),
    *_every("mat.{r}({d})", r=_ALL,
            d="0; -1; 1; 0, True; -1, keepdim=True; dim=1, keepdim=False"),
    *_every("{x}.{r}(0)", r=f"{_ALL}; cumsum", x="sc; tied; nan; inf; tran; cube; none; gap"),
    *_every("{x}.{r}(-1)", r=f"{_WHOLE}; cumsum",
            x="i; k; u8; isc; i32; none; gap; onez; twoz; nan; tied; f16"),
    *_every("cube.{r}({d})", r="sum; mean; amax; amin; all; any",
            d="(0, 2); [1]; (-1, 0), True; dim=(0, 1, 2); (); dim=[], keepdim=True"),
    *_every("cube.{r}({d})", r="sum; mean",
            d="None, True; dim=None; axis=1; dim=1, keepdim=True; dtype=torch.float64; "
              "0, dtype=torch.float64; 0, True, dtype=torch.complex64"),
    *_calls("""
        cube.prod(?) <- 1; 1, True; -1; dtype=torch.float64; 0, dtype=torch.float64
        cube.max(?) <- 1; 1, True; -1; axis=2
        cube.argmax(?) <- 1; 1, True; -1; None, True
        torch.argmin(?) <- tied; tied, 0; cube, 2; mat, None, True
        torch.max(?) <- mat; mat, 1
        torch.sum(?) <- mat; mat, 0; mat, (0, 1); i, dtype=torch.float32; k, 0; u8, 0; mat, dim=1
        torch.mean(?) <- mat; mat, 0; mat, (0, 1), True; i, dtype=torch.float32
        torch.mean(?) <- i, 0, dtype=torch.float64
        torch.prod(?) <- mat; mat, 0; iv, dtype=torch.float32; onez, 1; twoz, 1; twoz, 0
        torch.prod(?) <- onez, 0, True
        torch.cumsum(?) <- mat, 0; mat, -1; cube, 1; tran, 1; iv, 0; mat, 0, dtype=torch.float64
        torch.cumsum(?) <- k, 1; none, 0; empty, 0
        torch.amax(?) <- tied, (0, 1); tied, 1; mat, 0, True; nan, 1; i, 0
        torch.amin(?) <- tied, (0, 1); tied, 1; mat, 0, True; nan, 1; i, 0
        torch.all(?) <- k; mat, 0; nan; k, 0, True
        torch.any(?) <- k; mat, 0; nan; k, 0, True
        one.prod(); one.prod(1); zero.prod(); gap.prod(1); gap.sum(1); gap.mean(1); gap.mean(0)
        none.sum((0, 1)); gap.all(1); gap.any(1); gap.max(0); gap3.max(2); gap3.argmax(0)
        gap3.amax(0); tied.max(1).values; tied.max(1).indices; tied.min(0)[1]; sc.max(0, True)
        sc.amax(-1); sc.cumsum(-1); one.sum(0); one.mean((0, 1))
    """),
]  # fmt: skip
SHAPES = [
    *_calls("""
        mat.reshape(?) <- 6; 3, 2; (3, -1); -1; 1, 2, 3; 2, 3; torch.Size([6]); [6, 1]
        tran.reshape(?) <- 6; 3, 2; 2, 3; 2, 1, 3
        mat.view(?) <- 6; 3, 2; -1; (3, 2); 2, 3, 1
        step.view(?) <- 2, 3, 1; 2, 1, 3
        tran.t().view(6); mat.t().reshape(6); mat.t().reshape(2, 3); sc.reshape(1); sc.view(1, 1)
        one.reshape(()); one.view([]); none.view(3, 0); none.reshape(0, 7); sc.reshape(-1)
        torch.reshape(mat, (3, 2)); mat.view_as(mat3); mat.reshape_as(mat3)
        row.expand(2, 3).reshape(6); i.view(6)
        cube.flatten()
        cube.flatten(?) <- 1; 0, 1; -2; 1, 1; start_dim=1, end_dim=2; -3, -2
        sc.flatten(); vec.flatten(); btran.flatten(); btran.flatten(1); torch.flatten(mat)
        none.flatten(); cube.transpose(0, 1).flatten(0, 1)
        cube.transpose(?) <- 0, 1; -1, 0; 2, 2; dim0=0, dim1=2
        sc.transpose(0, 0); sc.transpose(-1, 0); mat.t(); vec.t(); sc.t(); mat.T; cube.mT; mat.mT
        mat.H; torch.t(mat); torch.transpose(mat, 0, 1); vec.T
        cube.permute(?) <- 2, 0, 1; (0, -1, 1); 0, 1, 2; [1, 2, 0]
        sc.permute(()); torch.permute(mat, (1, 0))
        cube.movedim(?) <- 0, 2; -1, 0; (0, 1), (1, 2); [2, 0], [0, 1]; 1, 1
        torch.movedim(mat, 0, 1); torch.moveaxis(mat, 0, 1); cube.swapaxes(0, 1)
        row.expand(?) <- 2, 3; (4, 3); 5, -1, 3; -1, 3; 2, -1, -1; 1, 3; 0, 3
        sc.expand(2, 3); sc.expand(()); sc.expand(0); col.expand(2, 3); col.expand(2, 0)
        one.expand(2, 3); mat.expand(4, 2, 3); col.expand_as(mat); torch.broadcast_to(vec, (2, 3))
        vec.broadcast_to((2, 3)); tran.expand(2, 2, 3); mat.expand(0, 2, 3); none.expand(2, 0, 3)
        four.squeeze()
        four.squeeze(?) <- 1; 0; -3; (0, 1); [1]; dim=1; ()
        one.squeeze(); one.squeeze(0); sc.squeeze(); sc.squeeze(0); row.squeeze(-2)
        torch.squeeze(row); none.squeeze(); mat.squeeze(); cube1.transpose(0, 2).squeeze(2)
        mat.unsqueeze(?) <- 0; 1; 2; -1; -3; dim=1
        sc.unsqueeze(0); sc.unsqueeze(-1); tran.unsqueeze(1); torch.unsqueeze(vec, 0)
        none.unsqueeze(0)
        torch.cat(?) <- [mat, mat2]; (mat, mat2), 1; [mat, tran], -1; [mat, mat]; [vec, empty]
        torch.cat(?) <- [empty, mat]; [mat, empty, mat2], 1; [mat, none]; [vec]; [mat, i]
        torch.cat(?) <- [i, iv[None]]; [f32, f64]; [vec, f32]; [i32, u8]; [empty, empty]
        torch.cat(?) <- [gap, mat, gap], 1; [c64, vec]; [none, none]; [f16, iv]; [mat, row], dim=0
        torch.cat(?) <- [col, mat], 1; [vec, fsc[None]]; [k, k], 1; [gap, gap]; [step, row]
        torch.cat(?) <- [iempty, vec]
        torch.stack(?) <- [mat, mat2]; (mat, mat2), 1; [mat, tran], -1; [mat, mat2, mat], 2
        torch.stack(?) <- [sc, sc2]; [vec]; [none, none], 1; [iv, f32]; [vec, f64]; [sc, isc]
        torch.stack(?) <- [mat, mat2], dim=-3; [kv, kv]
        torch.concat([mat, mat2]); torch.concatenate([mat, mat2], 1)
        mat.split(?) <- 1; 2, 1; 3, dim=1; 5, 1; [1, 2], 1; [2, 0, 1], -1; (1, 1); 2, -1
        none.split(2); torch.split(tran, 2, 1); none.split(0); cube.split([1, 2], 1)
        vec.split([3, 0])
        mat.chunk(?) <- 2; 2, 1; 5, 1; 1; 3, -1
        torch.chunk(vec, 2); none.chunk(2); gap.chunk(2, 1)
        cube.unbind()
        cube.unbind(?) <- 1; -1; dim=2
        torch.unbind(tran, 1); none.unbind(); gap.unbind(1); vec.unbind()
        cube.select(?) <- 0, 1; -1, 0; 1, -1; dim=2, index=1
        torch.select(tran, 0, 1); vec.select(0, -3)
        cube.narrow(?) <- 1, 0, 2; -1, 1, 1; 1, 3, 0; 1, -2, 2; 0, 0, 2
        torch.narrow(tran, 1, 1, 2); mat.flip(0); mat.flip(0, 1); mat.flip((1,))
        torch.flip(cube, (0, -1)); sc.flip(()); mat.contiguous(); tran.contiguous()
    """),
]  # fmt: skip
INDEXING = [
    *_calls("""
        mat[?] <- 0; -1; 1, 2; 0, -1; :; ...; 1:; :, 1; :, 1:; ..., 0; 0, ...; None; None, 0
        mat[?] <- :, None; ..., None; 0, None, 1; ::2; :, ::2; -1:, -2:; 5:; 1:0; :-1, -3::2; True
        mat[?] <- False; None, ..., None; (); 0:2, 0:3; :, :; isc - 2; isc - 2, 1; ..., 1, None
        mat[?] <- slice(None, 1)
        cube[?] <- 0, 1, 1; :, 1; ..., 0; 1, :, ::2; :, -1, None; 0, ..., 1; 0, None, ..., 1, None
        cube[?] <- 1:, 0:2, 1
        mat[?] <- [0, 1]; [1, 1, 0]; [0, 1], [2, 0]; :, [2, 0]; rows, cols; rows; 0, [1, 2]; [-1]
        mat[?] <- back; :, at; ..., at; None, :, at; at32; :, iempty; iempty; []
        mat[?] <- torch.tensor([0, 1]), 1; rows, 1:; 1, at; [0, 1], None; None, [1, 0]
        mat[?] <- :, None, [2, 0]
        mat[?] <- k; ~k; knot; :, kv; [True, False]; mat > 0; ..., kv; 0, kv; torch.tensor(True)
        mat[?] <- ksc; k[:, 0]; k[:, 0], 1; k[:, 0], 1:; None, k; k[:, 2]; :, [True, False, True]
        cube[?] <- at[:2] - at[:2]; :, at; :, at, 1; [0, 1], :, [1, 0]; 0, :, [1, 0]; [1, 0], 0, :
        cube[?] <- :, [0, 2], [1, 0]; rows, cols; rows, :, rows; cube[..., 0] > 0; k; :, kv; k, 0
        cube[?] <- :, [0, 2], None, 1; [0, 1], ..., 1; [0], None, [1]; ..., [1, 0], :
        cube[?] <- 1, [0, 1], [1, 1]; :, :, rows; [1], 1:, [0]; ..., None, rows, :
        tran[?] <- 0; :, 1:; [1, 0]; k; ..., at
        none[?] <- :, 1; iempty; ..., None; kempty
        sc[?] <- ...; None; (); None, None; True; ksc; False
        i[?] <- 0; 1:, 0; k; [1, 0]
        vec[?] <- at; [0, 0, 0]; isc - 1; iv - 1; u8 > 2; 1:3; kv
        nan[?] <- k; 0; [1, 1]
        torch.stack([x for x in mat]); mat[at[:2] - at[:2], at[:2]]; mat[(0, 1)]; mat[[0, 1],]
        mat[1][2]; mat[:, 1:][0]
    """),
]  # fmt: skip
COPIES = [
    *_calls("""
        mat.clone(); tran.clone(); sc.clone(); none.clone(); i.clone(); torch.clone(mat)
        mat.to(?) <- torch.float32; torch.float64; torch.complex64; torch.complex128; mat2; f64
        mat.to(?) <- torch.float16; 'cpu'; dtype=torch.float64
        i.to(?) <- torch.float32; torch.bool; torch.uint8; torch.complex64; torch.int32
        k.to(torch.float32)
        mat.?() <- double; float; half
        i.?() <- float; double; bool; int; short; char; byte
        vec.type_as(f64); mat.to(torch.float64, copy=True); mat.to(torch.complex128).abs()
        f64.to(torch.float32)
    """),
]  # fmt: skip
COMPLEX = [
    *_calls("""
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
        mat.sgn(); mat.conj().real
    """),
]  # fmt: skip
IN_PLACE = [
    *_calls("""
        mat.clone().? <- add_(vec); add_(2); add_(vec, alpha=3); sub_(vec); sub_(1.5, alpha=2)
        mat.clone().? <- mul_(vec); mul_(0.5); mul_(mat); div_(vpos); div_(2); neg_(); exp_()
        mat.clone().? <- sin_(); cos_(); tanh_(); sigmoid_(); relu_(); abs_(); pow_(2); pow_(3)
        mat.clone().? <- pow_(iv); clamp_(-1, 1); clamp_(min=0); masked_fill_(k, 2)
        mat.clone().? <- masked_fill_(k, sc); zero_(); fill_(3); fill_(sc); copy_(vec)
        mat.clone().? <- copy_(mat2); copy_(i); copy_(f64); cumsum_(0); cumsum_(dim=1)
        mat.clone().? <- reciprocal_(); exp2_(); expm1_(); tan_(); atan_(); sinh_(); cosh_()
        mat.clone().? <- asinh_(); sign_(); floor_(); ceil_(); trunc_(); round_()
        mat.clone().? <- remainder_(vpos); remainder_(0.7); floor_divide_(vpos); logical_and_(vec)
        mat.clone().? <- logical_or_(vec); logical_xor_(vec); logical_not_(); eq_(vec); ne_(vec)
        mat.clone().? <- lt_(0); le_(vec); gt_(vec); ge_(0.5); add_(i); mul_(k); add_(f64)
        mat.clone().? <- add_(True); sub_(i); pow_(vpos); clamp_(vec, mat2)
        pos.clone().? <- sqrt_(); rsqrt_(); log_(); log2_(); log10_(); log1p_(); pow_(0.5)
        pos.clone().? <- pow_(mat); pow_(vec); acosh_(); asin_()
        unit.clone().? <- asin_(); acos_(); atanh_()
        big.clone().acosh_()
        i.clone().? <- add_(1); add_(iv); mul_(2); sub_(True); neg_(); pow_(2); remainder_(3)
        i.clone().? <- floor_divide_(2); abs_(); clamp_(0, 2); bitwise_and_(3); bitwise_or_(iv)
        i.clone().? <- bitwise_xor_(1); bitwise_not_(); eq_(iv); masked_fill_(k, 9); fill_(2.7)
        i.clone().? <- zero_(); copy_(f32); lt_(2); cumsum_(1); logical_not_()
        k.clone().? <- bitwise_not_(); bitwise_and_(kv); logical_or_(kv); eq_(kv); fill_(1)
        k.clone().? <- copy_(i); mul_(kv)
        u8.clone().? <- add_(10); mul_(3); sub_(5); fill_(7)
        tran.clone().add_(1); sc.clone().mul_(sc2); none.clone().add_(vec)
        put(mat.clone(), ?) <- 0, vec; 0, 1.5; (0, 1), sc; (slice(None), 1), 2
        put(mat.clone(), ?) <- (slice(None), 1), vec2; slice(1, None), row; ..., mat2
        put(mat.clone(), ?) <- slice(None), vec; k, 0; k, sc; [1, 0], mat2; ([0, 1], [2, 0]), vec2
        put(mat.clone(), ?) <- (slice(None), [2, 0]), col; at32, vec; (0, [0, 1]), vec2
        put(mat.clone(), ?) <- mat > 0, 1; None, mat2; (0, None), row; [0, 0], vec; k, vec
        put(mat.clone(), ?) <- True, 3; (rows, cols), col; 0, i[0]; (0, 0), 3; (0, 0), fsc
        put(mat.clone(), ?) <- iempty, 1; slice(0, 0), 1; (0, kv), vec2; 0, row
        put(mat.clone(), ?) <- (slice(None), 0), True; [0, 1], i; ..., 0; (Ellipsis, 0), vec2
        put(mat.clone(), ?) <- 0, mat2[1]; isc - 2, vec
        put(i.clone(), 0, 2.7); put(i.clone(), k, iv[0]); put(i.clone(), [0], iv)
        put(k.clone(), 0, kv); put(cube.clone(), (0, k[0]), vec2); put(cube.clone(), k, vec2)
        put(tran.clone(), k, 0); put(sc.clone(), (), 2); put(sc.clone(), ..., sc2)
        written(mat.clone(), lambda z: z[0], ?) <- 'mul_', 2; 'add_', vec; 'copy_', vec; 'zero_'
        written(mat.clone(), lambda z: z[0], ?) <- 'fill_', sc; 'exp_'
        written(mat.clone(), lambda z: ?, 'mul_', 3) <- z.t(); z.view(6); z[:, 1:]
        written(mat.clone(), lambda z: ?, 'mul_', 3) <- z.reshape(3, 2); z.unsqueeze(0); z[:, 1]
        written(mat.clone(), lambda z: ?, 'mul_', 3) <- z.transpose(0, 1)[1:]; z.permute(1, 0)
        written(mat.clone(), lambda z: ?, 'mul_', 3) <- z.squeeze(); z[...]; z.narrow(1, 0, 2)
        written(mat.clone(), lambda z: ?, 'mul_', 3) <- z.select(1, 2); z.flatten(); z.detach()
        written(cube.clone(), lambda z: z.permute(2, 0, 1)[1], 'mul_', mat)
        written(mat.clone(), lambda z: z.t(), 'copy_', mat3)
    """),
]  # fmt: skip
GROUPS = {
    "arithmetic": ARITHMETIC, "powers": POWERS, "functions": FUNCTIONS, "choices": CHOICES,
    "comparisons": COMPARISONS, "products": PRODUCTS, "reductions": REDUCTIONS, "shapes": SHAPES,
    "indexing": INDEXING, "copies": COPIES, "complex": COMPLEX, "in_place": IN_PLACE,
}  # fmt: skip
SAMPLES = list(dict.fromkeys(e for expressions in GROUPS.values() for e in expressions))

# Calls that must fail, with the same type of exception and the same words.
ERRORS = [
    *_calls("""
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
        f32.masked_fill(kv, csc); f32.masked_fill(f32, 1); torch.exp(2); torch.exp('a')
        torch.mul(mat, 'a'); mat + 'a'; mat + None; torch.add(mat, [1]); mat @ mat; vec @ vec2
        mat @ vec2; vec @ mat; cube @ vec; cube @ cube; cube @ sq; sc @ vec; vec @ sc
        mat @ 2; torch.mm(vec, mat3); torch.mm(mat, vec)
        torch.mv(mat, mat3); torch.mv(vec, vec); torch.mv(mat, vec2); torch.dot(vec, vec2)
        torch.dot(mat, vec); torch.bmm(mat, cube); torch.bmm(cube, mat); torch.bmm(cube, cube)
        torch.bmm(cube, cube2[:1]); torch.outer(mat, vec); torch.outer(vec, mat); f32 @ f64
        f32[None] @ f64; f32[None] @ f64[:, None]; f32[None, None] @ f64[None, :, None]
        torch.mm(i, f32[:, None]); k @ kv; kv @ kv; c64 @ f32; torch.mm(mat, 2); torch.dot(vec, 2)
        k[None] @ k.t()[None]; k @ k.t()
    """),
    *_every("{x}.{r}", x="mat; i",
            r="sum(2); mean(-3); prod(2); amax(5); max(2); argmax(-4); all(2); any(3); cumsum(2); "
              "sum((0, 0)); sum((0, -2)); amax((0, 0)); mean((0, 2)); all((1, 1))"),
    *_calls("""
        sc.? <- sum(1); mean(-2); prod(1); max(1); cumsum(1); argmin(-2); amin(1)
        i.mean(); k.mean(); i.mean(0); mat.sum('a')
        ?.max() <- none; empty
        ?.argmax() <- none; empty
        ?.amax() <- none; gap
        gap.max(1); gap.argmin(1); gap3.amin((0, 1)); none.min(0); none.amin(0); mat.cumsum()
        mat.sum(1.5); c64.argmax(0); k.argmax(); c64.max()
        mat.reshape(?) <- 4; -1, -1; 5, -1; -2, 3; 0, -1; 2, 2
        mat.view(?) <- 4; -1, -1; 7, -1
        tran.view(6); tran.view(3, 2); none.reshape(-1, 0); none.view(-1, 0); mat.flatten(1, 0)
        mat.flatten(2); mat.flatten(0, 5); sc.flatten(1); cube.t(); mat.transpose(0, 2)
        mat.transpose(-3, 0); sc.transpose(0, 1); mat.permute(0); mat.permute(0, 0)
        mat.permute(0, 2); mat.permute(0, 1, 2); mat.movedim(0, 2); mat.movedim((0, 1), 0)
        mat.movedim((0, 0), (0, 1)); mat.movedim((0, 1), (1, 1)); mat.expand(3, 3); mat.expand(3)
        mat.expand(-1, 2, 3); row.expand(2, -2); vec.expand(2, 4); torch.broadcast_to(vec, (2,))
        mat.unsqueeze(3); mat.unsqueeze(-4); mat.squeeze(2); mat.squeeze((0, 0))
        mat.squeeze((0, 5)); torch.cat([]); torch.cat([sc, sc2]); torch.cat([vec, sc])
        torch.cat([mat, mat3]); torch.cat([mat, vec]); torch.cat([mat, mat2], 2)
        torch.cat([mat, cube]); torch.cat([mat, mat3], 1); torch.cat([none, mat3])
        torch.cat([mat, 2]); torch.stack([]); torch.stack([mat, mat3])
        torch.stack([mat, mat2], 3); torch.stack([vec, vec2]); torch.stack([mat, mat2], -4)
        torch.cat(mat); mat.split(0); mat.split(-1); mat.split([1, 3]); mat.split([3, -1])
        mat.split(1, 2); sc.split(1); mat.chunk(0); mat.chunk(-1); mat.chunk(2, 2); sc.chunk(2)
        mat.unbind(2); sc.unbind(); mat.select(0, 2); mat.select(2, 0); mat.select(-1, -4)
        sc.select(0, 0); mat.narrow(0, 1, 2); mat.narrow(0, 3, 0); mat.narrow(0, -3, 1)
        mat.narrow(0, 0, -1); mat.narrow(2, 0, 1); sc.narrow(0, 0, 1); mat.flip(2); mat.flip(0, 0)
        torch.view_as_complex(mat); torch.view_as_real(f32)
        mat[?] <- 2; -3; 0, 3; 0, 0, 0; [0, 2]; [0, -3]; :, [3]; k[:, :2]; kv; 1.5; 'a'; ::-1; ::0
        mat[?] <- f64; ..., 0, 0, 0; k, 0; [0, 1], [0, 1, 2]; 1.0:2; mat
        sc[?] <- 0; :; [0]; ..., 0; None, 0, 0
        empty[0]; none[0]; none[[0]]; vec[at[:3], at[:3]]
        mat.clone().? <- add_(cube); add_(1j); mul_(mat3); copy_(mat3); masked_fill_(k, vec)
        mat.clone().? <- clamp_(); cumsum_(3); eq_(mat3)
        i.clone().? <- add_(0.5); div_(2); sqrt_(); mul_(f32); exp_(); pow_(0.5); sigmoid_()
        i.clone().? <- add_(f32); pow_(-1)
        k.clone().? <- add_(1); sub_(kv); mul_(2); neg_()
        f32.clone().? <- add_(1j); mul_(c64); div_(c64)
        u8.clone().fill_(300); i.clone().fill_(1j); mat.add_(1); mat[0].mul_(2); mat.t().zero_()
        row.expand(2, 3).clone().t().add_(vec); sc.clone().add_(vec); put(mat.clone(), 0, vec2)
        put(mat.clone(), k, vec2); put(mat.clone(), 5, 1); put(mat.clone(), [0, 1], i)
        put(mat.clone(), [5], 1); put(mat, 0, 1); put(mat.clone(), 0, 'a')
        put(mat.clone(), slice(None), cube); put(i.clone(), 0, 1j)
        row.clone().expand(2, 3).add_(1); mat.clone().unbind()[0].mul_(2)
        mat.clone().split(1)[0].add_(1)
    """),
]  # fmt: skip
