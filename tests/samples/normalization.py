"""Layer, batch, group and instance norm, and their kin."""

import numpy as np

from samples._pool import draw
from samples._words import calls

_N = "torch.nn.functional"
SMOOTH = {
    "nx": draw((3, 4, 5), -2, 2, 501), "nflat": draw((4, 6), -2, 2, 502),
    "nimg": draw((2, 4, 3, 3), -2, 2, 503), "nturn": draw((5, 4, 3), -2, 2, 504).transpose(2, 1, 0),
    "nw4": draw((4,), -2, 2, 505), "nb4": draw((4,), -2, 2, 506), "nw5": draw((5,), -2, 2, 507),
    "nb5": draw((5,), -2, 2, 508), "nw45": draw((4, 5), -2, 2, 509),
    "nb45": draw((4, 5), -2, 2, 510), "nw6": draw((6,), -2, 2, 511), "nb6": draw((6,), -2, 2, 512),
    "nvol": draw((1, 3, 2, 2, 2), -2, 2, 513), "nlong": draw((2, 20000), -2, 2, 514),
    "ntall": draw((300, 80), -2, 2, 515), "nw80": draw((80,), -2, 2, 516),
    "nbig": draw((6, 4, 30, 30), -2, 2, 517), "none4": draw((1, 4, 1), -2, 2, 518),
}  # fmt: skip
SPECIAL = {
    "nsame": np.full((2, 4), 3.0), "nnan": np.array([[1.0, np.nan, 2.0], [1.0, 2.0, 4.0]]),
    "ninf": np.array([[1.0, np.inf, 2.0], [1.0, 2.0, 4.0]]),
    "nempty": np.zeros((0, 4)), "ngap": np.zeros((2, 4, 0)), "nvoid": np.zeros((0, 4, 3)),
    "nwe": np.array([0.5, -1.0, 2.0, 0.0]), "nx1": np.array([[[1.0, 2.0], [4.0, -1.0]]]),
}  # fmt: skip
FIXED = {
    "nrm": np.array([0.5, -1.0, 0.25, 2.0]), "nrv": np.array([1.5, 0.5, 2.0, 1.0]),
    "nrm32": np.array([0.5, -1.0, 0.25, 2.0], np.float32),
    "nrv32": np.array([1.5, 0.5, 2.0, 1.0], np.float32),
    "nh": np.array([[[1.5, -2.0, 0.5], [3.0, 2.5, -1.0], [0.0, 1.0, 2.0], [4.0, -3.0, 0.25]]] * 2,
                   np.float16),
    "nhw": np.array([1.5, -2.0, 0.5], np.float16), "nfw": np.array([1.5, -2.0, 0.5], np.float32),
    "nfw4": np.array([1.5, -2.0, 0.5, 1.0], np.float32),
    "nhw4": np.array([1.5, -2.0, 0.5, 1.0], np.float16),
}  # fmt: skip

_LAYER = calls(f"""
    {_N}.layer_norm(?) <- nx, (5,), nw5, nb5; nx, (5,); nx, [5], nw5; nx, (5,), None, nb5
    {_N}.layer_norm(?) <- nx, (4, 5), nw45, nb45; nx, (3, 4, 5); nx, (5,), nw5, nb5, 0.1
    {_N}.layer_norm(?) <- nx, normalized_shape=(5,), weight=nw5, bias=nb5, eps=1e-3; vec, (3,)
    {_N}.layer_norm(?) <- nturn, (5,), nw5, nb5; tran, (3,); step, (3,), vec; nx, (5,), nw5, nw5
    {_N}.layer_norm(?) <- nempty, (4,), nw4, nb4; ngap, (0,); ngap, (4, 0); nsame, (4,), nw4, nb4
    {_N}.layer_norm(?) <- nnan, (3,); ninf, (3,); nnan, (3,), vec, vec; nx, torch.Size([5])
    {_N}.layer_norm(?) <- nh, (3,); nh, (3,), nhw, nhw; nh, (3,), nfw, nfw; nh, (3,), None, nfw
    {_N}.layer_norm(?) <- one, (1,), bias=vec[:1]; ntall, (80,), nw80, nw80; nx, (5,), nw5, nb5, 0.
    torch.native_layer_norm(?) <- nx, (5,), nw5, nb5, 1e-5; nx, (4, 5), None, None, 0.1
    torch.layer_norm(?) <- nx, (5,), nw5, nb5, 1e-5, True; nx, (5,), eps=0.5, cudnn_enable=False
    {_N}.rms_norm(?) <- nx, (5,), nw5; nx, (5,); nx, (4, 5), nw45, 1e-3; vec, (3,); nx, [5], eps=0.5
    {_N}.rms_norm(?) <- nturn, (5,), nw5; nempty, (4,), nw4; ngap, (0,); nnan, (3,); ninf, (3,)
    {_N}.rms_norm(?) <- nh, (3,); nh, (3,), nfw; nh, (3,), nhw; vec, (3,), nfw; f32, (3,), f64
    torch.rms_norm(?) <- nx, (5,), nw5, 1e-2; zero.reshape(1), (1,)
    {_N}.local_response_norm(?) <- nx, 2; nx, 3, 0.5, 2.0, 2.0; nx, 1; nx, size=5, alpha=0.1
    {_N}.local_response_norm(?) <- nimg, 3; nvol, 2, beta=0.5; ngap, 2; nx1, 2, k=0.5; nturn, 2
""")
_BATCH = calls(f"""
    {_N}.batch_norm(?) <- nx, nrm, nrv, nw4, nb4; nx, nrm, nrv; nx, nrm, nrv, nw4; nimg, nrm, nrv
    {_N}.batch_norm(?) <- nx, nrm, nrv, None, nb4, False, 0.3, 0.1; nx, nrm, nrv, nwe, nb4
    {_N}.batch_norm(?) <- nx, None, None, nw4, nb4, True; nx, None, None, nw4, None, True
    {_N}.batch_norm(?) <- nx, None, None, None, nb4, True; nx, None, None, training=True
    {_N}.batch_norm(?) <- nflat, None, None, nw6, nb6, True, eps=0.1
    {_N}.batch_norm(?) <- nvol, None, None, vec, vec, True
    {_N}.batch_norm(?) <- nimg, None, None, nw4, nb4, True; nturn, None, None, nw4, nb4, True
    {_N}.batch_norm(?) <- nbig.double(), None, None, nw4.double(), nb4.double(), True
    {_N}.batch_norm(?) <- nempty, nrm, nrv, nw4, nb4, True
    {_N}.batch_norm(?) <- nempty, nrm, nrv; ngap, None, None, nw4, nb4, True; ngap, nrm, nrv
    {_N}.batch_norm(?) <- nnan, None, None, None, None, True; ninf, None, None, None, None, True
    {_N}.batch_norm(?) <- nsame.double(), None, None, nw4.double(), nb4.double(), True
    {_N}.batch_norm(?) <- nh, nrm32, nrv32; nh, nrm32, nrv32, nfw4, nfw4, True
    {_N}.batch_norm(?) <- nh, None, None, training=True
    {_N}.batch_norm(?) <- nh, None, None, nhw4, nhw4, True
    {_N}.batch_norm(?) <- nh, nrm32.half(), nrv32.half(), nhw4, nhw4
    torch.batch_norm(?) <- nx, nw4, nb4, None, None, True, 0.1, 1e-5, True
    torch.native_batch_norm(?) <- nx, nw4, nb4, None, None, True, 0.1, 1e-5
    torch.native_batch_norm(nx.double(), None, None, nrm, nrv, False, 0.1, 1e-5)
    torch.batch_norm(?) <- none4, None, None, None, None, True, 0.1, 1e-5, False
    torch.batch_norm(nx, nw4, nb4, None, None, True, momentum=0.1, eps=1e-5, cudnn_enabled=True)
""")
_RUNNING = [
    f"(lambda m, v: [{f}, m, v])({m}.to({x}.dtype), {v}.to({x}.dtype))"
    for x in ("nx", "nimg", "nturn")
    for m, v in (("nrm", "nrv"), ("nrm32", "nrv32"))
    for f in (
        f"{_N}.batch_norm({x}, m, v, nw4, nb4, True)",
        f"{_N}.batch_norm({x}, m, v, nw4, nb4, False)",
        f"{_N}.batch_norm({x}, m, v, training=True, momentum=0.7)",
        f"{_N}.instance_norm({x}, m, v, nw4, nb4, True, 0.3)",
        f"{_N}.instance_norm({x}, m, v, nw4, nb4, use_input_stats=False)",
        f"{_N}.instance_norm({x}, running_mean=m, running_var=v)",
    )
]
_GROUP = calls(f"""
    {_N}.group_norm(?) <- nx, 2, nw4, nb4; nx, 1; nx, 4, nw4; nx, 2, None, nb4; nimg, 2, nw4, nb4
    {_N}.group_norm(?) <- nflat, 3, nw6, nb6, 0.1
    {_N}.group_norm(?) <- nflat, num_groups=2, weight=nw6, bias=nb6, eps=1e-3
    {_N}.group_norm(?) <- nturn, 2, nw4, nb4; nvol, 3, vec, vec
    {_N}.group_norm(?) <- nbig.double(), 2, nw4.double(), nb4.double(); nflat.double(), 6
    {_N}.group_norm(?) <- nempty, 2, nw4, nb4; nvoid, 2, nw4, nb4; ngap, 2; nnan, 1
    {_N}.group_norm(?) <- nh, 2; nh, 2, nfw4, nfw4; nh, 2, nhw4, nhw4; ntall, 8
    torch.native_group_norm(?) <- nx, nw4, nb4, 3, 4, 5, 2, 1e-5
    torch.group_norm(?) <- nx, 2, nw4, nb4, 1e-5, True; nx, 2, eps=1e-2, cudnn_enabled=False
    {_N}.instance_norm(?) <- nx, None, None, nw4, nb4; nx; nimg, weight=nw4; nimg, bias=nb4
    {_N}.instance_norm(?) <- nx, eps=0.1; nturn, None, None, nw4, nb4; nvol; nvoid; ngap
    {_N}.instance_norm(?) <- nh; nh, None, None, nfw4, nfw4; nnan[None]
    torch.instance_norm(?) <- nx, nw4, nb4, None, None, True, 0.1, 1e-5, True
""")
OTHER_SAVED = {
    "NativeBatchNormBackward0": "running statistics are no tensors of the graph: their values at "
                                "the time are kept, whatever is written into them later",
}  # fmt: skip
ONLY_OURS = {r"None, nb\d|bias=": "PyTorch cannot differentiate twice with a bias and no weight"}
GROUPS = {"rows": _LAYER, "batch": _BATCH, "running": _RUNNING, "groups": _GROUP}
ERRORS = calls(f"""
    {_N}.layer_norm(nx, (5.,)); {_N}.rms_norm(nx, (5.,))
    {_N}.layer_norm(?) <- nx, (4,); nx, (3, 5); nx, (); nx, 5; nx, (5,), nw4; nx, (5,), None, nw4
    {_N}.layer_norm(?) <- vec, (2, 3); sc, (1,); vec, (3,), f32; f32, (3,), f64; f32, (3,), f32, f64
    {_N}.layer_norm(?) <- f16, (3,), f64; iv, (3,); kv, (3,); None, (3,); c64, (3,)
    {_N}.rms_norm(?) <- nx, (4,); nx, (3, 5); nx, (); nx, (5,), nw4; iv, (3,); kv, (3,); vec, 3
    {_N}.local_response_norm(?) <- mat, 2; vec, 2; nx, 0; c64.reshape(1, 3, 1), 2
    {_N}.batch_norm(?) <- nw4, nrm, nrv; sc, nrm, nrv; nx, f64, nrv; nx, nrm, f64; nx, None, nrv
    {_N}.batch_norm(?) <- nx, nrm, None; nx, None, None; nx, None, nrv, None, None, True
    {_N}.batch_norm(?) <- nx, nrm, None, None, None, True; nx, nrm, nrv, nw5
    {_N}.batch_norm(?) <- nx, nrm, nrv, None, nw5
    {_N}.batch_norm(?) <- nx, nrm, nrv, nfw4; nx, nrm32, nrv32; nx, nrm32, nrv32, None, None, True
    {_N}.batch_norm(?) <- nh, nrm, nrv; nh, nrm32, nrv32, nw4; none4, nrm, nrv, training=True
    {_N}.batch_norm(?) <- nx, nrm, nrv, training=True, eps=0.0; nx, nrm, nrv, eps=-1.0
    {_N}.batch_norm(?) <- nx, nrm, nrv, training=True, momentum=None; i, f32, f32
    {_N}.batch_norm(?) <- c64[None], f32, f32
    {_N}.batch_norm(?) <- i, None, None, None, None, True; nx, nw4, nrv
    {_N}.batch_norm(?) <- nx, nrm, nw4, None, None, True
    {_N}.group_norm(?) <- vec, 1; nx, 3; nx, 0; nx, -1; nx, 2, nw5; nx, 2, None, nw5
    {_N}.group_norm(?) <- nx, 2, nw4, nw5
    {_N}.group_norm(?) <- none4, 4; nx, 2, nfw4; f32[None], 1, f64; i, 1; c64[None], 1
    torch.group_norm(?) <- vec, 1; nx, 0; nx, -1
    {_N}.instance_norm(?) <- mat, None; vec, None; none4, None; nx, use_input_stats=False
    {_N}.instance_norm(?) <- nx, nrm, None; nx, weight=nw5; nx, f64, f64; nx, weight=nfw4
    {_N}.instance_norm(?) <- nx, nrm, None, use_input_stats=False; c64.reshape(1, 1, 3), None
""")
OTHER_GRAPH = {"native_group_norm": "the statistics are computed by operations of their own"}
