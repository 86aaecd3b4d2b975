"""Calls of activations."""

import numpy as np

from samples._words import calls

INF, NAN = float("inf"), float("nan")
SMOOTH = {
    "act_wide": np.linspace(-4.3, 4.7, 12).reshape(3, 4) + 0j,
    "act_weight": np.array([0.3, -0.2, 1.7]) + 0j,
    "act_one": np.array([0.3]) + 0j,
}
SPECIAL = {
    "act_edge": np.array([-6.0, -3.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 3.0, 6.0]),
    "act_huge": np.array([-1000.0, -100.0, 100.0, 1000.0]),
    "act_odd": np.array([-INF, NAN, INF]),
    "act_many": np.linspace(-8, 8, 40).reshape(4, 10),
}
_ON = "mat; sc; act_wide; tran; step; btran; act_edge; act_huge; act_odd; none; f16; i; k; act_many"
_F = "torch.nn.functional."


def _each(names: str, on: str = _ON) -> list[str]:
    return [f"{_F}{n.strip()}({x.strip()})" for n in names.split(";") for x in on.split(";")]


_PLAIN = """
    relu; relu6; hardtanh; hardswish; hardsigmoid; elu; selu; celu; leaky_relu; rrelu;
    logsigmoid; softplus; softshrink; hardshrink; tanhshrink; softsign; silu; tanh; sigmoid
""".replace("\n", "")
PIECES = [
    *_each(_PLAIN),
    *_each("mish", _ON.replace("act_huge", "act_huge / 50")),  # whose bend at 100 is NaN there
    *_each("gelu", _ON.replace(" act_odd;", "")),  # PyTorch's float32 says NaN of an infinity
    *calls(f"""
        {_F}threshold(?, 0.5, 20) <- {_ON}
        {_F}threshold(?, 0, 0.25) <- act_edge; mat; i
        {_F}hardtanh(?, -0.5, 2) <- mat; act_edge; act_odd; i
        {_F}hardtanh(mat, min_val=-2, max_val=1.5); {_F}relu(mat, inplace=False)
        {_F}elu(?, 0.5) <- mat; act_edge; act_huge; act_odd; f16
        {_F}elu(?, -0.5) <- mat; act_edge
        {_F}elu(mat, alpha=2.5)
        {_F}celu(?, 0.5) <- mat; act_edge; act_huge; act_odd; f16
        {_F}celu(?, alpha=-2) <- mat; act_edge
        {_F}leaky_relu(?, 0.25) <- mat; act_edge; act_huge; act_odd; f16
        {_F}leaky_relu(?, -0.25) <- mat; act_edge
        {_F}leaky_relu(?, 1.5) <- mat; act_edge; act_odd
        {_F}leaky_relu(?, 0) <- mat; act_odd
        {_F}gelu(?, approximate='tanh') <- {_ON}
        {_F}gelu(mat, approximate='none')
        {_F}softplus(?, 2, 3) <- mat; act_edge; act_wide; act_huge; act_odd; f16
        {_F}softplus(mat, beta=0.5, threshold=0.25)
        {_F}softshrink(?, 1) <- mat; act_edge; act_odd
        {_F}hardshrink(?, lambd=1) <- mat; act_edge; act_odd
        {_F}softshrink(mat, 0); {_F}hardshrink(mat, 0); {_F}hardshrink(mat, -1)
        torch.threshold(mat, 0.5, 20); torch.hardshrink(mat); mat.hardshrink(0.25); torch.selu(mat)
        torch.celu(mat); torch.celu(mat, 2.5); torch.rrelu(mat); torch.rrelu(mat, 0.25, 0.5)
        {_F}rrelu(?, 0.5, 0.25 + 0.5) <- mat; act_edge; act_odd; f16
        {_F}rrelu(mat, lower=-0.5, upper=0.25)
    """),
]  # fmt: skip
SEVERAL = calls(f"""
    {_F}glu(?) <- cube; act_wide; torch.cat([mat, mat2], 1); torch.cat([nan, mat], 1)
    {_F}glu(?, 0) <- mat; tran; act_wide[:2]; act_huge; act_edge; empty; f16[:2]
    {_F}glu(cube, dim=2); {_F}glu(cube, dim=-3); {_F}glu(1000 * cube)
    {_F}prelu(?, act_one) <- mat; sc; cube; four; act_edge[:4]; act_odd; none; vec; tran
    {_F}prelu(?, act_weight) <- mat; cube; nan; none
    {_F}prelu(mat3, act_weight[:2]); {_F}prelu(act_edge.detach(), act_one.detach())
    {_F}prelu(mat, sc); {_F}prelu(sc, sc2); torch.prelu(vec, sc)
    {_F}prelu(four, act_one); mat.prelu(act_weight); {_F}prelu(f16, f16[:1])
    [torch.manual_seed(3), {_F}rrelu(mat, training=True)][1]
    [torch.manual_seed(3), {_F}rrelu(act_wide, 0.25, 0.75, True)][1]
    [torch.manual_seed(3), {_F}rrelu(act_edge, 0.25, 0.75, training=True)][1]
    [torch.manual_seed(3), {_F}rrelu(mat, 0.25, 0.25, True)][1]
    [torch.manual_seed(3), {_F}rrelu(none, training=True)][1]
    [torch.manual_seed(3), {_F}rrelu_(mat * 1, training=True)][1]
""")
IN_PLACE = calls(f"""
    {_F}?(mat * 1, inplace=True) <- relu; relu6; hardtanh; hardswish; hardsigmoid; elu; selu; celu
    {_F}?(mat * 1, inplace=True) <- leaky_relu; rrelu; silu; mish
    {_F}?(act_edge * 1, inplace=True) <- relu6; hardswish; hardsigmoid; elu; selu; celu; leaky_relu
    {_F}?(act_wide * 1, inplace=True) <- relu6; hardswish; hardsigmoid; elu; selu; celu; leaky_relu
    {_F}threshold(mat * 1, 0.5, 20, inplace=True); {_F}threshold_(mat * 1, 0.5, 20)
    {_F}?(mat * 1) <- relu_; hardtanh_; elu_; selu_; celu_; leaky_relu_; rrelu_
    {_F}elu_(mat * 1, 0.5); {_F}celu_(mat * 1, 0.5); {_F}leaky_relu_(mat * 1, 0.5)
    {_F}hardtanh_(mat * 1, -0.5, 0.5); {_F}rrelu_(mat * 1, 0.25, 0.5)
    {_F}elu_(mat * 1, -0.5); {_F}leaky_relu_(mat * 1, -0.5)
    torch.celu_(mat * 1, 0.5); torch.selu_(mat * 1); torch.threshold_(mat * 1, 0.5, 9.0)
    torch.rrelu_(mat * 1, 0.25, 0.5); torch.threshold_(iv * 1, 1, 6)
    written(mat * 1, lambda x: x[0], 'relu_'); (mat * 1).sigmoid_(); (mat * 1).tanh_()
""")
NARROW = calls(f"""
    {_F}threshold(?) <- u8, 1, 6; i8, 1, 6; i32, -5, -6; u8, -3, -2; i8, 3.7, 4.2
    {_F}silu(c64); {_F}silu(csc); {_F}silu(c64 * 1, inplace=True)
    {_F}?(act_odd) <- elu; celu; selu
""")
GROUPS = {"pieces": PIECES, "several": SEVERAL, "in_place": IN_PLACE, "narrow": NARROW}
ERRORS = calls(f"""
    {_F}hardtanh(mat, 1, -1); {_F}softshrink(mat, -0.5); {_F}gelu(mat, approximate='erf')
    {_F}glu(sc); {_F}glu(vec); {_F}glu(mat); {_F}glu(mat, 2); {_F}celu(mat, 0)
    {_F}celu_(mat * 1, 0)
    {_F}prelu(mat, vec2); {_F}prelu(mat, mat); {_F}prelu(vec, act_weight); {_F}prelu(sc, vec)
    {_F}prelu(mat, f32[:1]); {_F}prelu(i, iv); {_F}rrelu(mat, 0.5, 0.25)
    {_F}hardtanh(k); {_F}relu(k); {_F}relu(mat, inplace=True); {_F}elu_(mat); {_F}glu(i, 0)
    {_F}rrelu(i); {_F}rrelu(i, training=True); {_F}threshold_(mat, 1, 1)
    {_F}silu(mat, inplace=True)
""")

COARSE = {r"hardsigmoid": "PyTorch's slope is a sixth in single precision"}
NOT_COMPLEX = {
    r"silu.*inplace": "PyTorch refuses silu of complex numbers, but not in place",
    r"(tanhshrink|softsign|tanh|sigmoid)\(act_odd\)": "complex infinities are not defined alike",
}
NO_RULE = {
    ("rrelu", "noise"): "drawn numbers",
    ("rrelu_written", "noise"): "drawn numbers",
}
NO_SLOPE = {
    "hardsigmoid_backward": "PyTorch does not differentiate it twice",
}
ROUGH = {r"_\(mat \* 1, -0\.5\)": "refused in backward: the result does not tell the side"}
OTHER_COMPLEX = {
    r"functional\.silu\((mat|sc|tran|step|btran)\)$":
        "PyTorch refuses a gradient, and its tangent is not the limit of differences, as ours is: "
        "it conjugates the slope",
}  # fmt: skip
