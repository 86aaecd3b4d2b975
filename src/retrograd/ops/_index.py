"""Which module declares a public name. Written by ``python tests/generate_index.py``."""

from __future__ import annotations

from functools import cache

INDEX: dict[str, dict[str, str]] = {
    "ops.algebra.all_pairs": {
        "torch": "cdist cross",
        "method": "cross",
        "linalg": "cross",
    },
    "ops.algebra.eigenvalues": {
        "linalg": "eigh eigvalsh eig eigvals",
    },
    "ops.algebra.einsum": {
        "torch": "einsum",
    },
    "ops.algebra.householder": {
        "torch": "orgqr ormqr geqrf",
        "method": "orgqr ormqr geqrf",
        "linalg": "householder_product",
    },
    "ops.algebra.ldl": {
        "linalg": "ldl_factor_ex ldl_factor ldl_solve",
    },
    "ops.algebra.least_squares": {
        "linalg": "lstsq",
    },
    "ops.algebra.linalg": {
        "torch": "det slogdet logdet matrix_power matrix_exp chain_matmul",
        "method": "det slogdet logdet matrix_power matrix_exp",
        "linalg": "det slogdet matrix_power matrix_exp multi_dot vecdot matmul",
    },
    "ops.algebra.lu": {
        "torch": "lu lu_unpack lu_solve",
        "method": "lu lu_solve",
        "linalg": "lu_factor_ex lu_factor lu lu_solve",
    },
    "ops.algebra.matrices": {
        "torch": "vdot inner kron addmm addmv addmv_ addr baddbmm addbmm tensordot",
        "method": "vdot inner kron addmm addmm_ addmv addmv_ addr addr_ baddbmm baddbmm_"
            " addbmm addbmm_",
    },
    "ops.algebra.qr": {
        "torch": "qr",
        "method": "qr",
        "linalg": "qr",
    },
    "ops.algebra.ranks": {
        "torch": "pinverse",
        "method": "pinverse",
        "linalg": "pinv matrix_rank cond",
    },
    "ops.algebra.solving": {
        "torch": "inverse",
        "method": "inverse",
        "linalg": "solve solve_ex inv inv_ex tensorinv tensorsolve",
    },
    "ops.algebra.svd": {
        "torch": "svd",
        "method": "svd",
        "linalg": "svd svdvals",
    },
    "ops.algebra.triangular": {
        "torch": "triangular_solve cholesky cholesky_solve cholesky_inverse",
        "method": "triangular_solve cholesky cholesky_solve cholesky_inverse",
        "linalg": "solve_triangular cholesky_ex cholesky",
    },
    "ops.networks.activations": {
        "torch": "threshold threshold_ hardshrink",
        "method": "hardshrink",
        "functional": "threshold threshold_ relu relu_ hardtanh hardtanh_ relu6 hardswish"
            " hardsigmoid softshrink hardshrink tanhshrink softsign glu",
    },
    "ops.networks.attention": {
        "functional": "scaled_dot_product_attention",
    },
    "ops.networks.avg_pooling": {
        "torch": "avg_pool1d adaptive_avg_pool1d",
        "functional": "avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d"
            " adaptive_avg_pool2d adaptive_avg_pool3d lp_pool1d lp_pool2d lp_pool3d",
    },
    "ops.networks.binary_cross_entropy": {
        "functional": "binary_cross_entropy binary_cross_entropy_with_logits",
    },
    "ops.networks.channel_norms": {
        "torch": "batch_norm native_batch_norm instance_norm",
        "functional": "batch_norm instance_norm",
    },
    "ops.networks.classification": {
        "functional": "nll_loss cross_entropy linear_cross_entropy",
    },
    "ops.networks.convolution": {
        "torch": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d"
            " convolution",
        "functional": "conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    },
    "ops.networks.ctc": {
        "functional": "ctc_loss",
    },
    "ops.networks.distances": {
        "torch": "pairwise_distance cosine_similarity pdist",
        "functional": "pairwise_distance cosine_similarity normalize pdist margin_ranking_loss"
            " cosine_embedding_loss triplet_margin_loss"
            " triplet_margin_with_distance_loss",
    },
    "ops.networks.dropout": {
        "torch": "dropout dropout_ feature_dropout feature_dropout_ alpha_dropout"
            " alpha_dropout_ feature_alpha_dropout feature_alpha_dropout_",
        "functional": "dropout alpha_dropout feature_alpha_dropout dropout1d dropout2d"
            " dropout3d",
    },
    "ops.networks.embedding": {
        "torch": "embedding",
        "functional": "embedding embedding_bag",
    },
    "ops.networks.grids": {
        "torch": "grid_sampler grid_sampler_2d grid_sampler_3d affine_grid_generator",
        "functional": "grid_sample affine_grid",
    },
    "ops.networks.group_norms": {
        "torch": "group_norm native_group_norm",
        "functional": "group_norm",
    },
    "ops.networks.integer_reduction_losses": {
        "torch": "binary_cross_entropy_with_logits cosine_embedding_loss ctc_loss"
            " hinge_embedding_loss kl_div margin_ranking_loss poisson_nll_loss"
            " triplet_margin_loss",
    },
    "ops.networks.layers": {
        "torch": "bilinear",
        "functional": "linear bilinear",
    },
    "ops.networks.leaky_activations": {
        "torch": "prelu rrelu rrelu_ selu selu_ celu celu_",
        "method": "prelu",
        "functional": "leaky_relu leaky_relu_ prelu rrelu rrelu_ elu elu_ selu selu_ celu"
            " celu_",
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
        "torch": "max_pool1d_with_indices max_pool1d max_pool2d max_pool3d"
            " adaptive_max_pool1d",
        "functional": "max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices"
            " max_pool1d max_pool2d max_pool3d adaptive_max_pool1d_with_indices"
            " adaptive_max_pool2d_with_indices adaptive_max_pool3d_with_indices"
            " adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d",
    },
    "ops.networks.multihead": {
        "functional": "multi_head_attention_forward",
    },
    "ops.networks.normalization": {
        "torch": "layer_norm native_layer_norm rms_norm",
        "functional": "layer_norm rms_norm local_response_norm",
    },
    "ops.networks.padding": {
        "torch": "constant_pad_nd",
        "functional": "pad",
    },
    "ops.networks.recurrent": {
        "torch": "lstm gru rnn_tanh rnn_relu lstm_cell gru_cell rnn_tanh_cell"
            " rnn_relu_cell",
    },
    "ops.networks.resampling": {
        "torch": "pixel_shuffle pixel_unshuffle channel_shuffle",
        "functional": "interpolate upsample upsample_nearest upsample_bilinear pixel_shuffle"
            " pixel_unshuffle channel_shuffle",
    },
    "ops.networks.smooth_activations": {
        "functional": "gelu silu mish softplus logsigmoid",
    },
    "ops.networks.softmax": {
        "torch": "softmax log_softmax",
        "method": "softmax log_softmax",
        "special": "softmax log_softmax",
        "functional": "softmax log_softmax softmin gumbel_softmax",
    },
    "ops.networks.unpooling": {
        "functional": "max_unpool1d max_unpool2d max_unpool3d unfold fold",
    },
    "ops.pointwise.arithmetic": {
        "torch": "rsub addcmul addcdiv lerp logaddexp logaddexp2 hypot frac frac_ deg2rad"
            " deg2rad_ rad2deg rad2deg_ ldexp ldexp_ frexp float_power xlogy xlogy_",
        "method": "addcmul addcmul_ addcdiv addcdiv_ lerp lerp_ logaddexp logaddexp2 hypot"
            " hypot_ frac frac_ deg2rad deg2rad_ rad2deg rad2deg_ ldexp ldexp_ frexp"
            " float_power float_power_ xlogy xlogy_",
        "special": "xlogy xlog1py",
    },
    "ops.pointwise.bessel": {
        "torch": "sinc sinc_ i0 i0_",
        "method": "sinc sinc_ i0 i0_",
        "special": "sinc i0 i0e i1 i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1"
            " modified_bessel_i0 modified_bessel_i1 modified_bessel_k0"
            " modified_bessel_k1 scaled_modified_bessel_k0 scaled_modified_bessel_k1"
            " spherical_bessel_j0 airy_ai",
    },
    "ops.pointwise.clamping": {
        "torch": "fmax fmin clamp_min clamp_min_ clamp_max clamp_max_ nan_to_num"
            " nan_to_num_ fill",
        "method": "fmax fmin clamp_min clamp_min_ clamp_max clamp_max_ nan_to_num"
            " nan_to_num_",
    },
    "ops.pointwise.complex_numbers": {
        "torch": "angle complex polar conj_physical_ conj_physical resolve_conj"
            " resolve_neg is_conj is_neg",
        "method": "angle conj_physical_ conj_physical resolve_conj resolve_neg is_conj"
            " is_neg",
    },
    "ops.pointwise.division": {
        "torch": "remainder floor_divide fmod",
        "method": "remainder remainder_ floor_divide floor_divide_ fmod fmod_",
    },
    "ops.pointwise.integers": {
        "torch": "gcd gcd_ lcm lcm_ bitwise_left_shift bitwise_right_shift",
        "method": "gcd gcd_ lcm lcm_ bitwise_left_shift bitwise_left_shift_"
            " bitwise_right_shift bitwise_right_shift_",
    },
    "ops.pointwise.polynomials": {
        "special": "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v"
            " chebyshev_polynomial_w shifted_chebyshev_polynomial_t"
            " shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v"
            " shifted_chebyshev_polynomial_w hermite_polynomial_h"
            " hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p",
    },
    "ops.pointwise.predicates": {
        "torch": "isposinf isneginf isreal isclose allclose isin is_signed is_nonzero"
            " is_same_size",
        "method": "isposinf isneginf isreal isclose allclose is_signed is_nonzero"
            " is_same_size",
    },
    "ops.pointwise.signs": {
        "torch": "heaviside nextafter copysign signbit",
        "method": "heaviside heaviside_ nextafter nextafter_ copysign copysign_ signbit",
    },
    "ops.pointwise.special": {
        "torch": "erf erf_ erfc erfc_ erfinv lgamma digamma polygamma mvlgamma igamma"
            " igammac logit logit_",
        "method": "erf erf_ erfc erfc_ erfinv erfinv_ lgamma lgamma_ digamma digamma_"
            " polygamma polygamma_ mvlgamma mvlgamma_ igamma igamma_ igammac igammac_"
            " logit logit_",
        "special": "erf erfc erfinv erfcx ndtr ndtri log_ndtr gammaln digamma psi polygamma"
            " multigammaln gammainc gammaincc zeta logit entr round",
    },
    "ops.pointwise.trigonometry": {
        "torch": "sin sin_ cos cos_ tan tan_ asin arcsin asin_ arcsin_ acos arccos acos_"
            " arccos_ atan arctan atan_ arctan_ atan2 arctan2 sinh sinh_ cosh cosh_"
            " tanh tanh_ asinh arcsinh asinh_ arcsinh_ acosh arccosh acosh_ arccosh_"
            " atanh arctanh atanh_ arctanh_",
        "method": "sin sin_ cos cos_ tan tan_ asin arcsin asin_ arcsin_ acos arccos acos_"
            " arccos_ atan arctan atan_ arctan_ atan2 arctan2 atan2_ arctan2_ sinh"
            " sinh_ cosh cosh_ tanh tanh_ asinh arcsinh asinh_ arcsinh_ acosh arccosh"
            " acosh_ arccosh_ atanh arctanh atanh_ arctanh_",
        "functional": "tanh",
    },
    "ops.reductions.counting": {
        "torch": "count_nonzero bincount hash_tensor histc histogram histogramdd",
        "method": "count_nonzero bincount hash_tensor histc histogram",
    },
    "ops.reductions.differences": {
        "torch": "diff trapezoid trapz cumulative_trapezoid gradient",
        "method": "diff",
    },
    "ops.reductions.norms": {
        "torch": "norm dist renorm",
        "method": "norm dist renorm renorm_",
        "linalg": "vector_norm matrix_norm norm",
    },
    "ops.reductions.order_statistics": {
        "torch": "median nanmedian kthvalue mode quantile nanquantile",
        "method": "median nanmedian kthvalue mode quantile nanquantile",
    },
    "ops.reductions.scans": {
        "torch": "cumprod cummax cummin logcumsumexp",
        "method": "cumprod cumprod_ cummax cummin logcumsumexp",
    },
    "ops.reductions.segments": {
        "torch": "segment_reduce",
    },
    "ops.reductions.statistics": {
        "torch": "var std var_mean std_mean logsumexp nansum nanmean aminmax cov corrcoef",
        "method": "var std logsumexp nansum nanmean aminmax cov corrcoef",
        "special": "logsumexp",
    },
    "ops.sampling": {
        "torch": "bernoulli poisson binomial multinomial",
        "method": "uniform_ normal_ exponential_ cauchy_ log_normal_ geometric_ random_"
            " bernoulli bernoulli_ multinomial",
    },
    "ops.shapes.copied_views": {
        "torch": "alias_copy as_strided_copy detach_copy diagonal_copy expand_copy"
            " permute_copy select_copy slice_copy split_copy split_with_sizes_copy"
            " squeeze_copy t_copy transpose_copy unbind_copy unfold_copy"
            " unsqueeze_copy view_copy view_as_complex_copy view_as_real_copy",
    },
    "ops.shapes.diagonals": {
        "torch": "diagonal diag_embed diag diagflat diagonal_scatter trace tril triu"
            " vander",
        "method": "diagonal diag_embed diag diagflat diagonal_scatter fill_diagonal_ trace"
            " tril tril_ triu triu_",
        "linalg": "diagonal vander",
    },
    "ops.shapes.gather_scatter": {
        "torch": "gather scatter scatter_add scatter_reduce take_along_dim",
        "method": "gather scatter scatter_ scatter_add scatter_add_ scatter_reduce"
            " scatter_reduce_ take_along_dim",
    },
    "ops.shapes.index_reduce": {
        "torch": "index_reduce",
        "method": "index_reduce index_reduce_",
    },
    "ops.shapes.index_select": {
        "torch": "index_select index_add index_copy index_fill",
        "method": "index_select index_add index_add_ index_copy index_copy_ index_fill"
            " index_fill_",
    },
    "ops.shapes.joining": {
        "torch": "tensor_split hsplit vsplit dsplit atleast_1d atleast_2d atleast_3d"
            " hstack vstack row_stack dstack column_stack block_diag meshgrid"
            " cartesian_prod combinations split_with_sizes unsafe_split"
            " unsafe_split_with_sizes unsafe_chunk",
        "method": "tensor_split hsplit vsplit dsplit split_with_sizes unsafe_split"
            " unsafe_split_with_sizes unsafe_chunk",
    },
    "ops.shapes.masks": {
        "torch": "masked_select masked_scatter",
        "method": "masked_select masked_scatter masked_scatter_",
    },
    "ops.shapes.reordering": {
        "torch": "unflatten ravel swapaxes adjoint fliplr flipud roll rot90",
        "method": "unflatten ravel swapaxes swapaxes_ adjoint fliplr flipud roll rot90",
    },
    "ops.shapes.repeating": {
        "torch": "broadcast_tensors tile repeat_interleave",
        "method": "sum_to_size repeat tile repeat_interleave",
    },
    "ops.shapes.sorting": {
        "torch": "sort argsort msort topk unique unique_consecutive searchsorted"
            " bucketize unravel_index nonzero nonzero_static argwhere",
        "method": "sort argsort msort topk unique unique_consecutive nonzero"
            " nonzero_static argwhere",
        "functional": "one_hot",
    },
    "ops.shapes.take_put": {
        "torch": "take put index_put index_put_",
        "method": "take put put_ index_put index_put_",
    },
    "ops.shapes.viewing": {
        "torch": "narrow_copy as_strided as_strided_ as_strided_scatter select_scatter"
            " slice_scatter",
        "method": "unfold narrow_copy as_strided as_strided_ as_strided_scatter"
            " select_scatter slice_scatter",
    },
    "ops.signals.fourier": {
        "fft": "fft ifft rfft irfft hfft ihfft fftn ifftn rfftn irfftn hfftn ihfftn"
            " fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftshift ifftshift",
    },
    "ops.signals.spectrograms": {
        "torch": "stft istft",
        "method": "stft istft",
    },
    "tensor._low_rank": {
        "torch": "svd_lowrank pca_lowrank lobpcg",
    },
    "tensor._storages": {
        "torch": "resize_as_",
        "method": "untyped_storage storage _typed_storage set_ resize_ resize_as_"
            " new_empty_strided apply_ map_ share_memory_ is_shared pin_memory"
            " is_pinned to_sparse to_sparse_csr to_sparse_csc to_sparse_bsr"
            " to_sparse_bsc sparse_mask to_dense",
    },
}  # fmt: skip


@cache
def names_of(space: str) -> dict[str, str]:
    """The names of a namespace that modules not loaded at import declare, and these modules."""
    return {
        name: module for module, spaces in INDEX.items() for name in spaces.get(space, "").split()
    }
