"""Explanations of the derivative rules of common operations, and a few formulas.

Formulas are derived from the source of the rules (``_rules``). This module has formulas for rules
that call a kernel: expressions, which a test evaluates against the engine, or, where there is no
short expression, text.
"""

from __future__ import annotations

BY_FAMILY = {
    "elementwise": "Each element of the incoming gradient is multiplied by the derivative of "
    "{name} at that element.",
    "linear": "{name} is linear, so its rule is its transpose: every element of the gradient is "
    "sent back to the element it came from.",
    "multilinear": "{name} is linear in each input with the others fixed: the gradient for one is "
    "the incoming gradient combined with the others.",
    "selecting": "Each element of the result is an element of the input. The gradient goes to the "
    "elements that were chosen; all others get zero.",
    "reduction": "{name} combines many elements into one: each of them gets the gradient of the "
    "result times the derivative of the result with respect to it.",
    "composite": "{name} is an expression in other operations: its rule is the derivative of "
    "that expression, computed in one step.",
    "operation": "The rule of {name} computes the gradients of its inputs from that of its result.",
    "constant": "A small change of the input does not change the result: no gradient flows back.",
}
UNCHANGED = "The gradient passes through unchanged."
NOTHING = "A small change of the input does not change the result: the gradient is zero."
NOT_DEFINED = "The derivative of this operation is not implemented: running its rule is an error."

_RESHAPED = "The same elements in another shape: the gradient gets the shape of the input."
_MOVED = "The gradient is transposed back."
_PADDED = "The gradient goes to the selected elements; all others get zero."
_EXTREME = (
    "The gradient goes to the extreme element; if several are equal, they share it. All others "
    "get zero."
)
_PICKED = (
    "The gradient goes to the selected elements, at the saved indices; all others get zero."
)
_POOL = "The gradient of each window goes to its largest element; all others get nothing from it."
_AVERAGE = "The gradient of each window is divided by its size and goes to all elements in it."
_NORM = (
    "The incoming gradient, times weight, minus its mean and minus its share along the normalised "
    "values, is divided by the standard deviation: shifting or scaling all values does not "
    "change the result."
)
_JOINED = "The gradient is split, and each input gets the piece that it contributed."
_CUT = "The gradients of the pieces are concatenated; a piece without a gradient counts as zeros."
_DERIVATIVE = "Each element of the gradient is multiplied by the derivative at that element."

_ROBUST = (
    "For small differences between input and target, the derivative is proportional to the "
    "difference, as for squared errors; beyond the limit it depends only on the sign."
)

WORDS = {
    "add": "A sum passes the gradient to both inputs unchanged.",
    "add_scaled": "A sum passes the gradient on: unchanged to the first, times alpha to the "
    "second.",
    "sub": "A difference passes the gradient on: unchanged to the first, negated to the second.",
    "sub_scaled": "A difference passes the gradient on; the second input gets it times −alpha.",
    "rsub": "The input is subtracted: it gets the gradient negated.",
    "mul": "Each input gets the incoming gradient times the other input.",
    "div": "The numerator gets the gradient divided by the denominator; the denominator gets it "
    "times −self/other².",
    "neg": "The gradient is negated.",
    "pow_scalar": "The derivative of a power is exponent · self^(exponent − 1).",
    "pow_tensor": "The base gets the derivative of a power, the exponent that of an exponential: "
    "the result times the logarithm of the base.",
    "sqrt": "The derivative of a square root is one over twice the root.",
    "exp": "The derivative of exp is its result: the gradient is multiplied by it.",
    "log": "The derivative of the logarithm is one over the input: small inputs get large "
    "gradients.",
    "sin": "The derivative of the sine is the cosine.",
    "cos": "The derivative of the cosine is minus the sine.",
    "tanh": "The derivative of tanh is 1 − result²: near 1 in the middle, near 0 where it "
    "saturates.",
    "sigmoid": "The derivative of the sigmoid is result · (1 − result): at most a quarter, and "
    "near 0 "
    "where it saturates.",
    "relu": "Where the result is positive the gradient passes unchanged; elsewhere it is zero.",
    "leaky_relu": "Where the input is positive the gradient passes unchanged; elsewhere it is "
    "multiplied by negative_slope.",
    "gelu": _DERIVATIVE, "silu": _DERIVATIVE, "elu": _DERIVATIVE, "mish": _DERIVATIVE,
    "celu": _DERIVATIVE,
    "softplus": "The derivative of softplus is the sigmoid of the input.",
    "abs": "The gradient passes where the input is positive, and is negated where it is "
    "negative; at zero it is zero.",
    "maximum": "The gradient goes to the larger of the two; where they are equal each gets half.",
    "minimum": "The gradient goes to the smaller of the two; where they are equal each gets half.",
    "clamp": "Within the limits the gradient passes unchanged; beyond them it is zero.",
    "where": "Each element of the gradient goes to the input that the element was taken from.",
    "masked_fill": "The gradient is zero where the mask was filled, and passes elsewhere.",
    "masked_fill_number": "The gradient is zero where the mask was filled, and passes elsewhere.",
    "clone": "A copy passes the gradient unchanged.",
    "to_dtype": "Only the dtype changes: the gradient passes, in the dtype of the input.",
    "copy": "The old values were overwritten and get zero; the source gets the whole gradient.",
    "fill_number": "The old values were overwritten: they get zero.",
    "zero": "The old values were overwritten: they get zero.",
    "times_number": "The gradient is multiplied by the same number.",
    "over_number": "The gradient is divided by the same number.",
    "fill": "The old values were overwritten and get zero; the value gets the sum of the gradient.",
    "pow_of_number": "The derivative of an exponential is its result times the logarithm of the "
    "base.",
    "rsqrt": "The derivative of one over the root: minus half its third power.",
    "addcmul": "The first input gets the gradient unchanged; each factor gets it times the other.",
    "addcdiv": "The first input gets the gradient unchanged; the quotient passes it on as a "
    "division.",
    "lerp_number": "Each end gets the gradient times its share.",
    "scatter_add": "The input gets the gradient unchanged; src gets the gradient at its indices.",
    "masked_select": _PADDED, "diagonal": _PADDED,
    "trace": "Every element of the diagonal gets the gradient of the sum.",
    "roll": "The gradient is rolled back.",
    "cumprod": "An element is a factor of all later products and gets the sum of their "
    "contributions.",
    "linalg_vector_norm": "Each element gets the gradient times its share of the norm: for the "
    "2-norm, the input divided by its norm.",
    "smooth_l1_loss": _ROBUST, "huber_loss": _ROBUST,
    "cdist": "Each distance passes a gradient to its two points, along the line between them.",
    "lerp": "Each end gets the gradient times its share; the weight gets it times the difference.",
    "view": _RESHAPED, "unsafe_view": _RESHAPED, "reshape_alias": _RESHAPED, "squeeze": _RESHAPED,
    "squeeze_dim": _RESHAPED, "squeeze_dims": _RESHAPED, "unsqueeze": _RESHAPED,
    "unsafe_squeeze": _RESHAPED,
    "transpose": _MOVED, "permute": _MOVED, "t": "The transpose of the gradient.",
    "expand": "An element that was repeated gets the sum of the gradients of its copies.",
    "repeat": "An element that was repeated gets the sum of the gradients of its copies.",
    "select": _PADDED, "slice": _PADDED, "index": "Each selected element gets its gradient; one "
    "selected several times gets the sum, all others get zero.",
    "take_flat": "The gradient goes to the selected elements of the base, others get zero.",
    "index_select": "Each selected row gets its gradient; one selected several times gets the "
    "sum, all others get zero.",
    "gather": "Each gathered element gets its gradient; if it was gathered several times, the sum.",
    "index_put": "Where values were written, they get the gradient; elsewhere the old values do.",
    "embedding": "Each row of the table that was looked up gets the sum of the gradients of its "
    "uses; all others get zero.",
    "cat": _JOINED, "stack": "The gradient is split: each input gets its own slice.",
    "split": _CUT, "split_with_sizes": _CUT, "unbind": _CUT, "unsafe_split": _CUT,
    "unsafe_split_with_sizes": _CUT,
    "sum": "Every element that was summed gets the gradient of the sum.",
    "sum_dim": "Every element that was summed gets the gradient of its sum.",
    "mean": "Every element gets the same share: the gradient of the mean divided by the number of "
    "elements.",
    "mean_dim": "Every element gets the gradient of its mean, divided by the number of elements "
    "averaged.",
    "cumsum": "An element is part of all later sums: it gets the sum of their gradients.",
    "flip": "The gradient is flipped back.",
    "prod": "Each element gets the gradient times the product of all the others.",
    "var": "Each element gets the gradient times twice its distance from the mean, divided by the "
    "number of elements (minus the correction).",
    "std": "As for the variance, divided by twice the standard deviation.",
    "logsumexp": "Each element gets the gradient times its share of the sum: softmax.",
    "mm": "Matrix product: each factor gets the product of the gradient and the transpose of the "
    "other factor.",
    "bmm": "A matrix product for each entry of the batch: each factor gets the gradient times the "
    "other factor, transposed.",
    "mv": "The matrix gets the outer product of gradient and vector; the vector gets the "
    "transposed matrix times the gradient.",
    "dot": "Each vector gets the gradient times the other vector.",
    "addmm": "The added term (the bias) gets the gradient itself; each factor of the matrix "
    "product gets it times the other factor, transposed.",
    "baddbmm": "The added term gets the gradient itself; each factor of the matrix products "
    "gets it times the other factor, transposed.",
    "max": _EXTREME, "min": _EXTREME, "amax": _EXTREME, "amin": _EXTREME, "median": _EXTREME,
    "max_dim": _PICKED, "min_dim": _PICKED, "sort": _PICKED, "topk": _PICKED, "median_dim": _PICKED,
    "softmax": "The gradient minus its average, weighted by the probabilities, times the "
    "probabilities: only differences between the inputs matter.",
    "log_softmax": "The gradient minus the probabilities times its sum: only differences between "
    "the inputs matter.",
    "nll_loss": "The gradient, negated and divided by the number of elements averaged, goes to "
    "the element "
    "of the target class of each row; all others get zero.",
    "nll_loss_2d": "The gradient, negated and divided by the number of elements averaged, goes to "
    "the "
    "element of the target class at each position; all others get zero.",
    "mse_loss": "Twice the difference, times the gradient, divided by the number of elements "
    "averaged.",
    "binary_cross_entropy": "The difference of prediction and target over self · (1 − self), times "
    "the gradient of each element.",
    "binary_cross_entropy_with_logits": "The difference between sigmoid and target, times the "
    "gradient of each element.",
    "convolution": "The input gets the transposed convolution of the gradient; the weight gets "
    "the sum of products of gradient and input at each offset; the bias gets the sum of the "
    "gradient over all dimensions except the channels.",
    "native_layer_norm": _NORM, "native_batch_norm": _NORM, "native_group_norm": _NORM,
    "max_pool2d_with_indices": _POOL, "max_pool3d_with_indices": _POOL,
    "avg_pool2d": _AVERAGE, "avg_pool3d": _AVERAGE,
    "adaptive_avg_pool2d": _AVERAGE, "adaptive_avg_pool3d": _AVERAGE,
    "constant_pad_nd": "The gradient without the padding.",
    "scaled_dot_product_attention": "The values get the gradient, weighted by the attention; the "
    "scores get it through softmax, and pass it on to queries and keys as a matrix product does.",
    "lstm_layer": "The gradient goes back through time, step by step: through the gates of each "
    "step to its inputs, and through the state to the step before.",
    "gru_layer": "The gradient goes back through time, step by step, through the gates of each.",
    "rnn_layer": "The gradient goes back through time, step by step.",
    "linalg_inv_ex": "The derivative of the inverse: minus the inverse on both sides, transposed.",
    "linalg_det": "The gradient times the determinant times the inverse, transposed.",
    "linalg_solve_ex": "The right side gets the solution with the transposed matrix; the matrix "
    "gets minus the outer product of that and the solution.",
    "tril": "The lower triangle of the gradient.", "triu": "The upper triangle of the gradient.",
}  # fmt: skip

# Expressions for rules that call a kernel. ``g`` is the gradient, and g[0] that of the first of
# several outputs.
_SIG, _SP = "sigmoid(self)", "tanh(softplus(self))"
EXPRESSIONS: dict[str, dict[str, str]] = {
    "silu": {"self": f"g * ({_SIG} * (1 + self * (1 - {_SIG})))"},
    "mish": {"self": f"g * ({_SP} + self * {_SIG} * (1 - {_SP} * {_SP}))"},
    "gelu": {
        "self": "g * (0.5 * (1 + erf(self / math.sqrt(2))) + self * exp(-0.5 * self * self) / "
        "math.sqrt(2 * math.pi)) if approximate == 'none' else gelu_slope(g, self)"
    },
    "softplus": {"self": "where(self * beta > threshold, g, g * sigmoid(self * beta))"},
    "log_sigmoid": {"self": "g[0] * sigmoid(-self)"},
    "hardtanh": {"self": "where(logical_and(self > min_val, self < max_val), g, zeros_like(g))"},
    "threshold": {"self": "where(self > threshold, g, zeros_like(g))"},
    "hardsigmoid": {"self": "where(abs(self) < 3, g / 6, zeros_like(g))"},
    "hardswish": {
        "self": "where(self < -3, zeros_like(g), where(self <= 3, g * (self / 3 + 0.5), g))"
    },
    "softshrink": {"self": "where(abs(self) > lambd, g, zeros_like(g))"},
    "hardshrink": {"self": "where(abs(self) > lambd, g, zeros_like(g))"},
    "leaky_relu": {"self": "where(self > 0, g, g * negative_slope)"},
    "elu": {
        "self": "where(self > 0, g * scale, g * (alpha * scale * input_scale * "
        "exp(self * input_scale)))"
    },
    "celu": {
        "self": "where(self > 0, g * scale, g * (alpha * scale * input_scale * "
        "exp(self * input_scale)))"
    },
    "softmax": {"self": "result * (g - sum(g * result, dim=dim, keepdim=True))"},
    "log_softmax": {"self": "g - exp(result) * sum(g, dim=dim, keepdim=True)"},
    "logsumexp": {"self": "g * exp(self - result)"},
}

# Text where there is no expression to evaluate, shown after "grad_NAME = ".
_SHARE = {"self": "grad / (how many are equal to result) where self = result, else 0"}
_SHARE_ALONG = {
    "self": "grad / (how many along dim are equal to result) where self = result, else 0"
}
_AT_INDICES = {"self": "zeros of self.shape, with grad_values at indices along dim"}
_WINDOWS = {"self": "each element of grad / (size of its window), added to all of the window"}
_LARGEST = {"self": "each element of grad, added to the largest of its window"}
_RESIZED = {"self": "each element of grad, added to those it was computed from, with the same "
"weights"}
_AVERAGED = ", n: how many are averaged, or 1"
TEXTS: dict[str, dict[str, str]] = {
    "max": _SHARE, "min": _SHARE, "median": _SHARE, "nanmedian": _SHARE,
    "amax": _SHARE_ALONG, "amin": _SHARE_ALONG,
    "max_dim": _AT_INDICES, "min_dim": _AT_INDICES, "sort": _AT_INDICES, "topk": _AT_INDICES,
    "median_dim": _AT_INDICES, "nanmedian_dim": _AT_INDICES, "kthvalue": _AT_INDICES,
    "mode": _AT_INDICES,
    "avg_pool2d": _WINDOWS, "avg_pool3d": _WINDOWS,
    "adaptive_avg_pool2d": _WINDOWS, "adaptive_avg_pool3d": _WINDOWS,
    "max_pool2d_with_indices": _LARGEST, "max_pool3d_with_indices": _LARGEST,
    "adaptive_max_pool2d": _LARGEST, "adaptive_max_pool3d": _LARGEST,
    "upsample_nearest1d": _RESIZED, "upsample_nearest2d": _RESIZED, "upsample_nearest3d": _RESIZED,
    "upsample_linear1d": _RESIZED, "upsample_bilinear2d": _RESIZED, "upsample_bicubic2d": _RESIZED,
    "select": {"self": "zeros of self.shape, with grad at index along dim"},
    "slice": {"self": "zeros of self.shape, with grad where the slice was"},
    "index": {"self": "zeros of self.shape, with grad added at the indices"},
    "gather": {"self": "zeros of self.shape, with grad added at index along dim"},
    "index_select": {"self": "zeros of self.shape, with the slices of grad added at index"},
    "masked_select": {"self": "zeros of self.shape, with grad in order where mask is set"},
    "embedding": {"weight": "zeros of weight.shape, with each row of grad added at its index"},
    "diagonal": {"self": "zeros of self.shape, with grad on the diagonal"},
    "trace": {"self": "grad on the diagonal, else 0"},
    "scatter_add": {"src": "gather(grad, dim, index)"},
    "unsqueeze": {"self": "squeeze(grad, dim)"},
    "repeat": {"self": "sum of grad over the copies"},
    "roll": {"self": "roll(grad, −shifts, dims)"},
    "constant_pad_nd": {"self": "grad without the padding"},
    "tril": {"self": "tril(grad, diagonal)"}, "triu": {"self": "triu(grad, diagonal)"},
    "cumsum": {"self": "sum of grad from each position to the end of dim"},
    "cumprod": {"self": "(sum of grad · result from each position to the end of dim) / self"},
    "linalg_vector_norm": {"self": "grad · sgn(self) · (|self| / result)^(ord − 1), which for "
                           "ord = 2 is grad · self / result; 0 where result = 0"},
    "cdist": {"x1": "sum over j of grad[i, j] · (x1[i] − x2[j]) / result[i, j], for p = 2",
              "x2": "sum over i of grad[i, j] · (x2[j] − x1[i]) / result[i, j], for p = 2"},
    "binary_cross_entropy": {
        "self": "grad · weight · (self − target) / (self · (1 − self)) / n" + _AVERAGED,
        "target": "grad · weight · (log(1 − self) − log(self)) / n" + _AVERAGED,
    },
    "binary_cross_entropy_with_logits": {
        "self": "grad · weight · ((1 + (p − 1) · target) · sigmoid(self) − p · target) / n, "
        "p: pos_weight or 1" + _AVERAGED,
        "target": "grad · weight · (log(1 − sigmoid(self)) − p · log(sigmoid(self))) / n, "
        "p: pos_weight or 1" + _AVERAGED,
    },
    "rnn_layer": {
        "gates": "dz of all steps; dz = dh · s, dh = grad + dz₊₁ @ weight, with s = 1 − h² "
        "for tanh, and 1 where h > 0 for relu",
        "hidden": "dz @ weight, of the first step",
        "weight": "sum over steps of dzᵀ @ h₋₁",
    },
    "lstm_layer": {
        "gates": "dz of all steps; dz = (dc·n·i·(1−i), dc·c₋₁·f·(1−f), dc·i·(1−n²), "
        "dh·tanh(c)·o·(1−o)), dc = dh·o·(1−tanh(c)²) + dc₊₁·f₊₁, dh = grad + dz₊₁ @ weight",
        "hidden": "dz @ weight, of the first step",
        "cell": "dc · f, of the first step",
        "weight": "sum over steps of dzᵀ @ h₋₁",
        "projection": "sum over steps of dhᵀ @ (o · tanh(c))",
    },
    "gru_layer": {
        "gates": "(dr, dz, dn) of all steps; dn = dh·(1−z)·(1−n²), dz = dh·(h₋₁−n)·z·(1−z), "
        "dr = dn·q·r·(1−r), q: what r is multiplied by, dh = grad + d₊₁",
        "hidden": "d = dh·z + (dr, dz, dn·r) @ weight, of the first step",
        "weight": "sum over steps of (dr, dz, dn·r)ᵀ @ h₋₁",
        "bias": "sum over steps of (dr, dz, dn·r)",
    },
    "linalg_cholesky_ex": {
        "self": "L⁻ᵀ @ P @ L⁻¹, symmetrized, with P = Lᵀ @ grad_L, its lower triangle with half "
        "of the diagonal"
    },
    "linalg_eigh": {
        "A": "V @ (diag(grad_eigenvalues) + (Vᵀ @ grad_V) / E off the diagonal) @ Vᵀ, "
        "symmetrized, with V the eigenvectors and E[i, j] = λ[j] − λ[i]"
    },
    "mean_dim": {"self": "expand(grad / n, self.shape), with n how many each mean is of"},
    "block_diag": {"tensors": "the block of grad that this input was"},
    "prod": {"self": "grad · (product of all other elements of self)"},
    "prod_dim": {"self": "grad · (product of all other elements of self along dim)"},
    "cat": {"tensors": "the piece of grad along dim that this input contributed"},
    "stack": {"tensors": "the slice of grad along dim at the index of this input"},
    "split": {"self": "cat(gradients of the pieces, dim)"},
    "split_with_sizes": {"self": "cat(gradients of the pieces, dim)"},
    "unsafe_split": {"self": "cat(gradients of the pieces, dim)"},
    "unsafe_split_with_sizes": {"self": "cat(gradients of the pieces, dim)"},
    "unbind": {"self": "stack(gradients of the pieces, dim)"},
    "convolution": {
        "input": "transposed convolution of grad with weight",
        "weight": "sum over positions of grad · input, for each offset of the kernel",
        "bias": "sum(grad) over all dimensions but the channels",
    },
    "native_layer_norm": {
        "input": "rstd · (h − mean(h) − x̂ · mean(h · x̂)), with h = grad · weight and "
        "x̂ = (input − mean) · rstd",
        "weight": "sum(grad · x̂)", "bias": "sum(grad)",
    },
    "native_batch_norm": {
        "input": "rstd · (h − mean(h) − x̂ · mean(h · x̂)), with h = grad · weight and "
        "x̂ = (input − mean) · rstd; in eval mode rstd · h",
        "weight": "sum(grad · x̂)", "bias": "sum(grad)",
    },
    "native_group_norm": {
        "input": "rstd · (h − mean(h) − x̂ · mean(h · x̂)), with h = grad · weight and "
        "x̂ = (input − mean) · rstd",
        "weight": "sum(grad · x̂)", "bias": "sum(grad)",
    },
    "nll_loss": {"self": "−grad · weight[target] / total_weight at each row's target, else 0 "
                 "(with reduction='sum' or 'none' not divided)"},
    "nll_loss_2d": {"self": "−grad · weight[target] / total_weight at the target of each "
    "position, else 0 "
                    "(with reduction='sum' or 'none' not divided)"},
    "scaled_dot_product_attention": {
        "query": "scale · s @ key, with s = p · (grad @ valueᵀ − sum(p · (grad @ valueᵀ))) and "
        "p = softmax(scale · query @ keyᵀ)",
        "key": "scale · sᵀ @ query", "value": "pᵀ @ grad",
    },
    "var": {"self": "2 · grad · (self − mean(self, dim)) / (n − correction), with n how many there "
            "are along dim"},
    "std": {"self": "grad · (self − mean(self, dim)) / ((n − correction) · result), with n how "
            "many there are along dim"},
    "linalg_solve_ex": {"A": "−(A⁻ᵀ @ grad) @ resultᵀ", "B": "A⁻ᵀ @ grad"},
    "linalg_det": {"A": "grad · result · A⁻ᵀ"},
    "linalg_slogdet": {"A": "grad_logabsdet · A⁻ᵀ"},
}  # fmt: skip
