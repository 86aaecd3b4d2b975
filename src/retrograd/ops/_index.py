"""What users can call besides the core of ``tensor/_methods.py``, and which module defines it.

Modules listed here are imported when one of their names is first used. A name goes into one or more
namespaces: ``torch`` (``torch.f``), ``method`` (``Tensor.f``), ``both`` (these two), ``in_place``
(``Tensor.f_``, made from ``f``), and the modules ``special``, ``linalg``, ``fft`` and
``nn.functional``. ``f=g`` means that what users call ``f`` is called ``g`` in the module.
"""

from __future__ import annotations

from typing import NamedTuple

INDEX: dict[str, dict[str, str]] = {
    # elementwise
    "pointwise.arithmetic": {
        "both": "addcmul addcdiv lerp logaddexp logaddexp2 hypot sinc frac deg2rad rad2deg "
                "ldexp frexp float_power xlogy",
        "torch": "rsub",
        "special": "sinc xlogy xlog1py",
        "in_place": "addcmul addcdiv lerp hypot sinc frac deg2rad rad2deg ldexp float_power "
                    "xlogy",
    },
    "pointwise.choosing": {
        "both": "fmax fmin clamp_min clamp_max nan_to_num heaviside nextafter copysign angle "
                "conj_physical resolve_conj resolve_neg gcd lcm bitwise_left_shift "
                "bitwise_right_shift signbit isposinf isneginf isreal isclose allclose is_conj "
                "is_neg is_signed is_nonzero is_same_size",
        "torch": "complex polar isin fill",
        "in_place": "clamp_min clamp_max nan_to_num heaviside nextafter copysign "
                    "conj_physical=conj_in_place gcd lcm bitwise_left_shift bitwise_right_shift",
    },
    "pointwise.special": {
        "both": "erf erfc erfinv lgamma digamma mvlgamma igamma igammac i0 logit",
        "torch": "polygamma",
        "method": "polygamma=polygamma_of",
        "in_place": "erf erfc erfinv lgamma digamma mvlgamma igamma igammac i0 logit "
                    "polygamma=polygamma_of",
        "special":
            "erf erfc erfinv erfcx ndtr ndtri log_ndtr gammaln=lgamma digamma psi=digamma "
            "polygamma multigammaln=mvlgamma gammainc=igamma gammaincc=igammac zeta i0 i0e i1 i1e "
            "logit entr round bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0 "
            "modified_bessel_i1 modified_bessel_k0 modified_bessel_k1 scaled_modified_bessel_k0 "
            "scaled_modified_bessel_k1 spherical_bessel_j0 airy_ai chebyshev_polynomial_t "
            "chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w "
            "shifted_chebyshev_polynomial_t shifted_chebyshev_polynomial_u "
            "shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w hermite_polynomial_h "
            "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p",
    },
    "elementwise": {"special": "exp2 expm1 log1p expit=sigmoid"},
    # reductions and scans
    "reductions.statistics": {
        "both": "var std logsumexp nansum nanmean aminmax cov corrcoef",
        "torch": "var_mean std_mean",
        "special": "logsumexp",
    },
    "reductions.order_statistics": {"both": "median nanmedian mode kthvalue quantile nanquantile"},
    "reductions.counting": {"both": "count_nonzero bincount histc histogram"},
    "reductions.differences": {
        "both": "diff",
        "torch": "trapezoid trapz=trapezoid cumulative_trapezoid gradient",
    },
    "reductions.norms": {
        "both": "norm dist renorm", "in_place": "renorm",
        "linalg": "vector_norm matrix_norm norm=linalg_norm",
    },
    "reductions.scans": {
        "both": "cumprod cummax cummin logcumsumexp",
        "in_place": "cumprod cumsum",
    },
    # shape and selection
    "shaping": {
        "method": "view",
        "in_place": "squeeze unsqueeze t transpose swapaxes=transpose swapdims=transpose",
    },
    "shapes.arranging": {
        "both": "unflatten ravel swapdims swapaxes adjoint tile repeat_interleave fliplr flipud "
                "roll rot90",
        "torch": "broadcast_tensors",
        "method": "repeat sum_to_size",
    },
    "shapes.joining": {
        "both": "tensor_split hsplit vsplit dsplit split_with_sizes unsafe_split unsafe_chunk "
                "unsafe_split_with_sizes",
        "torch": "atleast_1d atleast_2d atleast_3d hstack vstack dstack column_stack "
                 "row_stack=vstack block_diag meshgrid cartesian_prod combinations",
    },
    "shapes.diagonals": {
        "both": "diagonal diag diag_embed diagflat diagonal_scatter trace tril triu",
        "torch": "vander",
        "in_place": "tril triu fill_diagonal",
        "linalg": "diagonal=linalg_diagonal vander=linalg_vander",
    },
    "shapes.viewing": {
        "both": "as_strided as_strided_scatter select_scatter slice_scatter narrow_copy",
        "method": "unfold",
    },
    "shapes.placing": {
        "both": "gather scatter scatter_add scatter_reduce take_along_dim",
        "in_place": "scatter scatter_add scatter_reduce",
    },
    "shapes.indexed": {
        "both": "index_select index_add index_copy index_fill index_put masked_select "
                "masked_scatter take put",
        "in_place": "index_add index_copy index_fill index_put masked_scatter put",
    },
    "shapes.combining": {"both": "index_reduce", "in_place": "index_reduce"},
    "shapes.sorting": {
        "both": "sort argsort msort topk unique unique_consecutive nonzero argwhere",
        "torch": "searchsorted bucketize unravel_index",
        "nn.functional": "one_hot",
    },
    # products and linear algebra
    "algebra.matrices": {
        "both": "vdot inner kron addmm addmv addr addbmm baddbmm",
        "torch": "tensordot",
        "in_place": "addmm addmv addr addbmm baddbmm",
    },
    "products": {"both": "ger=outer"},
    "algebra.einsum": {"torch": "einsum"},
    "networks.layers": {"nn.functional": "linear bilinear", "torch": "bilinear"},
    "algebra.all_pairs": {
        "both": "cross=cross_of_torch",
        "torch": "cdist",
        "linalg": "cross",
    },
    "algebra.linalg": {
        "both": "det=det_of_torch slogdet=slogdet_of_torch logdet matrix_exp "
                "matrix_power=matrix_power_of_torch",
        "torch": "chain_matmul",
        "linalg": "det slogdet matrix_power matrix_exp multi_dot vecdot matmul",
    },
    "algebra.triangular": {
        "both": "triangular_solve cholesky=cholesky_of_torch cholesky_solve cholesky_inverse",
        "linalg": "solve_triangular cholesky cholesky_ex",
    },
    "algebra.lu": {
        "both": "lu=lu_of_torch lu_solve=lu_solve_of_torch",
        "torch": "lu_unpack",
        "linalg": "lu lu_factor lu_factor_ex lu_solve",
    },
    "algebra.solving": {
        "both": "inverse",
        "linalg": "solve solve_ex inv inv_ex tensorinv tensorsolve",
    },
    "algebra.least_squares": {"linalg": "lstsq"},
    "algebra.ranks": {"both": "pinverse", "linalg": "pinv matrix_rank cond"},
    "algebra.householder": {"both": "orgqr geqrf", "linalg": "householder_product"},
    "algebra.decompositions": {
        "both": "svd=svd_of_torch qr=qr_of_torch",
        "linalg": "svd svdvals eigh eigvalsh eig eigvals qr",
    },
    # Fourier
    "signals.fourier": {
        "fft": "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn "
               "rfftn irfftn hfftn ihfftn fftshift ifftshift",
    },
    "signals.spectrograms": {"both": "stft istft"},
    # random
    "sampling": {
        "both": "bernoulli multinomial",
        "torch": "binomial poisson",
        "in_place": "bernoulli=bernoulli_in_place cauchy exponential geometric log_normal "
                    "normal=normal_in_place random uniform",
    },
    # neural networks
    "networks.activations": {
        "torch": "threshold threshold_", "both": "hardshrink",
        "nn.functional": "threshold threshold_ relu relu_ hardtanh hardtanh_ relu6 hardswish "
                         "hardsigmoid softshrink hardshrink tanhshrink softsign glu tanh sigmoid",
    },
    "networks.rectifiers": {
        "torch": "rrelu rrelu_ selu selu_ celu celu_", "both": "prelu",
        "nn.functional": "leaky_relu leaky_relu_ prelu rrelu rrelu_ elu elu_ selu selu_ celu celu_",
    },
    "networks.curves": {"nn.functional": "gelu silu mish softplus logsigmoid"},
    "networks.softmax": {
        "both": "softmax log_softmax",
        "special": "softmax=special_softmax log_softmax=special_log_softmax",
        "nn.functional": "softmax=functional_softmax log_softmax=functional_log_softmax softmin "
                         "gumbel_softmax",
    },
    "networks.losses": {
        "nn.functional": "mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss "
                         "gaussian_nll_loss hinge_embedding_loss",
    },
    "networks.classification": {
        "nn.functional": "nll_loss cross_entropy binary_cross_entropy "
                         "binary_cross_entropy_with_logits",
    },
    "networks.labels": {
        "nn.functional": "multi_margin_loss multilabel_margin_loss soft_margin_loss "
                         "multilabel_soft_margin_loss",
    },
    "networks.distances": {
        "torch": "pairwise_distance cosine_similarity pdist",
        "nn.functional": "pairwise_distance cosine_similarity pdist normalize margin_ranking_loss "
                         "cosine_embedding_loss triplet_margin_loss "
                         "triplet_margin_with_distance_loss",
    },
    "networks.ctc": {"nn.functional": "ctc_loss"},
    "networks.numbered": {
        "torch": "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss "
                 "hinge_embedding_loss kl_div margin_ranking_loss poisson_nll_loss "
                 "triplet_margin_loss",
    },
    "networks.convolution": {
        "torch": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d "
                 "convolution=convolve",
        "nn.functional": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    },
    "networks.pooling": {
        "torch": "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices avg_pool1d "
                 "adaptive_avg_pool1d adaptive_max_pool1d=adaptive_max_pool1d_pair",
        "nn.functional": "max_pool1d max_pool2d max_pool3d max_pool1d_with_indices "
                         "max_pool2d_with_indices max_pool3d_with_indices avg_pool1d avg_pool2d "
                         "avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d "
                         "adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d "
                         "adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices "
                         "adaptive_max_pool3d_with_indices lp_pool1d lp_pool2d lp_pool3d",
    },
    "networks.unpooling": {
        "nn.functional": "max_unpool1d max_unpool2d max_unpool3d fold unfold",
    },
    "networks.padding": {
        "torch": "constant_pad_nd=constant_pad",
        "nn.functional": "pad",
    },
    "networks.resampling": {
        "torch": "pixel_shuffle pixel_unshuffle channel_shuffle",
        "nn.functional": "interpolate upsample upsample_nearest upsample_bilinear pixel_shuffle "
                         "pixel_unshuffle channel_shuffle",
    },
    "networks.grids": {
        "torch": "grid_sampler affine_grid_generator",
        "nn.functional": "grid_sample affine_grid",
    },
    "networks.embedding": {
        "torch": "embedding=look_up", "nn.functional": "embedding embedding_bag",
    },
    "networks.normalization": {
        "torch": "layer_norm=torch_layer_norm rms_norm",
        "nn.functional": "layer_norm rms_norm local_response_norm",
    },
    "networks.channel_norms": {
        "torch": "batch_norm=torch_batch_norm group_norm=torch_group_norm "
                 "instance_norm=torch_instance_norm",
        "nn.functional": "batch_norm group_norm instance_norm",
    },
    "networks.dropout": {
        "torch": "dropout=torch_dropout dropout_=torch_dropout_ feature_dropout feature_dropout_ "
                 "alpha_dropout=torch_alpha_dropout alpha_dropout_=torch_alpha_dropout_ "
                 "feature_alpha_dropout=torch_feature_alpha_dropout "
                 "feature_alpha_dropout_=torch_feature_alpha_dropout_",
        "nn.functional": "dropout dropout1d dropout2d dropout3d alpha_dropout "
                         "feature_alpha_dropout",
    },
    "networks.attention": {
        "nn.functional": "scaled_dot_product_attention",
    },
    "networks.multihead": {
        "nn.functional": "multi_head_attention_forward",
    },
    "networks.recurrent": {
        "torch": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    },
}  # fmt: skip


class Place(NamedTuple):
    """Where a public name is defined: a module of ``ops`` and what it is called there."""

    module: str
    attribute: str


def names_of(*namespaces: str) -> dict[str, Place]:
    """The public names of some namespaces, and where they are defined."""
    found = {}
    for module, spaces in INDEX.items():
        for space in namespaces:
            for word in spaces.get(space, "").split():
                name, _, attribute = word.partition("=")
                found[name] = Place(module, attribute or name)
    return found
