"""Differences that are known: what is meant to be different, and what PyTorch gets wrong.

Each entry says which differences it covers, and why. Differences of one line are looked up by that
line. An entry with a pattern for the program is looked up once the program has been reduced to a
few lines, all of which matter.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ._comparing import Difference
from ._known_wrong import EMPTY, SIGNS, WRONG

# In a reason.
_OF_DERIVATIVES = re.compile("gradient|derivative|tangent|vmap|(?<!Fourier )transform")
_DERIVES = re.compile(r"autograd|func\.|backward|\.grad\b")


@dataclass
class Known:
    """A difference with a reason."""

    why: str
    kinds: tuple[str, ...] = ()  # of the difference; any if empty
    line: str = ""  # patterns: the line where it shows,
    program: str = ""  # the whole program, reduced,
    theirs: str = ""  # what PyTorch gives or says,
    ours: str = ""  # what we do,
    what: str = ""  # and the expression that differs
    patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("line", "program", "theirs", "ours", "what"):
            if getattr(self, name):
                self.patterns[name] = re.compile(getattr(self, name))

    def covers(self, found: Difference, program: str, is_whole: bool) -> bool:
        if self.kinds and found.kind not in self.kinds:
            return False
        if found.kind == "values" and _OF_DERIVATIVES.search(self.why) and not (
            _DERIVES.search(program)
        ):
            return False  # the values of a function are not its derivatives
        if "program" in self.patterns and not is_whole:
            return False
        return all(
            pattern.search(program if name == "program" else getattr(found, name))
            for name, pattern in self.patterns.items()
        )


TWO_REASONS = "wrong for two reasons, of which either may be told"
NO_COMPLEX32 = "there is no complex32, as documented"
CONJ = "conj() computes its result, as documented"
LAYOUT = "how such results lie in memory, as documented"
_LAYOUT = (
    r"qr\(|svd|eigh?\(|cholesky|solve|inv\(|lu_factor|linalg|_polynomial_|einsum|fft|rot90|"
    r"permute|\.T\b|transpose|\.mT|\.t_?\(|flip|movedim|expand|swap(axes|dims)|moveaxis"
)
_SINGULAR = "singular|not positive-definite|not have full rank|failed to converge"
_FLAT = r"\b[tcx]\w*\.(reshape|flatten|ravel|contiguous)\("
_WRITE = r"(_\(|\] [-+*/]*= |\w [-+*/]= |out=)"
CAST = "a value that was cast is saved as a copy, which nobody can write"
NOT_IN_INTEGERS = "integers never require grad, as documented"
NO_MEMORY = "whether elements of a derivative share memory is not defined"
NO_HISTORY = "a derivative that does not depend on anything has no history here"
_CONJ = r"(?<!resolve_)conj\(|\.m?H\b|adjoint"
# Errors that were not meant for a user, and are never told for another reason.
LEAKS = re.compile(
    r"^(AttributeError|KeyError|UnboundLocalError|ZeroDivisionError|AssertionError|OverflowError)"
    r"|array|unpack|operands could not|object has no attribute|NoneType"
)
ERROR, VALUES = ("error",), ("values", "gradient")

# What is meant, and what does not matter. The reasons are in docs/differences.md, or here.
MEANT = [
    Known(TWO_REASONS, ERROR, theirs="Error: ",
          ours="leaf Variable|not implemented for|Boolean value of Tensor|is not supported"),
    Known(TWO_REASONS, ERROR, theirs="^IndexError", ours="does not support complex"),
    Known(TWO_REASONS, ERROR, theirs="^IndexError", ours="out of bounds", line="index_(add|copy)"),
    Known(TWO_REASONS, ERROR, theirs="^AssertionError", ours="^(Runtime|Value|Type)Error",
          line=r"func\."),
    Known("whether places of elements share memory is not defined", ("version",),
          program=r"where\([^,]+\)|nonzero|unravel_index"),
    Known(TWO_REASONS, ERROR, theirs="^(ValueError|RuntimeError)", line="einsum",
          ours="^(ValueError|RuntimeError)"),
    Known(TWO_REASONS, ERROR, theirs="^(ValueError|RuntimeError)", program="einsum",
          line=r"func\.", ours="^(ValueError|RuntimeError)"),
    Known(TWO_REASONS, ERROR, theirs="^NotImplementedError", ours="_LinAlgError"),
    Known(TWO_REASONS, ERROR, theirs="leaf Variable|view size is not", ours="^(Index|Type)Error"),
    Known(TWO_REASONS, ERROR, theirs="^(IndexError|RuntimeError)", line="lu_unpack",
          ours="^(IndexError|RuntimeError)"),
    Known("the write of an integer view is not recorded", ERROR, ours="^no error",
          theirs="function that returns multiple views|created in no_grad",
          program=r"dtype=torch\.(u?int|bool)|tensor\([\[]*(-?\d+[,\]]|True|False)"),
    Known(TWO_REASONS, ERROR, ours="Error: ",
          theirs="does not support automatic differentiation|values to unpack|"
                 "data-dependent control flow"),
    Known(TWO_REASONS, ERROR, theirs="^(ValueError|RuntimeError)", line="embedding_bag|_norm",
          ours="^(ValueError|RuntimeError)"),
    Known(TWO_REASONS, ERROR, line=r"\] [-+*/]*= ",
          theirs="^(IndexError|RuntimeError)", ours="^(IndexError|RuntimeError)"),
    Known(NO_COMPLEX32, theirs="complex32|ComplexHalf"),
    Known(NO_COMPLEX32, ERROR, ours="complex32"),
    Known(NO_COMPLEX32, ERROR, theirs="^no error", ours="complex_cpu.*Half"),
    Known(NO_COMPLEX32, ("dtype",), theirs="float16", ours="float32", program="float16|half"),
    Known(CONJ, ERROR, theirs="conjugate|a view of a leaf", ours="^no error",
          program=_CONJ),
    Known(CONJ, ERROR, theirs="view size is not", ours="^no error", line=r"\.view\(",
          program=_CONJ),
    Known(CONJ, ("values", "version", "requires_grad"), program=rf"(?s)({_CONJ}).*{_WRITE}"),
    Known(CONJ, ("values",), line=r"_is_view|output_nr|is_contiguous", program=_CONJ),
    Known(CAST, ERROR, theirs="modified by an inplace operation", ours="^no error",
          program="float16|half|float32|int|bool|complex"),
    Known(CAST, ERROR, ours="^no error",
          theirs=r"by an inplace operation: \[(torch\.|CPU)(Long|Int|Short|Char|Byte|Bool)"),
    Known(CAST, ERROR, ours="^no error", program="float64|complex128",
          theirs=r"by an inplace operation: \[(torch\.|CPU)(Float|Half|ComplexFloat)"),
    Known("vmap expands what is the same for all entries", ERROR, theirs="^no error",
          program=r"func\.", ours="more than one element of the written-to tensor"),
    Known("masked_select and take keep places only, not the tensor they select from", ERROR,
          theirs="modified by an inplace operation", ours="^no error",
          program=r"masked_select|take\("),
    Known(NOT_IN_INTEGERS, ("requires_grad",), theirs="^True, (u?int|bool)", ours="^False"),
    Known(NOT_IN_INTEGERS, ERROR, theirs="^RuntimeError: Autograd not support dtype",
          ours="^no error"),
    Known(NOT_IN_INTEGERS, ERROR, theirs="function that returns multiple views", ours="^no error",
          line=r"\.(eq|ne|lt|le|gt|ge)_\("),
    Known("the sign of 0 that is the least of 0 and -0", ("values",), line="signbit|copysign",
          program="(max|min)imum|fm(ax|in)|clamp|am(ax|in)"),
    Known("the sign of a remainder that is 0", ("values",), line="signbit|copysign|atan2",
          program=r"%|remainder"),
    Known(NO_MEMORY, ERROR, ours="^no error", program=r"func\.|autograd\.grad|\.grad\b",
          theirs="more than one element of the written-to tensor|function that returns multiple"),
    Known("an inference tensor is saved as a copy where its dtype or shape is changed first",
          ERROR, theirs="Inference tensors cannot be saved for backward", ours="^no error"),
    Known("indices and masks belong to the node, as documented", ERROR,
          theirs="Trying to backward through the graph a second time", ours="^no error"),
    Known(NO_HISTORY, ERROR, theirs="^no error", ours="element 0 of tensors does not require grad",
          program=r"autograd\.grad|func\.|checkpoint"),
    Known("a product of no reflections is constant", ("requires_grad",), theirs="^True",
          ours="^False", program=rf"(?s)({EMPTY}).*(orgqr|householder_product)\("),
    Known(NO_HISTORY, ("type",), theirs="^Tensor", ours="^(int|NoneType)",
          program=r"autograd\.grad|func\."),
    Known("whether a gradient is a view of what was given for it is not defined",
          ("version",), program=r"vjp\("),
    Known("whether a result is the very tensor that was given is not defined",
          ("gradient is None",), program=r"func\."),
    Known("a hook on a view without a history would never be called", ERROR,
          line="register_hook", ours="cannot register a hook on a view"),
    Known("a hook is called with gradients only, never with None", ERROR,
          theirs="NoneType", ours="^no error", program="register_hook"),
    Known("a recurrent layer is one node, as documented", ERROR, theirs="^no error",
          ours="modified by an inplace operation", program=r"(lstm|gru|rnn_\w+)(_cell)?\("),
    Known("slices with a negative step are views, as documented", ERROR,
          theirs="step must be greater than zero", ours="^no error"),
    Known("results of vmap have memory of their own, as documented", ("values",), line=_WRITE,
          program=r"func\.vmap"),
    Known("the rule of i1 does not need its result", ERROR, ours="^no error",
          theirs="modified by an inplace operation.*SpecialI1"),
    Known("the statistics that are returned are computed for the caller, not kept", ERROR,
          theirs="modified by an inplace operation", ours="^no error",
          program=r"native_(layer|group)_norm\("),
    Known("batch_norm keeps running statistics only where it reads them", ERROR,
          theirs="modified by an inplace operation", ours="^no error", program=r"batch_norm\("),
    Known(LAYOUT, ERROR, line=r"\.view(_as)?\(", program=_LAYOUT,
          theirs=r"^(RuntimeError: view size is not|no error|.*stride\(-1\) must be 1)",
          ours=r"^(RuntimeError: view size is not|no error|.*stride\(-1\) must be 1)"),
    Known(LAYOUT, ("values",), line=r"as_strided|is_contiguous|\.stride\(", program=_LAYOUT),
    Known(LAYOUT, ("values", "version"), program=rf"(?s)({_LAYOUT}|func\.).*{_FLAT}.*{_WRITE}"),
    Known(LAYOUT, ("requires_grad", "inference"), program=rf"(?s)({_LAYOUT}).*{_FLAT}"),
    Known(LAYOUT, ("values",), line="manual_seed", program=_LAYOUT),
    Known(LAYOUT, ERROR, theirs=r"stride\(-1\) must be 1", ours="^no error", line=r"\.view\(",
          program=r"diagonal\(|\b0\b"),
    Known("a view of the bits of a tensor is not written under recording, as documented", ERROR,
          theirs="^no error", ours="a view of the bits of a tensor"),
    Known("a write through .data is seen by no rule, as documented",
          ("values", "gradient", "error"), program=r"\.data\b[\s\S]*(grad|backward)"),
    Known("a function that a checkpoint runs again sees what was written since", VALUES,
          program=r"checkpoint[\s\S]*(\] [-+*/]*= |\w_\()[\s\S]*(grad|backward)"),
    Known("whether a result of a layer is a view, or one of several outputs", ("values",),
          line=r"_is_view|output_nr", program=r"(gru|lstm|rnn_\w+)(_cell)?\(|view\(torch"),
    Known("which views in inference mode PyTorch makes inference tensors, by its own kernels",
          ("inference", "requires_grad"),
          program=r"inference_mode[\s\S]*(view\((dtype=)?torch|unsafe_(split|chunk)|conj|adjoint|\.m?H\b)"),
    Known("an inference tensor can be written outside where it was detached", ERROR,
          theirs="^no error", ours="Inplace update to inference tensor",
          program=r"detach|\.data\b"),
    Known("transforms take inference tensors", ERROR, ours="^no error",
          theirs="requires_grad=True on inference tensor"),
    Known("as_strided_scatter of what is not in one piece", ERROR, theirs="^no error",
          ours="only supported for contiguous inputs"),
    Known("tangents that are infinite where nothing is chosen are multiplied by 0", VALUES,
          ours="nan", program=r"inf[\s\S]*(amax|amin|max|min|norm)[\s\S]*(jvp|jacfwd|hessian)"),
    Known("whether a matrix is singular, or positive definite, to the last digit", ERROR,
          theirs=f"^no error|{_SINGULAR}", ours=f"^no error|{_SINGULAR}"),
    Known("whether a matrix is singular, or positive definite, to the last digit", ("values",),
          line=r"lu\(|lu_factor|_ex\(|matrix_rank", theirs=r"^[\[\], \d]+$"),
    Known("a tensor that requires grad only later is a constant for what was recorded before",
          ("gradient is None", "requires_grad"), program=r"\w\.requires_grad_\([^)]*\)\n"),
    Known("whether the result of a transform is a view is not defined", ("values",),
          line=r"_is_view", program=r"func(tional)?\."),
    Known(NO_MEMORY, ERROR, ours="^no error", theirs="a view of a leaf", program=r"func\."),
    Known(NO_MEMORY, ("values",), line=_WRITE,
          program=r"func\.(grad|vjp)|autograd\.grad|\.grad\b"),
    Known("what is not finite times a factor of 0", VALUES, ours="nan",
          program=r"(inf|nan)[\s\S]*(alpha|value)=0\b"),
    Known(CONJ, ("requires_grad",), theirs="^True, complex", ours="^False",
          program=rf"(no_grad|set_grad_enabled)[\s\S]*({_CONJ})"),
    Known("whether a derivative that is 0 by its rule has a history", ("requires_grad",),
          theirs="^False", ours="^True", program=r"func\.\w*(grad|jvp|jac|hess)"),
    Known("the logarithm of 0 rises on both sides of it, whichever sign 0 has", VALUES,
          program=r"-0\.0[\s\S]*logit"),
    Known("roots of -0 in half precision", ("values",), program=r"float16[\s\S]*\*\* -?0\.5"),
    Known("a view of no elements does not know where it begins, as documented", ("values",),
          program=rf"{EMPTY}[\s\S]*as_strided"),
    Known("a view of no elements does not know where it begins, as documented", ERROR,
          theirs=r"setStorage: .* storage offset", ours="^no error",
          line=r"\[\d+:[^\]]*\]\.as_strided\("),
    Known("a view of bits may begin at any element", ERROR, ours="^no error",
          theirs=r"storage_offset\(\) must be divisible", line=r"\.view\(torch"),
    Known("the rule of householder_product does not need its result", ERROR, ours="^no error",
          theirs="modified by an inplace operation.*LinalgHouseholderProduct"),
    Known("weights that do not have the shape they weigh are refused", ERROR, theirs="^no error",
          ours="if weight tensor is provided", line="histogram"),
    Known("tangents of what as_strided shows beside its input, as documented", VALUES,
          program=r"as_strided[\s\S]*|as_strided", line=r"func\."),
    Known("the gradient of tanh where it is infinite, as documented", VALUES, ours="nan",
          program=r"tanh"),
    Known("out= of inputs that require grad is refused, as documented", ERROR, theirs="^no error",
          ours="functions with out=", line="out="),
    Known("a recurrent layer refuses what is no sequence, as documented", ERROR,
          theirs="^no error", ours="at least 2 dimensions in RNN|batch_sizes must not"),
    Known("rows that are short enough are not written", ("version",), line="max_norm"),
    Known("the gradient of a determinant that is zero, as documented", VALUES,
          program=r"det\([\s\S]*(grad|backward)"),
    Known("which of equal elements is chosen is not defined", ("values",), theirs=r"^[\[\], \d]+$",
          line=r"kthvalue|topk|median|sort|mode|unique|max\(|min\("),
    Known("which of equal elements is chosen is not defined", VALUES,
          program=r"(kthvalue|topk|median|quantile|sort|mode|max|min)\([\s\S]*(grad|backward|func\.)"),
    Known("the sign of NaN", ("values",), line=r"signbit|copysign|view\(torch|atan2|angle",
          program="nan|sqrt|log|/"),
    Known(TWO_REASONS, ERROR, theirs="returns multiple views|Inference tensors cannot be saved|"
          "modified by an inplace operation", ours="^IndexError"),
    Known(TWO_REASONS, ERROR, theirs="^NotImplementedError", ours="^IndexError",
          program="index_reduce"),
    Known(TWO_REASONS, ERROR, theirs="^(ValueError|RuntimeError)", program="einsum|nll_loss",
          line=r"functional\.|func\.", ours="^(ValueError|RuntimeError)"),
    Known(TWO_REASONS, ERROR, theirs="^RuntimeError", ours="A must be square", line="lobpcg"),
    Known(TWO_REASONS, ERROR, theirs="^AttributeError", ours="derivative for aten::histogram"),
    Known(CONJ, ("values",), line=r"_is_view", program=r"ihfft"),
    Known(CONJ, ERROR, theirs="unresolved conjugated", ours="^no error", program=r"fft\."),
    Known(LAYOUT, ERROR, line="view_as_complex", program=_LAYOUT,
          theirs="^no error|stride 1", ours="^no error|stride 1"),
    Known(LAYOUT, ERROR, line=r"\.view\(-1\)", theirs="^no error|view size is not",
          ours="^no error|view size is not", program=r"geqrf|func\.grad"),
    Known(LAYOUT, ERROR, line=r"\.view\(torch", program=EMPTY, theirs="^no error",
          ours="must be divisible"),
    Known(LAYOUT, ("values",), line="as_strided", program=r"unique\w*\(.*dim="),
    Known(LAYOUT, ("values",), line="is_contiguous|manual_seed",
          program=r"argwhere|geqrf|jacfwd\(torch\.func\.jacrev"),
    Known("whether a tangent shares memory with what was given for it is not defined", ERROR,
          theirs="^no error", ours="modified by an inplace operation",
          program=r"jvp\(.*\n[\s\S]*(backward|autograd\.grad)"),
    Known("a rule that does not need a value lets it be written", ERROR, ours="^no error",
          theirs="modified by an inplace operation",
          program=r"func\.jvp|ormqr|orgqr|householder_product"),
    Known("a rule that needs a value does not let it be written", ERROR, theirs="^no error",
          ours="modified by an inplace operation",
          program=r"ndtr|kron\(|lstm_cell|polar\(|func\.vmap"),
    Known("a hook of a result is called once more by a rule that is written with that result",
          VALUES, program=r"register_hook[\s\S]*create_graph[\s\S]*backward"),
    Known("how such floats are cast to integers is not defined", ("values",),
          line=r"nansum\(.*dtype=torch\.u?int", program="inf"),
    Known("a cast of numbers that lie at an integer but for rounding", ("values",),
          line=r"\.to\(torch\.u?int\w+\)$", program=r"cdist|norm"),
    Known("a remainder by a number that is the same but for rounding", ("values",),
          line=r"fmod|remainder", program=r"norm\("),
    Known("roots of -0 and -inf in half precision, and by a tensor", VALUES,
          program=r"(float16[\s\S]*pow_?\(|pow_?\(t\d+\))", theirs="inf"),
    Known("bits of floats that are written as others", ("values",),
          program=r"view\(torch\.float16"),
    Known("bits of floats that differ in the last digit", ("values",), program="linalg",
          line=r"\.view\(torch\.u?int8\)"),
    Known("floats too small for their dtype", ("values",), theirs=r"e-0[5-8]", line=r"erf_\(",
          program="float16"),
    Known("a sum of what is not finite is so by the order in which it is summed", VALUES,
          theirs="inf|nan", ours="inf|nan", program=r"(layer|batch|group|instance)_norm"),
    Known("second derivatives of the distance of a tensor from itself, which cancel", VALUES,
          program=r"triplet_margin_with_distance_loss\(x, c\w+, (t\d+)"
                  r"[\s\S]*jacrev\(f\)\(\1\)"),
    Known("hypot has no derivative at 0", VALUES, ours="nan", program=r"\b0\.0\b[\s\S]*hypot\("),
    Known("factors of a product that has not full rank", VALUES, ours="nan|e\\+1\\d",
          program=r"(bmm|@|mm)[\s\S]*(lu|lu_factor(_ex)?|inv_ex)\("),
    Known("an infinite gradient times a derivative of 0", VALUES, ours="nan",
          program=r"inf[\s\S]*sinc\("),
    Known("an infinite gradient times a derivative of 0", VALUES, theirs="nan|inf", ours="",
          program=r"(c?elu|sinc|prod)\([\s\S]*(/|pow|inf)[\s\S]*(backward|autograd\.grad)"),
    Known("an infinite gradient times a derivative of 0", VALUES, ours="nan",
          program=r"(sinc|prelu|logcumsumexp|cumprod|prod)\([\s\S]*"
                  r"(/|pow|inf|lgamma|hypot|acosh?\(|asin\(|addcdiv)"),
    Known("factors of a product that has not full rank", VALUES, theirs="nan",
          program=r"(bmm|@|mm)[\s\S]*(lu|lu_factor(_ex)?|inv_ex)\("),
    Known("the derivative of tanh has few digits where the result is 1 but for rounding", VALUES,
          program=r"tanh\([\s\S]*exp", theirs=r"0\.00|e-"),
    Known("factors of a singular matrix", VALUES, theirs="", ours="nan|e\\+1\\d",
          program=r"(lu|lu_factor(_ex)?|inv_ex)\("),
    Known("whether a matrix is singular to the last digit", ERROR, program=r"lu_factor",
          theirs="is zero and using it|^no error", ours="is zero and using it|^no error"),
    Known(NO_HISTORY, ("requires_grad",), theirs="^True", ours="^False",
          program=rf"(?s)({EMPTY}).*func\."),
    Known(NO_HISTORY, ERROR, theirs="^no error", program=r"func\.",
          ours="doesn't require gradient|does not require grad"),
    Known("a gradient has the shape that a tensor has, PyTorch's the one before a change in place",
          ("shape",), program=r"no_grad\(\): t\w+\.(un)?squeeze_\("),
    Known("a leaf takes no gradient of the shape that it had before a change in place", ERROR,
          theirs="^no error", ours="cannot be added to that of a leaf"),
    Known("logical operations that write are not recorded in PyTorch", VALUES,
          program=r"logical_\w+_\([\s\S]*func\."),
    Known("copies of tangents have memory of their own, as documented", ("version",),
          program=r"_copy\([\s\S]*func\.jvp"),
    Known("copies of tangents have memory of their own, as documented", ("values",),
          program=r"_copy\([\s\S]*func\.jvp", line=_WRITE),
    Known("a mask is promoted, where PyTorch refuses to subtract it", ERROR,
          theirs="with a bool tensor is not supported", ours="^no error"),
]  # fmt: skip
# Results that are not defined, or whose values are wrong in PyTorch: its differences tell nothing.
# Our derivatives must then be the differences of our own values.
UNDEFINED = {
    "derivatives of qr of dependent columns",
    "factors of a product that has not full rank",
    "hypot has no derivative at 0",
    "PyTorch's solve_triangular of a real matrix and complex numbers drops imaginary parts",
    SIGNS,
}
KNOWN = [*MEANT, *(Known(**entry) for entry in WRONG)]


def known(found: Difference, lines: list[str], is_whole: bool) -> str | None:
    """Why a difference is none to report; None if there is no reason."""
    both_fail = found.kind == "error" and "no error" not in (found.theirs, found.ours)
    if found.misfit and both_fail and LEAKS.search(found.ours) is None:
        return TWO_REASONS
    program = "\n".join(lines)
    return next((k.why for k in KNOWN if k.covers(found, program, is_whole)), None)
