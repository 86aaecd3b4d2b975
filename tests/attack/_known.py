"""Differences that are known: what PyTorch gets wrong, and what is meant to be different.

Each entry says which differences it covers, and why. Differences of one line are looked up by that
line; those of gradients by the whole program, once it has been reduced to a few lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ._comparing import Difference


@dataclass
class Known:
    """A difference with a reason."""

    why: str
    kinds: tuple[str, ...] = ()  # of the difference; any if empty
    line: str = ""  # patterns: the line where it shows,
    program: str = ""  # the whole program, reduced,
    theirs: str = ""  # what PyTorch gives or says,
    ours: str = ""  # and what we do
    patterns: dict[str, re.Pattern[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("line", "program", "theirs", "ours"):
            if getattr(self, name):
                self.patterns[name] = re.compile(getattr(self, name))

    def covers(self, found: Difference, program: str, is_whole: bool) -> bool:
        if self.kinds and found.kind not in self.kinds:
            return False
        if "program" in self.patterns and not is_whole:
            return False
        texts = {"line": found.line, "program": program, "theirs": found.theirs, "ours": found.ours}
        return all(pattern.search(texts[name]) for name, pattern in self.patterns.items())


_NO_WRITES = r"(?s)\A(?!.*((?<!requires_grad)_\(|\] [-+*/]*= |out=|[-+*/]= ))"
_EMPTY = r"(zeros\(|shape|expand|view|reshape)[^)]*\b0\b|:0\]|\[\d:0"

KNOWN = [
    # -- what is meant to be different, and what does not matter
    Known("wrong for two reasons, of which either may be told", ("error",), theirs="Error: ",
          ours="leaf Variable|not implemented for|Boolean value of Tensor|is not supported"),
    Known("PyTorch has no kernel for the dtype", ("error",),
          theirs="not implemented for|is not supported for|not supported on|does not support "
                 "(complex|bool|half)|only supported for|doesn't support tensors of type",
          ours="^no error"),
    Known("PyTorch has no such derivative", ("error",), ours="^no error",
          theirs="does not support automatic differentiation|derivative for .* is not implemented|"
                 "it has not been implemented yet|is not implemented for complex|not differentiable"),
    Known("there is no complex32, as documented", theirs="complex32|ComplexHalf"),
    Known("there is no complex32, as documented", ("error",), ours="complex32"),
    Known("an inference tensor is saved as a copy where its dtype or shape is changed first",
          ("error",), theirs="Inference tensors cannot be saved for backward", ours="^no error"),
    Known("a value that was cast is saved as a copy, which nobody can write", ("error",),
          theirs="modified by an inplace operation", ours="^no error",
          program=r"(float16|half|float32|int|bool|complex)"),
    Known("conj() computes its result, as documented", ("error",),
          theirs="unresolved conjugated|conjugate|a view of a leaf", ours="^no error",
          program=r"conj\(|\.m?H\b|adjoint"),
    Known("conj() computes its result, as documented", ("values", "version"),
          program=r"(conj\(|\.m?H\b|adjoint)"),
    Known("a recurrent layer is one node, as documented", ("error",), theirs="^no error",
          ours="modified by an inplace operation.*(Lstm|Gru|Rnn)Layer"),
    Known("indices and masks belong to the node, and are not saved values", ("error",),
          theirs="Trying to backward through the graph a second time", ours="^no error"),
    Known("there is no complex32, as documented", ("dtype",), theirs="float16", ours="float32",
          program=r"float16|half"),
    Known("wrong for two reasons, of which either may be told", ("error",), line=r"\] [-+*/]*= ",
          theirs="^(IndexError|RuntimeError)", ours="^(IndexError|RuntimeError)"),
    Known("memory of out= that does not have the right shape: PyTorch keeps it, as deprecated",
          program="out="),
    Known("the gradient of a determinant that is zero, as documented", ("gradient", "values"),
          program=r"det\(|slogdet"),
    Known("wrong for two reasons, of which either may be told", ("error",), ours="Error: ",
          theirs="does not support automatic differentiation|values to unpack"),
    Known("a derivative that does not depend on anything has no history here", ("error",),
          theirs="^no error", ours="element 0 of tensors does not require grad",
          program=r"autograd\.grad|func\.|checkpoint"),
    Known("a derivative that does not depend on anything has no history here", ("type",),
          theirs="^Tensor", ours="^(int|NoneType)", program=r"autograd\.grad|func\."),
    Known("a value that was cast is saved as a copy, which nobody can write", ("error",),
          theirs=r"modified by an inplace operation: \[(torch\.|CPU)(Long|Int|Short|Char|Byte|Bool)",
          ours="^no error"),
    Known("a hook on a view without a history would never be called", ("error",),
          line="register_hook", ours="cannot register a hook on a view"),
    Known("rows that are short enough are not written", ("version",), line="max_norm"),
    # -- what PyTorch gets wrong
    Known("PyTorch reads what it has written, where an operand shares memory with the target",
          ("values",), line=r"(t\d+)\.\w+_\(.*\b\1\b"),
    Known("boundaries that are not sorted", ("values",), line="bucketize|searchsorted"),
    Known("PyTorch's isin and kron want their operands in one piece", ("error",),
          line=r"isin\(|kron\(", theirs="view size is not compatible"),
    Known("which of equal elements is chosen is not defined", ("values",),
          line=r"kthvalue|topk|median|sort|mode|unique|max\(|min\("),
    Known("PyTorch takes pivots that are none", ("error",), line="lu_unpack|lu_solve",
          theirs="^no error"),
    Known("PyTorch's vmap of max() shares the gradient otherwise than max() does",
          ("values", "gradient"), program=r"(max|min|median)\(\)[\s\S]*vmap"),
    Known("PyTorch's second derivative of a power is 0 where the exponent is 0", ("gradient", "values"),
          program=r"(pow|\*\*)[\s\S]*grad"),
    Known("PyTorch's gradient of select_scatter under vmap counts twice", ("gradient", "values"),
          program=r"select_scatter[\s\S]*vmap"),
    Known("PyTorch's own gradient has the wrong shape", ("error",), ours="^no error",
          theirs="returned an invalid gradient"),
    Known("PyTorch does not reach its kernels where there is one number", ("error",),
          theirs="^no error", ours="not implemented for", line=r"cum(max|min|prod|sum)|sort|mode"),
    Known("PyTorch's second derivatives of householder_product are not those of differences",
          ("values", "gradient"), program=r"(householder_product|ormqr|orgqr)[\s\S]*(jvp|jacfwd|grad)"),
    Known("PyTorch's second derivative of logcumsumexp is NaN for complex numbers",
          ("gradient", "values"), program="logcumsumexp", theirs="nan"),
    Known("PyTorch checks no dtypes and dimensions where there are no elements", ("error",),
          theirs="^no error", ours="expected scalar type|Dimension out of range|expanded size", program=_EMPTY),
    Known("PyTorch's transforms lack a rule, or fail inside", ("error",), ours="^no error",
          theirs="^(RuntimeError|NotImplementedError|IndexError)",
          line=r"func\.(vmap|jac|hess)|checkpoint"),
    Known("PyTorch fails where a complex gradient meets a real tensor", ("error",),
          theirs="isFloatingType|isDifferentiableType", ours="^no error"),
    Known("PyTorch negates a mask in a gradient, which it refuses", ("error",),
          theirs="Negation, the `-` operator, on a bool", ours="^no error", program="backward|grad"),
    Known("PyTorch takes offsets that go back, and adds up what it finds", ("error",),
          line="embedding_bag", theirs="^no error"),
    Known("PyTorch has no order for NaN in mode", ("values",), line=r"mode\(", program="nan"),
    Known("PyTorch writes over what its own nodes have saved", ("error",), program=_NO_WRITES,
          theirs="modified by an inplace operation", ours="^no error"),
    Known("PyTorch does not reach its kernels, and refuses nothing, where there are no elements",
          ("error",), theirs="^no error", ours="not implemented for", program=_EMPTY),
    Known("PyTorch fails where there are no elements", ("error",), ours="^(no error|IndexError)",
          theirs="non-empty TensorList|of 0 elements|setStorage|stride 1|index 0 out of range|numel\(\) == 0|non-zero",
          program=_EMPTY),
    Known("PyTorch does not check that logical operations write a leaf", ("error",),
          line=r"logical_\w+_\(", theirs="^no error", ours="leaf Variable"),
    Known("PyTorch's tangent of solve takes the factors of the matrix for constants",
          ("gradient",), program=r"linalg\.solve[\s\S]*(jvp|jacfwd)"),
]  # fmt: skip
# Errors that were not meant for a user.
LEAKS = re.compile(
    r"^(AttributeError|KeyError|UnboundLocalError|ZeroDivisionError|AssertionError|OverflowError)"
    r"|array|unpack|operands could not|object has no attribute|NoneType"
)
# Until they are mended.
HANGS = re.compile(r"linalg|svd|pinv|lstsq|qr\(|matrix_rank|eig|lobpcg|norm|cond|slogdet|det\(")
MENDING = [
    Known("mending: casts to integers stay in the graph", ("requires_grad",), theirs="False",
          ours="True"),
    Known("mending: casts to integers stay in the graph", ("error",),
          theirs="Autograd not support dtype"),
    Known("mending: uint8 overflow", ("error",), ours="^OverflowError"),
    Known("mending: uint8 overflow", ("error",), theirs="without overflow"),
    Known("mending: uint8 overflow", ("error",), theirs="without overflow|no error",
          ours="overflow|no error|out of bounds|cannot be converted", line=r"\] = |fill|clamp"),
    Known("mending: mT and H of wrong ranks", ("error",), line=r"\.(mT|H|mH)\b"),
    Known("mending: writes through real and imag", ("error",), ours="real and imaginary"),
    Known("mending: layout", ("error",), theirs="view size is not|^no error",
          ours="view size is not|^no error|must have a last dim", program="view"),
    Known("mending: layout", ("values",), line=r"as_strided|flatten\(\)\.\w+_|_normal_|uniform_|view"),
    Known("mending: recording in inference mode", program="inference_mode"),
    Known("mending: in-place functions take numbers", ("error",), theirs="must be Tensor, not"),
    Known("mending: losses take wrong targets", ("error",), line="cross_entropy|nll_loss|ctc_loss"),
    Known("mending: non-finite LAPACK", line="linalg|svd|pinv|lstsq|qr|cond|matrix_rank|eig",
          program="inf|nan"),
    Known("mending: inference views", ("inference",)),
    Known("mending: views made without recording", ("error",), theirs="^no error",
          ours="A view was created in"),
]  # fmt: skip
KNOWN += MENDING


def known(found: Difference, lines: list[str], is_whole: bool) -> str | None:
    """Why a difference is none to report; None if there is no reason."""
    if found.misfit and LEAKS.search(found.ours) is None and not {found.theirs, found.ours} & {
        "no error"
    }:
        return "wrong for two reasons, of which either may be told"
    program = "\n".join(lines)
    return next((k.why for k in KNOWN if k.covers(found, program, is_whole)), None)
