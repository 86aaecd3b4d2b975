"""Which module declares a public name. Written by ``python tests/generate_index.py``."""

from __future__ import annotations

from functools import cache

# For each module, the names that it declares, by the namespaces that they are in.
INDEX: dict[str, dict[str, str]] = {
    "ops.algebra.addmm": {
        "torch method": "addmm addmv addmv_ addr baddbmm addbmm",
        "method": "addmm_ addr_ baddbmm_ addbmm_",
    },
    "ops.algebra.all_pairs": {"torch": "cdist", "torch method linalg": "cross"},
    "ops.algebra.determinants": {
        "torch method linalg": "det slogdet",
        "torch method": "logdet",
    },
    "ops.algebra.eigenvalues": {"linalg": "eigh eigvalsh eig eigvals"},
    "ops.algebra.einsum": {"torch": "einsum"},
    "ops.algebra.householder": {
        "torch method": "orgqr ormqr geqrf",
        "linalg": "householder_product",
    },
    "ops.algebra.ldl": {"linalg": "ldl_factor_ex ldl_factor ldl_solve"},
    "ops.algebra.least_squares": {"linalg": "lstsq"},
    "ops.algebra.linalg": {
        "torch method linalg": "matrix_power matrix_exp",
        "linalg": "multi_dot vecdot matmul",
        "torch": "chain_matmul",
    },
    "ops.algebra.lu": {
        "linalg": "lu_factor_ex lu_factor",
        "torch method linalg": "lu lu_solve",
        "torch": "lu_unpack",
    },
    "ops.algebra.matrices": {"torch method": "vdot inner kron", "torch": "tensordot"},
    "ops.algebra.qr": {"torch method linalg": "qr"},
    "ops.algebra.ranks": {"linalg": "pinv matrix_rank cond", "torch method": "pinverse"},
    "ops.algebra.solving": {
        "linalg": "solve solve_ex inv inv_ex tensorinv tensorsolve",
        "torch method": "inverse",
    },
    "ops.algebra.svd": {"torch method linalg": "svd", "linalg": "svdvals"},
    "ops.algebra.triangular": {
        "linalg": "solve_triangular cholesky_ex",
        "torch method linalg": "cholesky",
        "torch method": "triangular_solve cholesky_solve cholesky_inverse",
    },
    "ops.networks.activations": {
        "torch functional": "threshold threshold_",
        "functional": "relu relu_ hardtanh hardtanh_ relu6 hardswish hardsigmoid softshrink"
            " tanhshrink softsign glu",
        "torch method functional": "hardshrink",
    },
    "ops.networks.attention": {"functional": "scaled_dot_product_attention"},
    "ops.networks.avg_pooling": {
        "torch functional": "avg_pool1d adaptive_avg_pool1d",
        "functional": "avg_pool2d avg_pool3d adaptive_avg_pool2d adaptive_avg_pool3d lp_pool1d"
            " lp_pool2d lp_pool3d",
    },
    "ops.networks.binary_cross_entropy": {
        "functional": "binary_cross_entropy binary_cross_entropy_with_logits",
    },
    "ops.networks.channel_norms": {
        "torch functional": "batch_norm instance_norm",
        "torch": "native_batch_norm",
    },
    "ops.networks.classification": {
        "functional": "nll_loss cross_entropy linear_cross_entropy",
    },
    "ops.networks.convolution": {
        "torch functional": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d"
            " conv_transpose3d",
        "torch": "convolution",
    },
    "ops.networks.ctc": {"functional": "ctc_loss"},
    "ops.networks.distances": {
        "torch functional": "pairwise_distance cosine_similarity pdist",
        "functional": "normalize margin_ranking_loss cosine_embedding_loss triplet_margin_loss"
            " triplet_margin_with_distance_loss",
    },
    "ops.networks.dropout": {
        "torch functional": "dropout alpha_dropout feature_alpha_dropout",
        "torch": "dropout_ feature_dropout feature_dropout_ alpha_dropout_"
            " feature_alpha_dropout_",
        "functional": "dropout1d dropout2d dropout3d",
    },
    "ops.networks.embedding": {"torch functional": "embedding"},
    "ops.networks.embedding_bag": {"functional": "embedding_bag"},
    "ops.networks.grids": {
        "functional": "grid_sample affine_grid",
        "torch": "grid_sampler grid_sampler_2d grid_sampler_3d affine_grid_generator",
    },
    "ops.networks.group_norms": {
        "torch functional": "group_norm",
        "torch": "native_group_norm",
    },
    "ops.networks.integer_reduction_losses": {
        "torch": "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss"
            " hinge_embedding_loss kl_div margin_ranking_loss poisson_nll_loss"
            " triplet_margin_loss",
    },
    "ops.networks.layers": {"functional": "linear", "torch functional": "bilinear"},
    "ops.networks.leaky_activations": {
        "functional": "leaky_relu leaky_relu_ elu elu_",
        "torch method functional": "prelu",
        "torch functional": "rrelu rrelu_ selu selu_ celu celu_",
    },
    "ops.networks.losses": {
        "functional": "mse_loss l1_loss smooth_l1_loss huber_loss kl_div poisson_nll_loss"
            " gaussian_nll_loss hinge_embedding_loss",
    },
    "ops.networks.margin_losses": {
        "functional": "multi_margin_loss multilabel_margin_loss soft_margin_loss"
            " multilabel_soft_margin_loss",
    },
    "ops.networks.max_pooling": {
        "torch functional": "max_pool1d_with_indices max_pool1d max_pool2d max_pool3d"
            " adaptive_max_pool1d",
        "functional": "max_pool2d_with_indices max_pool3d_with_indices"
            " adaptive_max_pool1d_with_indices adaptive_max_pool2d_with_indices"
            " adaptive_max_pool3d_with_indices adaptive_max_pool2d adaptive_max_pool3d",
    },
    "ops.networks.multihead": {"functional": "multi_head_attention_forward"},
    "ops.networks.normalization": {
        "torch functional": "layer_norm rms_norm",
        "functional": "local_response_norm",
        "torch": "native_layer_norm",
    },
    "ops.networks.padding": {"torch": "constant_pad_nd", "functional": "pad"},
    "ops.networks.recurrent": {
        "torch": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell",
    },
    "ops.networks.resampling": {
        "functional": "interpolate upsample upsample_nearest upsample_bilinear",
        "torch functional": "pixel_shuffle pixel_unshuffle channel_shuffle",
    },
    "ops.networks.smooth_activations": {"functional": "gelu silu mish softplus logsigmoid"},
    "ops.networks.softmax": {
        "torch method special functional": "softmax log_softmax",
        "functional": "softmin gumbel_softmax",
    },
    "ops.networks.unpooling": {
        "functional": "max_unpool1d max_unpool2d max_unpool3d unfold fold",
    },
    "ops.pointwise.arithmetic": {
        "torch": "rsub",
        "torch method": "addcmul addcdiv lerp logaddexp logaddexp2 hypot frac frac_ deg2rad"
            " deg2rad_ rad2deg rad2deg_ ldexp ldexp_ frexp float_power xlogy_",
        "torch method special": "xlogy",
        "method": "addcmul_ addcdiv_ lerp_ hypot_ float_power_",
        "special": "xlog1py",
    },
    "ops.pointwise.bessel": {
        "torch method special": "sinc i0",
        "torch method": "sinc_ i0_",
        "special": "i0e i1 i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1 modified_bessel_i0"
            " modified_bessel_i1 modified_bessel_k0 modified_bessel_k1"
            " scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0 airy_ai",
    },
    "ops.pointwise.clamping": {
        "torch method": "fmax fmin clamp_min clamp_min_ clamp_max clamp_max_ nan_to_num"
            " nan_to_num_",
        "torch": "fill",
    },
    "ops.pointwise.complex_numbers": {
        "torch method": "angle conj_physical_ conj_physical resolve_conj resolve_neg is_conj"
            " is_neg",
        "torch": "complex polar",
    },
    "ops.pointwise.division": {
        "torch method": "remainder floor_divide fmod",
        "method": "remainder_ floor_divide_ fmod_",
    },
    "ops.pointwise.integers": {
        "torch method": "gcd gcd_ lcm lcm_ bitwise_left_shift bitwise_right_shift",
        "method": "bitwise_left_shift_ bitwise_right_shift_",
    },
    "ops.pointwise.polynomials": {
        "special": "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v"
            " chebyshev_polynomial_w shifted_chebyshev_polynomial_t"
            " shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v"
            " shifted_chebyshev_polynomial_w hermite_polynomial_h hermite_polynomial_he"
            " laguerre_polynomial_l legendre_polynomial_p",
    },
    "ops.pointwise.predicates": {
        "torch method": "isposinf isneginf isreal isclose allclose is_signed is_nonzero"
            " is_same_size",
        "torch": "isin",
    },
    "ops.pointwise.signs": {
        "torch method": "heaviside nextafter copysign signbit",
        "method": "heaviside_ nextafter_ copysign_",
    },
    "ops.pointwise.special": {
        "torch method special": "erf erfc erfinv digamma polygamma logit",
        "torch method": "erf_ erfc_ lgamma mvlgamma igamma igammac logit_",
        "method": "erfinv_ lgamma_ digamma_ polygamma_ mvlgamma_ igamma_ igammac_",
        "special": "erfcx ndtr ndtri log_ndtr gammaln psi multigammaln gammainc gammaincc zeta"
            " entr round",
    },
    "ops.pointwise.trigonometry": {
        "torch method": "sin sin_ cos cos_ tan tan_ asin arcsin asin_ arcsin_ acos arccos"
            " acos_ arccos_ atan arctan atan_ arctan_ atan2 arctan2 sinh sinh_ cosh cosh_ tanh_"
            " asinh arcsinh asinh_ arcsinh_ acosh arccosh acosh_ arccosh_ atanh arctanh atanh_"
            " arctanh_",
        "torch method functional": "tanh",
        "method": "atan2_ arctan2_",
    },
    "ops.reductions.counting": {
        "torch method": "count_nonzero bincount hash_tensor histc histogram",
        "torch": "histogramdd",
    },
    "ops.reductions.differences": {
        "torch method": "diff",
        "torch": "trapezoid trapz cumulative_trapezoid gradient",
    },
    "ops.reductions.norms": {
        "linalg": "vector_norm matrix_norm",
        "torch method linalg": "norm",
        "torch method": "dist renorm",
        "method": "renorm_",
    },
    "ops.reductions.order_statistics": {
        "torch method": "median nanmedian kthvalue mode quantile nanquantile",
    },
    "ops.reductions.scans": {
        "torch method": "cumprod cummax cummin logcumsumexp",
        "method": "cumprod_",
    },
    "ops.reductions.segments": {"torch": "segment_reduce"},
    "ops.reductions.statistics": {
        "torch method": "var std nansum nanmean aminmax cov corrcoef",
        "torch": "var_mean std_mean",
        "torch method special": "logsumexp",
    },
    "ops.sampling": {
        "method": "uniform_ normal_ exponential_ cauchy_ log_normal_ geometric_ random_"
            " bernoulli_",
        "torch method": "bernoulli multinomial",
        "torch": "poisson binomial",
    },
    "ops.shapes.copied_views": {
        "torch": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy"
            " permute_copy select_copy slice_copy split_copy split_with_sizes_copy squeeze_copy"
            " t_copy transpose_copy unbind_copy unfold_copy unsqueeze_copy view_copy"
            " view_as_complex_copy view_as_real_copy",
    },
    "ops.shapes.diagonals": {
        "torch method linalg": "diagonal",
        "torch method": "diag_embed diag diagflat diagonal_scatter trace tril triu",
        "torch linalg": "vander",
        "method": "fill_diagonal_ tril_ triu_",
    },
    "ops.shapes.gather_scatter": {
        "torch method": "gather scatter scatter_add scatter_reduce take_along_dim",
        "method": "scatter_ scatter_add_ scatter_reduce_",
    },
    "ops.shapes.index_reduce": {"torch method": "index_reduce", "method": "index_reduce_"},
    "ops.shapes.index_select": {
        "torch method": "index_select index_add index_copy index_fill",
        "method": "index_add_ index_copy_ index_fill_",
    },
    "ops.shapes.joining": {
        "torch method": "tensor_split hsplit vsplit dsplit split_with_sizes unsafe_split"
            " unsafe_split_with_sizes unsafe_chunk",
        "torch": "atleast_1d atleast_2d atleast_3d hstack vstack row_stack dstack column_stack"
            " block_diag meshgrid cartesian_prod combinations",
    },
    "ops.shapes.masks": {
        "torch method": "masked_select masked_scatter",
        "method": "masked_scatter_",
    },
    "ops.shapes.reordering": {
        "torch method": "unflatten ravel swapaxes adjoint fliplr flipud roll rot90",
        "method": "swapaxes_",
    },
    "ops.shapes.repeating": {
        "method": "sum_to_size repeat",
        "torch method": "tile repeat_interleave",
        "torch": "broadcast_tensors",
    },
    "ops.shapes.sorting": {
        "torch method": "sort argsort msort topk nonzero nonzero_static argwhere",
        "torch": "searchsorted bucketize unravel_index",
        "functional": "one_hot",
    },
    "ops.shapes.take_put": {"torch method": "take put index_put index_put_", "method": "put_"},
    "ops.shapes.unique": {"torch method": "unique unique_consecutive"},
    "ops.shapes.viewing": {
        "method": "unfold",
        "torch method": "narrow_copy as_strided as_strided_ as_strided_scatter select_scatter"
            " slice_scatter",
    },
    "ops.signals.fourier": {
        "fft": "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn hfftn ihfftn fft2 ifft2"
            " rfft2 irfft2 hfft2 ihfft2 fftshift ifftshift",
    },
    "ops.signals.spectrograms": {"torch method": "stft istft"},
    "tensor._low_rank": {"torch": "svd_lowrank pca_lowrank lobpcg"},
    "tensor._storages": {
        "method": "untyped_storage storage _typed_storage set_ resize_ new_empty_strided"
            " apply_ map_ share_memory_ is_shared pin_memory is_pinned to_sparse to_sparse_csr"
            " to_sparse_csc to_sparse_bsr to_sparse_bsc sparse_mask to_dense",
        "torch method": "resize_as_",
    },
}  # fmt: skip


@cache
def names_of(space: str) -> dict[str, str]:
    """The names of a namespace that modules not loaded at import declare, and these modules."""
    return {
        name: module for module, groups in INDEX.items() for spaces, names in groups.items()
        if space in spaces.split() for name in names.split()
    }  # fmt: skip
