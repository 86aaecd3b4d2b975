"""Writing in place, directly, through views and at indices."""

from samples._words import calls

IN_PLACE = [
    *calls("""
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
        put(mat.clone(), ?) <- (0, kv), row[:, :1]; (-1, kv), one[None]; [0, 1], cube1
        put(mat.clone(), ?) <- (slice(None), [0, 2]), cube1[:, :, :2]; k, row; (1, kv), row[:, 1:]
        put(mat.clone(), [0], row[None]); put(cube.clone(), (slice(None), kv), isc)
        put(mat.clone(), ?) <- (slice(None), kv), fsc; (None, slice(None), kv), ksc
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
GROUPS = {"in_place": IN_PLACE}
ERRORS = [
    *calls("""
        mat.clone().? <- add_(cube); add_(1j); mul_(mat3); copy_(mat3); masked_fill_(k, vec)
        mat.clone().? <- clamp_(); cumsum_(3); eq_(mat3)
        put(vec.clone(), kv, mat[:, :2])
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

OTHER_GRAPH = {
    r"(lt_\(0\)|ge_\(0\.5\))$": "one node for comparing with numbers and with tensors in place",
}
OTHER_SAVED = {
    "IndexPutBackward0": "an index is copied, so that later writes to it do no harm",
}
ONLY_OURS = {
    r"(asinh|acosh|atanh)_\(\)$": "no derivatives of these in place",
    r"^mat\.clone\(\)\.floor_divide_": "none in place either: its error says floor_divide_",
}
NOT_COMPLEX = {r"\.abs_\(\)$": "PyTorch refuses to write moduli over complex numbers"}
ROUGH = {
    r"floor_divide": "steps, whose derivative PyTorch does not implement",
    r"detach|logical_\w+_\(|abs_\(\)": "what goes round the graph",
    r"put\(mat.clone\(\), \[0, 0\]": "a place is written twice, and both get its gradient",
}
NO_SLOPE = dict.fromkeys(
    ("copy", "fill", "fill_number"), "only written, and of the shape of what is written"
)
NO_TANGENT = {
    r"^put\(mat\.clone\(\), \[0, 0\], vec\)$":
    "of several values put at one place the last stays; each gets the gradient, as in PyTorch",
}  # fmt: skip
