"""What PyTorch gets wrong, or cannot do, in random programs: entries of ``_known``."""

from __future__ import annotations

from typing import Any

_NO_WRITES = r"(?s)\A(?!.*((?<!requires_grad)_\(|\] [-+*/]*= |out=|[-+*/]= ))"
_EMPTY = r"(zeros\(|shape|expand|view|reshape)[^)]*\b0\b|:0\]|\[\d:0"
_TRANSFORM = r"func\.(vmap|jac|hess)"


def error(why: str, theirs: str = "", ours: str = "^no error", **more: Any) -> dict[str, Any]:
    """An error that only PyTorch raises, or only we do."""
    return {"why": why, "kinds": ("error",), "theirs": theirs, "ours": ours, **more}


def taken(why: str, ours: str = "", **more: Any) -> dict[str, Any]:
    """What PyTorch takes, and we refuse."""
    return error(why, "^no error", ours, **more)


def values(why: str, program: str, theirs: str = "") -> dict[str, Any]:
    """Other numbers, in results or gradients."""
    return {"why": why, "kinds": ("values", "gradient"), "program": program, "theirs": theirs}


WRONG: list[dict[str, Any]] = [
    # -- what it has not got
    error("PyTorch has no kernel for the dtype",
          "not implemented for|is not supported for|not supported on|only supported for|"
          "does not support (complex|bool|half)|doesn't support tensors of type"),
    error("PyTorch has no such derivative",
          "does not support automatic differentiation|derivative for .* is not implemented|"
          "it has not been implemented yet|is not implemented for complex|not differentiable|"
          "Trying to use forward AD"),
    error("PyTorch's transforms lack a rule, or fail inside",
          "^(RuntimeError|NotImplementedError|IndexError)", line=_TRANSFORM + "|checkpoint"),
    error("PyTorch's transforms lack a rule, or fail inside",
          "Cannot access data pointer|ZeroTensors are immutable"),
    error("PyTorch's transforms look at other dimensions than the entries have",
          "^(RuntimeError|IndexError)", "^(RuntimeError|IndexError)", line=r"func\.|functional\."),
    error("PyTorch's transforms lack a rule, or fail inside",
          "^(RuntimeError|NotImplementedError|IndexError)",
          program=_TRANSFORM + r"[\s\S]*(grad|backward)"),
    # -- where it fails
    error("PyTorch writes over what its own nodes have saved",
          "modified by an inplace operation", program=_NO_WRITES),
    error("PyTorch fails where a complex gradient meets a real tensor",
          "isFloatingType|isDifferentiableType"),
    error("PyTorch negates a mask in a gradient, which it refuses",
          "Negation, the `-` operator, on a bool", program="backward|grad"),
    error("PyTorch's own gradient has the wrong shape", "returned an invalid gradient"),
    error("PyTorch's isin and kron want their operands in one piece",
          "view size is not compatible", line=r"isin\(|kron\("),
    error("PyTorch fails where there are no elements",
          r"non-empty TensorList|of 0 elements|setStorage|stride 1|index 0 out of range|"
          r"MKL FFT error|numel\(\) == 0|non-zero", "^(no error|IndexError)", program=_EMPTY),
    error("PyTorch takes an empty view that was written for a leaf", "leaf Variable",
          program=_EMPTY),
    error("PyTorch's index_add keeps its source, for its shape", "modified by an inplace operation",
          program="index_add"),
    error("the gradient of eigenvectors depends on their phase, which PyTorch notices or not",
          "specified up to multiplication"),
    # -- what it does not check
    taken("PyTorch does not reach its kernels, and refuses nothing, where there are no elements",
          "not implemented for", program=_EMPTY),
    taken("PyTorch does not reach its kernels where there is one number", "not implemented for",
          line="cum(max|min|prod|sum)|sort|mode|kthvalue"),
    taken("PyTorch checks no dtypes and dimensions where there are no elements",
          "expected scalar type|Dimension out of range|expanded size", program=_EMPTY),
    taken("PyTorch does not check what logical operations write",
          "leaf Variable|A view was created in|function that returns multiple views",
          line=r"logical_\w+_\("),
    taken("PyTorch's vmap of what has no elements is no batch", "inplace arithmetic",
          line=r"func\.", program=_EMPTY),
    taken("PyTorch's vmap checks no dtypes",
          "same dtype|expected scalar type|(type .* should|dtypes must) be the same", line="vmap"),
    taken("PyTorch checks no dtype of a bias where there is no batch", "bias type",
          line="conv_transpose"),
    taken("PyTorch takes offsets that go back, and adds up what it finds", line="embedding_bag"),
    taken("PyTorch takes pivots that are none", line="lu_unpack|lu_solve"),
    taken("PyTorch does not check index_fill_ of an expanded tensor", "more than one element",
          line="index_fill_"),
    taken("PyTorch has a way around its own check of the dtype", "not implemented for 'Half'",
          line="histogram|cdist"),
    taken("PyTorch copies small operands of inner", "modified by an inplace operation",
          program=r"inner\("),
    taken("PyTorch's dot of masks works for some strides", "\"dot\" not implemented for 'Bool'",
          line="tensordot|inner|matmul|@"),
    # -- other numbers
    {"why": "PyTorch reads what it has written, where an operand shares memory with the target",
     "kinds": ("values",), "line": r"(t\d+)\.\w+_\(.*\b\1\b"},
    {"why": "boundaries that are not sorted", "kinds": ("values",),
     "line": "bucketize|searchsorted"},
    {"why": "PyTorch has no order for NaN in mode", "kinds": ("values",), "line": r"mode\(",
     "program": "nan"},
    values("pivots that are none", "lu_solve|lu_unpack"),
    values("PyTorch's tangent of solve takes the factors of the matrix for constants",
           r"linalg\.solve[\s\S]*(jvp|jacfwd)"),
    values("PyTorch's second derivatives of householder_product are not those of differences",
           r"(householder_product|orgqr)[\s\S]*(jvp|jacfwd|hessian|create_graph)"),
    values("PyTorch's second derivative of logcumsumexp is NaN for complex numbers",
           "complex[\\s\\S]*logcumsumexp", theirs="nan"),
    values("PyTorch's second derivative of logcumsumexp leaves out gradients that are 0",
           r"logcumsumexp[\s\S]*(create_graph|func\.)"),
    {"why": "PyTorch's median along a dimension reads beyond what is expanded",
     "kinds": ("values",), "line": r"median\(-?\d", "program": "expand|broadcast"},
    taken("PyTorch's vmap checks no dimensions of addmm and its kind",
          r"vector \+ matrix @ vector|The expanded size", line="vmap",
          program="addm[mv]|addr|addbmm"),
    taken("here out= does not change the shape of what a transform is taken of",
          "must match the size of tensor b", line=r"func\.", program="out="),
    {"why": "PyTorch's prod and softmax of one number have no history under transforms",
     "kinds": ("requires_grad",), "theirs": "False", "program": r"(softmax|prod\()[\s\S]*func\."},
    values("PyTorch's tangent of scatter_reduce by products is 0",
           r"scatter_reduce_?\(.*'prod'[\s\S]*(jvp|jacfwd|hessian)"),
    values("PyTorch's vmap of max() shares the gradient otherwise than max() does",
           r"(max|min|median)\(\)[\s\S]*vmap"),
    values("PyTorch's second derivative of a power is 0 where the exponent is 0",
           r"\b0\.0\b[\s\S]*(pow|\*\*)[\s\S]*(create_graph|func\.)"),
    values("PyTorch's gradient of select_scatter under vmap counts twice",
           r"select_scatter[\s\S]*vmap"),
    values("PyTorch's gradient of cdist multiplies infinity by 0",
           "cdist|pdist|pairwise_distance", theirs="nan"),
    values("PyTorch's second derivatives where a variance is 0 are NaN", "std|var|norm",
           theirs="nan"),
    values("PyTorch's polygamma of infinity is NaN", "polygamma|digamma|lgamma", theirs="nan"),
    values("PyTorch's shifted Chebyshev and Legendre polynomials of NaN are 1",
           r"nan[\s\S]*(shifted_chebyshev|legendre_polynomial_p)"),
    values("PyTorch's tangent of the tangent of logdet takes its factors for constants",
           r"logdet[\s\S]*jvp[\s\S]*(jvp|jacfwd)"),
    {"why": "PyTorch's solve_triangular of a real matrix and complex numbers drops imaginary parts",
     "kinds": ("dtype",), "theirs": "float", "ours": "complex", "line": "solve_triangular"},
    error("PyTorch's jacobian of what has no elements", "stack expects a non-empty TensorList",
          line=r"functional\.jacobian"),
    {"why": "what has no elements has no history in PyTorch's transforms",
     "kinds": ("requires_grad",), "theirs": "False", "program": rf"(?s)({_EMPTY}).*func\."},
    values("PyTorch's second derivative of softplus at its threshold is 0",
           r"softplus[\s\S]*(create_graph|func\.)"),
    values("PyTorch's solve_triangular of a real matrix and complex numbers drops imaginary parts",
           "solve_triangular"),
    values("where grids that are not finite are sampled", r"(inf|nan)[\s\S]*grid_sample"),
    values("derivatives of qr of dependent columns", r"qr\([\s\S]*(grad|backward|func\.)",
           theirs=r"nan|inf|e\+|\d{5,}\."),
    values("PyTorch's tangent of prelu leaves out weights that are not finite",
           r"inf[\s\S]*prelu[\s\S]*jvp"),
    {"why": "PyTorch's rank by lstsq is that of another routine", "kinds": ("values",),
     "line": r"lstsq.*rank"},
    values("PyTorch has six digits of airy_ai below -2", "airy_ai"),
    values("which infinities of a Fourier transform meet is a matter of the order",
           r"fft\.[\s\S]*|stft", theirs="inf|nan"),
    values("PyTorch squares small integers in the gradient of atan2, and they overflow",
           r"(int8|int16|True|False)[\s\S]*atan2"),
    {"why": "pivots that are none", "kinds": ("shape",), "line": "lu_unpack"},
    values("the signs and phases of singular vectors and eigenvectors are not defined",
           r"svd\(|eigh?\(|pca_lowrank"),
    values("powers of a complex zero, and on the branch cut", r"0j[\s\S]*(pow|\*\*)"),
    values("infinity times 0, in whichever order products are summed",
           r"inf[\s\S]*(bilinear|einsum|@|matmul|mm\(|mv\(|linear|conv|dot|prod\()",
           theirs="nan|inf"),
    values("PyTorch's cdist with p=inf leaves NaN out", r"nan[\s\S]*cdist"),
    {"why": "PyTorch's nodes without a derivative stop gradients beside them, too",
     "kinds": ("gradient is None", "gradient"), "program": "bernoulli|//|floor_divide|histogram"},
    {"why": "PyTorch takes the tangent of a single number for double", "kinds": ("dtype",),
     "theirs": "float64|complex128", "ours": "float32|float16|complex64",
     "program": r"jvp|jacfwd|hessian"},
]  # fmt: skip
