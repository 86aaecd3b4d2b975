"""Calls of losses, and of the distances that some are made of."""

import numpy as np

from samples._pool import draw
from samples._words import calls, every

INF = float("inf")
SMOOTH = {
    "ls_x": draw((3, 4), -2, 2, 801), "ls_y": draw((3, 4), -2, 2, 802),
    "ls_p": draw((3, 4), 0.1, 0.9, 803), "ls_q": draw((3, 4), 0.1, 0.9, 804),
    "ls_w": draw((4,), 0.3, 2, 805), "ls_v": draw((3,), -2, 2, 806), "ls_u": draw((3,), -2, 2, 807),
    "ls_deep": draw((2, 3, 4), -2, 2, 808), "ls_image": draw((2, 3, 2, 2), -2, 2, 809),
    "ls_five": draw((2, 3, 1, 2, 2), -2, 2, 810), "ls_w3": draw((3,), 0.3, 2, 811),
    "ls_frames": draw((6, 3, 5), -2, 2, 812), "ls_var": draw((3, 1), 0.3, 2, 813),
    "ls_count": draw((3, 4), 0.2, 4, 814), "ls_row": draw((4,), -2, 2, 815),
}  # fmt: skip
SPECIAL = {
    "ls_tied": np.array([[1.0, 1.0, 0.0], [0.0, -2.0, 2.0]]),
    "ls_tied2": np.array([[1.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
    "ls_big": np.array([[1000.0, -1000.0, 0.0], [80.0, -80.0, 1e-3]]),
    "ls_half": np.array([[0.5, 0.25, 0.75], [0.125, 0.5, 1.0]]),
    "ls_ends": np.array([0.0, 1.0, 0.5]),
    "ls_holes": np.array([[-INF, INF, 0, 1], [1, 2, 3, -1], [np.nan, INF, 1, -INF]]),
}
FIXED = {
    "ls_t": np.array([1, 3, 0]), "ls_ti": np.array([1, -100, 0]), "ls_tall": np.array([-100] * 3),
    "ls_th": np.array([-100, 2, -100]),
    "ls_ti3": np.array([[1, -1, 0, 2], [2, 0, -1, 1], [-1] * 4]),
    "ls_td": np.array([[0, 2, 1, 1], [2, 2, 0, 1]]), "ls_tc": np.array(2),
    "ls_tm": np.array([[[0, 2], [1, 1]], [[2, 2], [0, 1]]]),
    "ls_tf": np.array([[[[0, 2], [1, 1]]], [[[2, 2], [0, 1]]]]),
    "ls_s": np.array([1, -1, 1]),
    "ls_sm": np.array([[1, -1, 1, -1], [-1, -1, 1, 1], [1, 1, 1, -1]]),
    "ls_ml": np.array([[1, 0, -1, 2], [3, -1, 0, 0], [-1, 0, 1, 2]]),
    "ls_ct": np.array([[1, 2, 2], [4, 1, 3], [3, 3, 3]]),
    "ls_cb": np.array([[1, 1, 0], [4, 0, 3], [3, 3, 3]]),
    "ls_cf": np.array([1, 2, 4, 1, 3, 3]),
    "ls_ci": np.array([6, 5, 4]),
    "ls_cl": np.array([2, 3, 1]), "ls_tbad": np.array([1, 4, 0]),
}  # fmt: skip
_F = "torch.nn.functional."
W3, W4 = "torch.tensor([0.5, 1.5, 0.25])", "torch.tensor([0.5, 1.5, 0.25, 2.0])"
_REDUCTIONS = "reduction='none'; reduction='sum'; reduction='mean'"


def _each(call: str, options: str = _REDUCTIONS) -> list[str]:
    """``call`` with each of some options added."""
    return [f"{_F}{call[:-1]}, {option.strip()})" for option in options.split(";")]


_LEGACY = "size_average=False; reduce=False; size_average=True; size_average=False, reduce=True"
REGRESSION = [
    *[e for n in ("mse", "l1", "smooth_l1", "huber") for e in _each(f"{n}_loss(ls_x, ls_y)")],
    *[e for n in ("mse", "l1", "smooth_l1") for e in _each(f"{n}_loss(ls_x, ls_y)", _LEGACY)],
    *[e for n in ("mse", "l1", "huber")
      for e in _each(f"{n}_loss(ls_x, ls_y, weight=ls_count)")],
    *calls(f"""
        {_F}?_loss(mat, vec) <- mse; l1; smooth_l1; huber
        {_F}?_loss(sc, sc2) <- mse; l1; smooth_l1; huber
        {_F}?_loss(tran, step) <- mse; l1; smooth_l1; huber
        {_F}?_loss(none, none) <- mse; l1; smooth_l1; huber
        {_F}?_loss(ls_tied, ls_tied2) <- mse; l1; smooth_l1; huber
        {_F}?_loss(ls_big, mat) <- mse; l1; smooth_l1; huber
        {_F}?_loss(inf, nan) <- mse; l1; smooth_l1; huber
        {_F}?_loss(vec, f64) <- mse; l1; smooth_l1
        {_F}?_loss(f16, f16) <- mse; l1; smooth_l1; huber
        {_F}?_loss(mat, mat) <- mse; l1; smooth_l1; huber
        {_F}smooth_l1_loss(ls_x, ls_y, beta=?) <- 0.5; 0; 3
        {_F}huber_loss(ls_x, ls_y, delta=?) <- 0.5; 3
        {_F}huber_loss(ls_x, ls_y, 'sum', 0.25)
    """),
]  # fmt: skip
LIKELIHOODS = [
    *_each("kl_div(ls_x, ls_p)", f"{_REDUCTIONS}; reduction='batchmean'; {_LEGACY}"),
    *_each("kl_div(ls_x, ls_y, log_target=True)", f"{_REDUCTIONS}; reduction='batchmean'"),
    *_each("poisson_nll_loss(ls_x, ls_count)", f"{_REDUCTIONS}; full=True; {_LEGACY}"),
    *_each("poisson_nll_loss(ls_p, ls_count, log_input=False)", "eps=0.1; full=True"),
    *_each("gaussian_nll_loss(ls_x, ls_y, ls_p)", f"{_REDUCTIONS}; full=True; eps=0.5"),
    *calls(f"""
        {_F}kl_div(ls_x, ls_p); {_F}kl_div(sc, spos); {_F}kl_div(sc, spos, reduction='batchmean')
        {_F}kl_div(mat, twoz); {_F}kl_div(ls_x, ls_row, log_target=True); {_F}kl_div(none, none)
        {_F}poisson_nll_loss(ls_x, ls_count); {_F}poisson_nll_loss(ls_x, ls_count, False, True)
        {_F}gaussian_nll_loss(ls_x, ls_y, ls_p); {_F}gaussian_nll_loss(ls_x, ls_y, ls_var)
        {_F}gaussian_nll_loss(ls_x, ls_y, ls_w3); {_F}gaussian_nll_loss(ls_x, ls_y, 0.5)
        {_F}gaussian_nll_loss(mat, mat2, onez)
    """),
]  # fmt: skip
CLASSES = [
    *_each("nll_loss(ls_x, ls_t)"), *_each(f"nll_loss(ls_x, ls_t, {W4}.to(ls_x.dtype))"),
    *_each("nll_loss(ls_x, ls_ti)"), *_each(f"nll_loss(ls_x, ls_ti, {W4}.to(ls_x.dtype))"),
    *_each("nll_loss(ls_deep, ls_td)"),
    *_each(f"nll_loss(ls_image, ls_tm, {W3}.to(ls_image.dtype))"),
    *_each("nll_loss(ls_five, ls_tf, ignore_index=2)"), *_each("nll_loss(ls_x, ls_t)", _LEGACY),
    *_each("nll_loss(ls_row, ls_tc)"),
    *_each("nll_loss(ls_x, ls_tall)", "reduction='none'; reduction='sum'"),
    *_each("nll_loss(ls_holes, ls_th)"), *_each("nll_loss(ls_holes, ls_t, ignore_index=0)"),
    *_each(f"nll_loss(ls_holes, ls_th, {W4}.to(ls_holes.dtype))"),
    *_each("nll_loss(ls_holes[:, :, None, None], ls_th[:, None, None])"),
    *_each("cross_entropy(ls_holes, ls_th)"),
    *_each(f"cross_entropy(ls_holes, ls_th, {W4}.to(ls_holes.dtype), label_smoothing=0.1)"),
    *_each("cross_entropy(ls_x, ls_t)"), *_each("cross_entropy(ls_x, ls_t)", _LEGACY),
    *_each(f"cross_entropy(ls_x, ls_ti, {W4}.to(ls_x.dtype), label_smoothing=0.1)"),
    *_each("cross_entropy(ls_x, ls_ti, label_smoothing=0.25)"),
    *_each("cross_entropy(ls_image, ls_tm, ignore_index=1, label_smoothing=0.1)"),
    *_each(f"cross_entropy(ls_deep, ls_td, {W3}.to(ls_deep.dtype))"),
    *_each("cross_entropy(ls_x, ls_p)"), *_each(f"cross_entropy(ls_x, ls_p, {W4}.to(ls_x.dtype))"),
    *_each(f"cross_entropy(ls_x, ls_p, {W4}.to(ls_x.dtype), label_smoothing=0.1)"),
    *_each("cross_entropy(ls_image, ls_image.softmax(1))"),
    *_each("cross_entropy(ls_row, ls_tc)"), *_each("cross_entropy(ls_row, ls_w)"),
    *calls(f"""
        {_F}nll_loss(ls_x, ls_t); {_F}nll_loss(ls_x.detach(), ls_tall)
        {_F}nll_loss(ls_x.T.contiguous().T, ls_t)
        {_F}nll_loss(none, ls_t[:0], reduction='sum')
        {_F}nll_loss(ls_x, ls_t, ignore_index=3); {_F}cross_entropy(ls_x, ls_t)
        {_F}cross_entropy(?, at[1:3]) <- ls_big; tran; inf; nan; tied
        {_F}cross_entropy(ls_five, ls_tf); {_F}cross_entropy(none, ls_t[:0], reduction='sum')
        {_F}cross_entropy(ls_image, ls_tm, {W3}.to(ls_image.dtype), label_smoothing=0.1)
        {_F}cross_entropy(ls_x, ls_t, label_smoothing=1.0)
        {_F}linear_cross_entropy(mat, sq, ?) <- at[1:3]; at[1:3], reduction='none'; mat.softmax(1)
        {_F}linear_cross_entropy(mat, sq, ?) <- at[1:3], linear_bias=vec, label_smoothing=0.1
        {_F}linear_cross_entropy(mat, sq, ?) <- at[1:3], ignore_index=1, reduction='sum'
        {_F}linear_cross_entropy(vec, sq, at[1]); {_F}linear_cross_entropy(vec2, mat3, at[2])
        {_F}linear_cross_entropy(mat, cube2, ?) <- at[1:3, None].expand(2, 2) % 2
    """),
]  # fmt: skip
BINARY = [
    *_each("binary_cross_entropy(ls_p, ls_q)"), *_each("binary_cross_entropy(ls_p, ls_q)", _LEGACY),
    *_each(f"binary_cross_entropy(ls_p, ls_q, {W4}.to(ls_p.dtype))"),
    *_each("binary_cross_entropy_with_logits(ls_x, ls_q)"),
    *_each("binary_cross_entropy_with_logits(ls_x, ls_q)", _LEGACY),
    *_each(f"binary_cross_entropy_with_logits(ls_x, ls_q, {W4}.to(ls_x.dtype))"),
    *_each(f"binary_cross_entropy_with_logits(ls_x, ls_q, pos_weight={W4}.to(ls_x.dtype))"),
    *_each(f"binary_cross_entropy_with_logits(ls_x, ls_q, ls_p.detach(), "
           f"pos_weight={W4}.to(ls_x.dtype))"),
    *calls(f"""
        {_F}binary_cross_entropy(ls_p, ls_q); {_F}binary_cross_entropy(ls_p, ls_q.detach())
        {_F}binary_cross_entropy(none, none); {_F}binary_cross_entropy(sc * 0 + 0.5, sc.detach())
        {_F}binary_cross_entropy(ls_ends.detach(), ls_ends.detach(), reduction='none')
        {_F}binary_cross_entropy(ls_ends.detach(), 1 - ls_ends.detach(), reduction='none')
        {_F}binary_cross_entropy_with_logits(ls_big, ls_half)
        {_F}binary_cross_entropy_with_logits(sc, sc2)
        {_F}binary_cross_entropy_with_logits(ls_x, ls_q)
        {_F}binary_cross_entropy_with_logits(none, none)
    """),
]  # fmt: skip
MARGINS = [
    *_each("hinge_embedding_loss(ls_x, ls_sm)", f"{_REDUCTIONS}; margin=0.25; {_LEGACY}"),
    *_each("margin_ranking_loss(ls_v, ls_u, ls_s)", f"{_REDUCTIONS}; margin=0.25; {_LEGACY}"),
    *_each("multi_margin_loss(ls_x, ls_t)", f"{_REDUCTIONS}; margin=0.25; p=2; {_LEGACY}"),
    *_each(f"multi_margin_loss(ls_x, ls_t, weight={W4}.to(ls_x.dtype))",
           "p=1; p=2, reduction='none'"),
    *_each("multilabel_margin_loss(ls_x, ls_ml)", f"{_REDUCTIONS}; {_LEGACY}"),
    *_each("soft_margin_loss(ls_x, ls_sm)", f"{_REDUCTIONS}; {_LEGACY}"),
    *_each("multilabel_soft_margin_loss(ls_x, ls_q)", f"{_REDUCTIONS}; {_LEGACY}"),
    *calls(f"""
        {_F}hinge_embedding_loss(ls_x, ls_sm); {_F}margin_ranking_loss(ls_v, ls_u, ls_s)
        {_F}multi_margin_loss(ls_row, ls_t[:1], reduction='none')
        {_F}multi_margin_loss(ls_row, ls_tc); {_F}multilabel_margin_loss(ls_row, ls_ml[0])
        {_F}soft_margin_loss(sc, isc); {_F}multilabel_soft_margin_loss(ls_x, ls_q, ls_w)
        {_F}multilabel_soft_margin_loss(ls_row, ls_w); {_F}multi_margin_loss(ls_x, ls_t)
        {_F}multilabel_margin_loss(ls_x, ls_ml); {_F}soft_margin_loss(ls_x, ls_sm)
        {_F}multi_margin_loss(ls_holes, ls_t, reduction='none', p=?) <- 1; 2
        {_F}multilabel_margin_loss(ls_holes, ls_ti3, reduction='none')
        {_F}multi_margin_loss(tied, at[1:3]); {_F}multilabel_margin_loss(tied, rows.expand(2, 3))
    """),
]  # fmt: skip
DISTANCES = [
    *_each("cosine_embedding_loss(ls_x, ls_y, ls_s)", f"{_REDUCTIONS}; margin=0.25; {_LEGACY}"),
    *_each("triplet_margin_loss(ls_x, ls_y, ls_p)",
           f"{_REDUCTIONS}; margin=0.25; {_LEGACY}; p=1; p=3; swap=True; eps=0.1"),
    *_each("triplet_margin_with_distance_loss(ls_x, ls_y, ls_p)",
           f"{_REDUCTIONS}; margin=0.25; swap=True; "
           "distance_function=lambda x, y: (x - y).abs().sum(1)"),
    *calls(f"""
        {_F}cosine_embedding_loss(ls_v, ls_u, isc // 3); {_F}triplet_margin_loss(ls_x, ls_y, ls_p)
        {_F}triplet_margin_with_distance_loss(ls_x, ls_y, ls_p)
        {_F}cosine_similarity(ls_x, ls_y); {_F}cosine_similarity(ls_x, ls_row, dim=-1)
        {_F}cosine_similarity(ls_v, ls_u, 0); torch.cosine_similarity(ls_x, ls_y, dim=0, eps=0.1)
        {_F}cosine_similarity(ls_x, ls_y, eps=50); {_F}cosine_similarity(sc, sc2, 0)
        {_F}pairwise_distance(ls_x, ls_y); torch.pairwise_distance(ls_x, ls_y, 1)
        {_F}pairwise_distance(ls_x, ls_y, p=?) <- 3; INF; 0.5; 0; 1.5
        {_F}pairwise_distance(ls_x, ls_row, keepdim=True)
        {_F}pairwise_distance(ls_v, ls_u, eps=0.5)
        {_F}pdist(ls_x); torch.pdist(ls_x); {_F}pdist(ls_x[:1]); {_F}pdist(tied)
        {_F}pdist(ls_x, ?) <- 0; 1; 1.5; 2; 3; INF
        {_F}pdist(?, 0) <- inf; nan; ls_holes; tied
        {_F}normalize(?) <- ls_x; mat; cube; twoz; tran; onez
        {_F}normalize(ls_x, p=?) <- 1; 3; INF; 0.5
        {_F}normalize(ls_x, dim=0); {_F}normalize(ls_x, eps=50); {_F}normalize(ls_v, dim=-1)
        {_F}normalize(ls_deep, dim=(1, 2))
    """),
]  # fmt: skip
CTC = [
    *_each("ctc_loss(ls_frames.log_softmax(2), ls_ct, ls_ci, ls_cl)"),
    *_each("ctc_loss(ls_frames.log_softmax(2), ls_cb, ls_ci, ls_cl)",
           "blank=2, zero_infinity=True; blank=2, reduction='none'"),
    *calls(f"""
        {_F}ctc_loss(ls_frames.log_softmax(2), ls_ct, ls_ci, ls_cl)
        {_F}ctc_loss(ls_frames.log_softmax(2), ls_cf, ls_ci, ls_cl, reduction='sum')
        {_F}ctc_loss(ls_frames.log_softmax(2), ls_cf, (6, 6, 6), (2, 3, 1), reduction='none')
        {_F}ctc_loss(ls_frames.log_softmax(2), ls_ct, (6, 6, 6), (3, 3, 3), reduction='none')
        {_F}ctc_loss(ls_frames.log_softmax(2), ls_ct, (6, 5, 4), (0, 3, 1), reduction='none')
        {_F}ctc_loss(ls_frames.log_softmax(2), ls_ct, (6, 2, 4), (2, 3, 2), zero_infinity=True)
        {_F}ctc_loss(ls_frames[:, 0].log_softmax(1), ls_ct[0], (6,), (3,))
        {_F}ctc_loss(ls_frames[:, 0].log_softmax(1), ls_ct[0], ls_ci[0], ls_cl[1], reduction='none')
        {_F}ctc_loss(ls_frames, ls_ct, ls_ci, ls_cl, reduction='none')
    """),
]  # fmt: skip
NUMBERED = [
    *every("torch.{call}, reduction={n})", n="0; 1; 2", call="""
        binary_cross_entropy_with_logits(ls_x, ls_q; cosine_embedding_loss(ls_x, ls_y, ls_s;
        hinge_embedding_loss(ls_x, ls_sm; kl_div(ls_x, ls_q; margin_ranking_loss(ls_v, ls_u, ls_s;
        triplet_margin_loss(ls_x, ls_y, ls_p; poisson_nll_loss(ls_x, ls_count, True, False, 1e-8
    """),
    *calls("""
        torch.binary_cross_entropy_with_logits(ls_x, ls_q, ls_w, ls_w)
        torch.cosine_embedding_loss(ls_x, ls_y, ls_s, 0.3, 2)
        torch.hinge_embedding_loss(ls_x, ls_sm)
        torch.kl_div(ls_x, ls_y, 2, log_target=True)
        torch.margin_ranking_loss(ls_v, ls_u, ls_s, 0.2)
        torch.triplet_margin_loss(ls_x, ls_y, ls_p, 0.5, 1.0, 1e-6, True, 0)
        torch.poisson_nll_loss(ls_p, ls_count, False, True, 1e-8, 1)
        torch.ctc_loss(ls_frames.log_softmax(2), ls_ct, ls_ci, ls_cl)
        torch.ctc_loss(ls_frames.log_softmax(2), ls_ct, ls_ci, ls_cl, 0, 0)
    """),
]  # fmt: skip
GROUPS = {
    "regression": REGRESSION, "likelihoods": LIKELIHOODS, "classes": CLASSES, "binary": BINARY,
    "margins": MARGINS, "distances": DISTANCES, "ctc": CTC, "numbered": NUMBERED,
}  # fmt: skip
ERRORS = calls(f"""
    {_F}nll_loss(vec, iv); {_F}nll_loss(vec, iempty); {_F}cross_entropy(vec, iv)
    {_F}nll_loss(mat, isc); {_F}nll_loss(vec, vec.detach())
    {_F}ctc_loss(ls_frames, ls_ct, ls_ci.float(), ls_cl)
    {_F}ctc_loss(ls_frames, ls_ct, ls_ci, ls_cl.double())
    {_F}ctc_loss(ls_frames, ls_ct, ls_ci > 0, ls_cl)
    {_F}multi_margin_loss(ls_x, ls_v.detach()); {_F}multi_margin_loss(ls_x, i32)
    {_F}multi_margin_loss(ls_x, ?) <- ls_tbad; ls_ti; ls_t[:2]; ls_tc; ls_t[:, None]
    {_F}multi_margin_loss(?, ls_t) <- ls_deep; ls_x[:, :0]; ls_row
    {_F}multi_margin_loss(ls_x, ls_t, weight=ls_w3.detach())
    {_F}multilabel_margin_loss(ls_x, ?) <- ls_ml - 1; ls_ml + 2; ls_ml[:2]; ls_ml[:, :3]
    {_F}multilabel_margin_loss(?, ls_ml) <- ls_deep; ls_x[:, :0]; ls_row
    {_F}?_loss(mat, mat3) <- mse; l1; smooth_l1; huber
    {_F}?_loss(mat, mat2, reduction='max') <- mse; l1; smooth_l1; huber
    {_F}?_loss(mat, mat2, weight=vec) <- mse; l1; huber
    {_F}smooth_l1_loss(mat, mat2, beta=-1); {_F}huber_loss(mat, mat2, delta=0); {_F}mse_loss(i, i)
    {_F}kl_div(mat, mat2, reduction='max'); {_F}poisson_nll_loss(mat, mat2, reduction='max')
    {_F}gaussian_nll_loss(mat, mat2, mat); {_F}gaussian_nll_loss(mat, mat2, -1.0)
    {_F}gaussian_nll_loss(mat, mat2, vpos); {_F}gaussian_nll_loss(mat, mat2, pos, reduction='max')
    {_F}nll_loss(ls_x, ls_tbad); {_F}nll_loss(ls_x, ls_t, ls_w); {_F}nll_loss(ls_x, at)
    {_F}nll_loss(ls_x, ls_t.double()); {_F}nll_loss(ls_x, ls_td); {_F}nll_loss(ls_image, ls_td)
    {_F}nll_loss(ls_x, ls_t, reduction='max'); {_F}nll_loss(sc, ls_tc)
    {_F}nll_loss(ls_x, ls_t, vpos.detach())
    {_F}cross_entropy(ls_x, ls_tbad); {_F}cross_entropy(ls_x, ls_t, label_smoothing=2.0)
    {_F}cross_entropy(ls_x, ls_p, ignore_index=1); {_F}cross_entropy(i, i)
    {_F}binary_cross_entropy(ls_x, ls_q); {_F}binary_cross_entropy(ls_p, ls_row)
    {_F}binary_cross_entropy(ls_p, ls_q.detach() + 1)
    {_F}binary_cross_entropy(ls_p, ls_q.detach() - 1)
    {_F}binary_cross_entropy(ls_p, ls_q.detach() * torch.nan)
    {_F}binary_cross_entropy(ls_p * torch.nan, ls_q); {_F}binary_cross_entropy(ls_p + 1, ls_q + 1)
    {_F}binary_cross_entropy(ls_p, ls_q.float()); {_F}binary_cross_entropy(ls_p, ls_q.long())
    {_F}binary_cross_entropy(ls_p.long(), ls_q); {_F}binary_cross_entropy(ls_p.long(), ls_q.long())
    {_F}binary_cross_entropy(ls_p, ls_q, ls_p.to(torch.complex128))
    {_F}binary_cross_entropy(ls_p, ls_q, ls_w); {_F}binary_cross_entropy_with_logits(ls_x, ls_row)
    {_F}binary_cross_entropy_with_logits(ls_x, ls_q, ls_w)
    {_F}binary_cross_entropy_with_logits(ls_x, ls_q, pos_weight=ls_w)
    {_F}margin_ranking_loss(ls_x, ls_y, ls_s); {_F}multi_margin_loss(ls_x, ls_t, p=3)
    {_F}multi_margin_loss(ls_x, ls_t, weight=ls_x); {_F}cosine_embedding_loss(ls_x, ls_y, ls_sm)
    {_F}cosine_embedding_loss(ls_v, ls_u, ls_s); {_F}triplet_margin_loss(ls_x, ls_y, ls_p, margin=0)
    {_F}triplet_margin_with_distance_loss(ls_x, ls_y, ls_v); {_F}pdist(vec); {_F}pdist(mat, -1)
    {_F}pdist(i); {_F}cosine_similarity(i, i); {_F}cosine_similarity(ls_x, ls_v)
    {_F}ctc_loss(ls_frames, ls_ct, ls_ci, ls_cl, blank=7)
    {_F}ctc_loss(ls_frames, ls_ct, ls_ci[:2], ls_cl)
    {_F}ctc_loss(ls_frames, ls_ct, ls_ci, ls_cl, reduction='max')
    {_F}ctc_loss(ls_frames, ls_cf[:3], ls_ci, ls_cl)
    {_F}ctc_loss(ls_frames, ls_ct, (9, 9, 9), (2, 3, 1))
""")
NOT_COMPLEX = {
    r"l1_loss\(inf": "complex infinities are not defined alike",
    r"cross_entropy\(none": "refused in other words for lack of elements",
}
COARSE = {r"binary_cross_entropy\(": "PyTorch adds 1e-12 here and there, lest it divide by zero"}
ROUGH = {
    r"detach\(\)": "differences would move what no gradient goes to",
    r"eps=(0\.5|50)\)$": "sizes below eps count as eps, but their gradient is let through",
    r"ctc_loss\(ls_frames, ": "the gradient is the one to hand to log_softmax",
}
_CHOSEN = "places of classes, and weights that PyTorch gives no gradient for"
NO_RULE = {
    (name, argument): _CHOSEN
    for name, arguments in {
        "nll_loss": "target weight", "nll_loss_2d": "target weight",
        "binary_cross_entropy": "weight", "binary_cross_entropy_with_logits": "weight pos_weight",
        "multi_margin_loss": "target weight", "multilabel_margin_loss": "target",
        "nll_loss_backward": "target weight total_weight", "soft_margin_loss": "target",
        "ctc_loss": "targets",
    }.items()
    for argument in arguments.split()
}  # fmt: skip
_NOT_TWICE = "PyTorch does not differentiate it twice"
NOT_TWICE = {r"(multi|multilabel)_margin_loss\((?!.*detach)": _NOT_TWICE}
NO_TANGENT = {
    r"cross_entropy\(ls_holes": "the gradient of log_softmax is NaN in rows with NaN, though they "
                                "are ignored, as in PyTorch; tangents of such rows do not count",
    r"\bnone, none\)": "the mean of nothing is NaN, and moves by NaN; the gradient has no elements "
                        "to show it",
}  # fmt: skip
NO_SLOPE = {
    "pdist_backward": _NOT_TWICE, "ctc_backward": _NOT_TWICE,
    "ctc_loss": "the gradient is the one to hand to log_softmax",
}  # fmt: skip
OTHER_TRANSFORM = {
    r"gaussian_nll_loss\((ls_x, ls_y, ls_p, eps=0\.5|mat, mat2, onez)\)$|similarity\(.*eps=50\)$":
        "sizes below eps count as eps, but their gradient is let through, and so is our tangent; "
        "PyTorch's is not, and says something else than its gradient",
}  # fmt: skip
OTHER_COMPLEX = {
    r"functional\.soft_margin_loss\(":
        "PyTorch refuses a gradient, and its tangent is not the limit of differences, as ours is: "
        "it conjugates the slope",
}  # fmt: skip
