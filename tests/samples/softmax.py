"""Calls of softmax and its kin."""

import numpy as np

from samples._words import calls

INF = float("inf")
SPECIAL = {
    "sm_masked": np.array([[-INF, 1.0, 2.0], [-INF, -INF, -INF], [0.0, -INF, 0.0]]),
    "sm_huge": np.array([[-1000.0, 1000.0, 999.0], [-1e5, -1e5, -1e5 - 1]]),
    "sm_apart": np.array([[-50.0, 50.0, 0.0], [-90.0, -91.0, -95.0], [100.0, 0.0, -100.0]]),
}
SMOOTH = {
    "sm_short": np.random.default_rng(71).normal(size=(3000, 7)) + 0j,
    "sm_deep": np.random.default_rng(72).normal(size=(3, 40, 170)) + 0j,
}
_F = "torch.nn.functional."
_ON = "mat; tran; step; cube; sc; inf; nan; sm_masked; sm_huge; sm_apart; none; gap; edge"
SOFTMAX = calls(f"""
    torch.softmax(?, -1) <- {_ON}; f16; i; k; empty; four
    torch.log_softmax(?, -1) <- {_ON}; f16; i; k; empty; four
    {_F}softmin(?, -1) <- {_ON}
    {_F}softmax(?, 0) <- {_ON}
    {_F}log_softmax(?, 0) <- {_ON}
    {_F}softmax(cube, 1); {_F}log_softmax(cube, dim=-2); {_F}softmax(btran, 1)
    {_F}softmax(?, 1, dtype=torch.float64) <- mat; i; k
    {_F}log_softmax(?, 1, dtype=torch.float32) <- mat; i
    {_F}softmin(mat, 1, dtype=torch.float64); torch.softmax(mat, 1, torch.float64)
    torch.softmax(i, 0, dtype=torch.float32); mat.softmax(1); mat.softmax(dim=0)
    mat.log_softmax(1, torch.float64); mat.softmax(-1, dtype=torch.float32)
    torch.softmax(mat, dim=0)
    torch.special.softmax(?, 0) <- mat; sm_masked; i
    torch.special.log_softmax(?, 0) <- mat; sm_masked; i
    torch.special.softmax(mat, 1, dtype=torch.float64); torch.special.log_softmax(mat, -1)
    {_F}?(mat) <- softmax; log_softmax; softmin
    {_F}?(cube) <- softmax; log_softmax; softmin
    {_F}?(sm_short, 1) <- softmax; log_softmax
    {_F}?(sm_short, 0) <- softmax; log_softmax
    {_F}?(sm_deep, 1) <- softmax; log_softmax
    {_F}log_softmax(1000 * sm_short, 1)
    [torch.manual_seed(3), {_F}gumbel_softmax(mat)][1]
    [torch.manual_seed(3), {_F}gumbel_softmax(mat, 0.5, True)][1]
    [torch.manual_seed(3), {_F}gumbel_softmax(cube, tau=2, hard=True, dim=1)][1]
    [torch.manual_seed(3), {_F}gumbel_softmax(mat, dim=0)][1]
""")
GROUPS = {"softmax": SOFTMAX}
ERRORS = calls(f"""
    torch.softmax(mat, 2); torch.log_softmax(mat, -3); {_F}softmin(mat, 5); torch.softmax(sc, 1)
    torch.softmax(mat); mat.log_softmax(); {_F}gumbel_softmax(mat, dim=4); torch.softmax(i, 0)
    torch.log_softmax(i, 1); torch.softmax(mat, 0, dtype=torch.int64); {_F}gumbel_softmax(i)
""")
COARSE = {r"dtype=torch\.float32": "computed in single precision"}
NOT_COMPLEX = {r"\((none|gap|empty)\b": "refused in other words for lack of elements"}
ROUGH = {r"hard=True|0\.5, True": "a step, with the gradients of the soft sample"}
OTHER_WORDS = {"torch.softmax(mat)", "mat.log_softmax()"}
