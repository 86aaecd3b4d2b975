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
    "matrix function": "{name} of the transposed matrix is the transpose of {name} of the matrix, "
    "and the same holds for its derivative.",
    "undifferentiable": "No derivative of {name} is implemented: a backward pass that reaches it "
    "raises an error.",
    "operation": "The rule of {name} computes the gradients of its inputs from that of its result.",
    "constant": "A small change of the input does not change the result: no gradient flows back.",
}
UNCHANGED = "The gradient passes through unchanged."
SUMMED = " For an input that was broadcast, it is summed over the broadcast dimensions."
NOTHING = "A small change of the input does not change the result: the gradient is zero."
NOT_DEFINED = "The derivative of this operation is not implemented: running its rule is an error."

# Expressions for rules that call a kernel. ``g`` is the gradient, and g[0] that of the first of
# several outputs.
_SIG, _SP = "sigmoid(self)", "tanh(softplus(self))"
_ELU = {
    "self": "where(self > 0, g * scale, g * (alpha * scale * input_scale * "
    "exp(self * input_scale)))"
}
EXPRESSIONS: dict[str, dict[str, str]] = {
    "silu": {"self": f"g * ({_SIG} * (1 + self * (1 - {_SIG})))"},
    "mish": {"self": f"g * ({_SP} + self * {_SIG} * (1 - {_SP} * {_SP}))"},
    "gelu": {
        "self": "g * (0.5 * (1 + erf(self / math.sqrt(2))) + self * exp(-0.5 * self * self) / "
        "math.sqrt(2 * math.pi)) if approximate == 'none' else gelu_backward(g, self)"
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
    "elu": _ELU,
    "celu": _ELU,
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
_NORM = {
    "input": "rstd · (h − mean(h) − x̂ · mean(h · x̂)), with h = grad · weight and "
    "x̂ = (input − mean) · rstd",
    "weight": "sum(grad · x̂)", "bias": "sum(grad)",
}  # fmt: skip
_PIECES = {"self": "cat(gradients of the pieces, dim)"}
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
    "split": _PIECES, "split_with_sizes": _PIECES, "unsafe_split": _PIECES,
    "unsafe_split_with_sizes": _PIECES,
    "unbind": {"self": "stack(gradients of the pieces, dim)"},
    "convolution": {
        "input": "transposed convolution of grad with weight",
        "weight": "sum over positions of grad · input, for each offset of the kernel",
        "bias": "sum(grad) over all dimensions but the channels",
    },
    "native_layer_norm": _NORM,
    "native_batch_norm": _NORM | {"input": _NORM["input"] + "; in eval mode rstd · h"},
    "native_group_norm": _NORM,
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
