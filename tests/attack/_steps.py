"""Steps of a program that are drawn from signatures: arithmetic, views, writes, modes, graphs."""

from __future__ import annotations

import math
from random import Random
from typing import Any

from . import _drawing as draw
from ._machine import Facts

SMOOTH = ("sin", "cos", "exp", "tanh", "sigmoid", "square", "atan", "asinh", "erf", "expm1", "neg")
UNARY = (
    *SMOOTH, "abs", "relu", "sqrt", "log", "reciprocal", "rsqrt", "sign", "floor", "ceil", "round",
    "trunc", "frac", "log1p", "positive", "isnan", "isfinite", "logical_not", "sgn", "acos", "cosh",
    "exp2", "log2", "sinh", "tan", "angle", "bitwise_not", "digamma", "lgamma", "erfc", "sinc",
    "nan_to_num", "signbit", "deg2rad", "conj", "real", "i0", "logit", "isinf", "conj_physical",
)  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "maximum", "minimum", "atan2", "pow", "remainder", "fmod", "hypot",
    "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "fmax", "fmin",
    "logaddexp", "copysign", "floor_divide", "bitwise_and", "bitwise_or", "bitwise_xor", "xlogy",
    "nextafter", "heaviside", "true_divide", "isclose", "gcd", "lcm", "ldexp", "float_power",
    "bitwise_left_shift", "bitwise_right_shift",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "**", "//", "%", "==", "<", ">=", "&", "|", "^", "@")
REDUCTIONS = (
    "sum", "mean", "prod", "amax", "amin", "std", "var", "logsumexp", "all", "any", "norm", "max",
    "min", "argmax", "argmin", "median", "nansum", "nanmean", "cumsum", "cumprod", "softmax",
    "log_softmax", "sort", "logcumsumexp", "cummax", "cummin", "mode", "nanmedian", "flip",
    "count_nonzero", "aminmax", "argsort", "diff",
)  # fmt: skip
IN_PLACE_UNARY = (
    "sin_", "exp_", "tanh_", "neg_", "abs_", "relu_", "square_", "zero_", "floor_", "round_",
    "sigmoid_", "sqrt_", "reciprocal_", "sign_", "trunc_", "cos_", "log1p_", "logical_not_", "erf_",
)  # fmt: skip
IN_PLACE_BINARY = (
    "add_", "sub_", "mul_", "div_", "copy_", "pow_", "fmod_", "remainder_", "eq_", "lt_", "atan2_",
    "floor_divide_", "clamp_min_", "logical_and_", "hypot_",
)  # fmt: skip
AUGMENTED = ("+=", "-=", "*=", "/=", "**=", "//=", "%=")
CASTS = (
    "float()", "double()", "half()", "long()", "int()", "bool()", "byte()", "short()", "char()",
    "to(torch.complex64)", "to(torch.complex128)", "to(torch.float32)", "to(torch.int32)",
    "type(torch.float64)", "to(torch.float64, copy=True)", "to(torch.int64)", "to(torch.uint8)",
)  # fmt: skip


class Steps:
    """What can be done next, with the tensors there are."""

    def __init__(self, random: Random, live: dict[str, Facts], values: dict[str, Any]) -> None:
        self.random = random
        self.live = live  # facts, by name
        self.values = values  # PyTorch's tensors, by name
        self.kinds = (
            (self.unary, 10), (self.binary, 16), (self.reduction, 10), (self.view, 14),
            (self.in_place, 12), (self.assignment, 6), (self.cast, 5), (self.product, 6),
            (self.joining, 5), (self.indexing, 5), (self.choosing, 4), (self.graph, 6),
            (self.out, 3), (self.creation, 2),
        )  # fmt: skip
        self._total = sum(weight for _, weight in self.kinds)

    def draw(self, name: str) -> str | None:
        """The text of an expression or statement about a tensor and others."""
        at = self.random.random() * self._total
        for kind, weight in self.kinds:
            at -= weight
            if at < 0:
                return kind(name)
        return None

    def other(self, shape: tuple[int, ...], exactly: bool = False) -> str | None:
        """A tensor that broadcasts with a shape, or broadcasts to it."""
        fits = draw.expands_to if exactly else draw.broadcastable
        names = [n for n, f in self.live.items() if f.top < 1e4 and fits(f.shape, shape)]
        return self.random.choice(names) if names else None

    def operand(self, name: str, exactly: bool = False) -> str:
        facts = self.live[name]
        if self.random.random() < 0.25:
            return draw.scalar(self.random, facts.dtype)
        if self.random.random() < 0.04:
            return self.random.choice(list(self.live))  # which may not fit
        return self.other(facts.shape, exactly) or draw.scalar(self.random, facts.dtype)

    # -- expressions -------------------------------------------------------------------------

    def unary(self, x: str) -> str:
        function = self.random.choice(UNARY if self.random.random() < 0.5 else SMOOTH)
        return f"torch.{function}({x})" if self.random.random() < 0.5 else f"{x}.{function}()"

    def binary(self, x: str) -> str:
        y = self.operand(x)
        if self.random.random() < 0.5:
            simple = self.random.random() < 0.6
            operator = self.random.choice(OPERATORS[:4] if simple else OPERATORS)
            return f"{x} {operator} {y}" if self.random.random() < 0.8 else f"{y} {operator} {x}"
        function = self.random.choice(BINARY[:10] if self.random.random() < 0.5 else BINARY)
        if function in ("add", "sub") and self.random.random() < 0.3:
            return f"torch.{function}({x}, {y}, alpha={draw.scalar(self.random)})"
        if function == "div" and self.random.random() < 0.4:
            mode = self.random.choice(("'floor'", "'trunc'", "None"))
            return f"torch.div({x}, {y}, rounding_mode={mode})"
        return f"torch.{function}({x}, {y})"

    def reduction(self, x: str) -> str:
        function = self.random.choice(REDUCTIONS[:8] if self.random.random() < 0.5 else REDUCTIONS)
        ndim = len(self.live[x].shape)
        choice = self.random.random()
        if choice < 0.25 and function not in ("logsumexp", "softmax", "log_softmax", "flip"):
            return f"{x}.{function}()"
        if function in ("sum", "mean", "amax", "amin", "std", "var", "logsumexp", "flip", "nansum"):
            arguments = draw.dims(self.random, ndim)
        else:
            arguments = str(draw.dim(self.random, ndim))
        if function == "norm":
            order = self.random.choice(("2", "1", "inf", "'fro'", "0", "3"))
            arguments = f"{order}, {arguments}"
        elif choice > 0.85 and function in ("sum", "prod", "cumsum", "mean", "softmax", "nansum"):
            dtype = self.random.choice(draw.DTYPES)
            return f"{x}.{function}({arguments}, dtype=torch.{dtype})"
        elif choice > 0.7 and function in REDUCTIONS[:15]:
            return f"{x}.{function}({arguments}, keepdim=True)"
        if function == "aminmax":
            arguments = f"dim={arguments}"
        return f"{x}.{function}({arguments})"

    def view(self, x: str) -> str:
        random, shape = self.random, self.live[x].shape
        ndim = len(shape)
        dim = draw.dim(random, ndim)
        size = shape[dim] if -ndim <= dim < ndim else 1
        choices = [
            lambda: f"{x}[{draw.index(random, shape, arrays=False)}]",
            lambda: f"{x}.{random.choice(('view', 'reshape'))}"
                    f"{random.choice(draw.factorings(math.prod(shape)))}",
            lambda: f"{x}.unsqueeze({random.randint(-ndim - 1, ndim)})",
            lambda: f"{x}.squeeze({dim if random.random() < 0.7 else ''})",
            lambda: f"{x}.expand({self.expanded(shape)})",
            lambda: f"{x}.transpose({dim}, {draw.dim(random, ndim)})",
            lambda: f"{x}.permute({random.sample(range(ndim), ndim)})",
            lambda: f"{x}.flatten()",
            lambda: f"{x}.narrow({dim}, {random.randint(0, size)}, {random.randint(0, size)})",
            lambda: f"{x}.select({dim}, {random.randint(-1, max(size - 1, 0))})",
            lambda: f"{x}.split({random.randint(1, max(size, 1))}, {dim})",
            lambda: f"{x}.chunk({random.randint(1, 3)}, {dim})",
            lambda: f"{x}.unbind({dim})",
            lambda: f"{x}.diagonal({random.randint(-1, 1)})",
            lambda: f"{x}.{random.choice(('mT', 'T', 'real', 'imag', 'H'))}",
            lambda: f"torch.view_as_real({x})",
            lambda: f"torch.view_as_complex({x})",
            lambda: f"{x}.unfold({dim}, {random.randint(1, 2)}, {random.randint(1, 2)})",
            lambda: f"{x}.movedim({dim}, {draw.dim(random, ndim)})",
            lambda: f"{x}.as_strided({random.choice(((2,), (1, 2), ()))!r}, "
                    f"{random.choice(((1,), (2, 1), ()))!r})",
            lambda: f"{x}.{random.choice(('detach()', 'clone()', 'contiguous()', 'ravel()'))}",
            lambda: f"torch.atleast_2d({x})",
            lambda: f"{x}.view_as({self.random.choice(list(self.live))})",
            lambda: f"{x}.swapaxes({dim}, 0)",
            lambda: f"{x}.view(torch.{random.choice(draw.DTYPES[:-1])})",  # not bool
        ]  # fmt: skip
        weights_front = 12
        if random.random() < 0.7:
            return choices[random.randrange(weights_front)]()
        return random.choice(choices)()

    def expanded(self, shape: tuple[int, ...]) -> str:
        sizes = [self.random.randint(1, 3) if s == 1 else s for s in shape]
        if len(shape) < 3 and self.random.random() < 0.5:
            sizes = [self.random.randint(0, 2) or 1, *sizes]
        return ", ".join(map(str, sizes)) or "2"

    def cast(self, x: str) -> str:
        if self.random.random() < 0.1:
            return f"{x}.type_as({self.random.choice(list(self.live))})"
        return f"{x}.{self.random.choice(CASTS)}"

    def product(self, x: str) -> str:
        shape, random = self.live[x].shape, self.random
        names = [n for n, f in self.live.items() if f.top < 1e3 and multiply(shape, f.shape)]
        if not names:
            return f"torch.outer({x}.flatten(), {x}.flatten())"
        y = random.choice(names)
        if random.random() < 0.2:
            letters = "abc"[: len(shape)] if len(shape) < 4 else ""
            if letters:
                return f"torch.einsum('{letters},{letters[-1]}...->...{letters[:-1]}', {x}, {y})"
        form = random.choice(("{x} @ {y}", "torch.matmul({x}, {y})", "torch.mm({x}, {y})",
                              "torch.tensordot({x}, {y}, 1)", "torch.inner({x}, {y})",
                              "torch.linalg.multi_dot([{x}, {y}])"))  # fmt: skip
        return form.format(x=x, y=y)

    def joining(self, x: str) -> str:
        random, shape = self.random, self.live[x].shape
        same = [n for n, f in self.live.items() if f.shape == shape] or [x]
        y = random.choice(same)
        dim = draw.dim(random, len(shape))
        return random.choice((
            f"torch.cat([{x}, {y}], {dim})", f"torch.stack([{x}, {y}], {dim})",
            f"torch.cat([{y}, {x}, {x}])", f"torch.hstack([{x}, {y}])", f"torch.vstack([{x}, {y}])",
            f"{x}.repeat_interleave(2, {dim})", f"{x}.tile(2)",
            f"torch.meshgrid({x}.flatten(), {y}.flatten(), indexing='ij')",
            f"torch.broadcast_tensors({x}, {self.operand(x)})",
        ))  # fmt: skip

    def indexing(self, x: str) -> str:
        random, shape = self.random, self.live[x].shape
        size = shape[0] if shape else 1
        items = [random.randrange(max(size, 1)) for _ in "ab"]
        return random.choice((
            f"{x}[{draw.index(random, shape, arrays=True)}]",
            f"{x}[{draw.index(random, shape, arrays=True)}]",
            f"{x}.index_select(0, torch.tensor({items}))", f"{x}[{x} > 0]",
            f"{x}.gather(-1, torch.zeros({shape or (1,)}, dtype=torch.int64))",
            f"{x}.take(torch.tensor({items}))", f"{x}.masked_select({x} != 0)",
            f"{x}.masked_fill({x} > 0.5, {draw.scalar(random)})",
            f"{x}.index_add(0, torch.tensor({items[:1]}), {x}[:1])",
            f"{x}.scatter(-1, torch.zeros({shape or (1,)}, dtype=torch.int64), {x})",
            f"{x}.index_fill(0, torch.tensor({items}), {draw.scalar(random)})",
            f"{x}.roll(1, {draw.dim(random, len(shape))})", f"{x}.triu()", f"{x}.tril(-1)",
        ))  # fmt: skip

    def choosing(self, x: str) -> str:
        y = self.operand(x)
        return self.random.choice((
            f"torch.where({x} > 0, {x}, {y})", f"torch.where({x} > {y}, {y}, {x})",
            f"{x}.clamp({draw.scalar(self.random)}, {draw.scalar(self.random)})",
            f"{x}.clamp(min={y})", f"torch.lerp({x}, {x}, 0.5)",
            f"torch.addcmul({x}, {x}, {x}, value={draw.scalar(self.random)})",
            f"torch.topk({x}, 1)", f"{x}.kthvalue(1)", f"torch.nn.functional.relu({x})",
            f"torch.nn.functional.softplus({x})", f"torch.nn.functional.gelu({x})",
            f"torch.nn.functional.layer_norm({x}, {x}.shape[-1:])",
            f"torch.nn.functional.mse_loss({x}, {x} * 2)",
        ))  # fmt: skip

    def creation(self, x: str) -> str:
        dtype = self.random.choice(draw.DTYPES)
        return self.random.choice((
            f"torch.zeros_like({x})", f"torch.ones_like({x}, dtype=torch.{dtype})",
            f"torch.full_like({x}, {draw.scalar(self.random)})", f"{x}.new_zeros(2, 3)",
            f"torch.arange(6, dtype=torch.{dtype}).view(2, 3)", f"{x}.new_tensor([1, 2, 3])",
            f"torch.linspace(0, 1, 3, dtype=torch.{dtype})", f"torch.eye(3, dtype=torch.{dtype})",
            f"torch.full({self.live[x].shape}, 2, dtype=torch.{dtype})", f"torch.tensor({x})",
        ))  # fmt: skip

    # -- statements --------------------------------------------------------------------------

    def in_place(self, x: str) -> str | None:
        random = self.random
        choice = random.random()
        target = self.target(x)
        if choice < 0.3:
            return f"!{target}.{random.choice(IN_PLACE_UNARY)}()"
        y = self.operand(x, exactly=True)
        if y in self.live and shares(self.values[x], self.values[y]):
            return None  # what is read while it is written is PyTorch's own business
        if choice < 0.75:
            return f"!{target}.{random.choice(IN_PLACE_BINARY)}({y})"
        if choice < 0.9:
            return f"!{x} {random.choice(AUGMENTED)} {y}"
        return "!" + random.choice((
            f"{target}.fill_({draw.scalar(random)})", f"{target}.clamp_(-1, 1)",
            f"{target}.masked_fill_({x} > 0, {draw.scalar(random)})",
            f"{target}.addcmul_({y}, {y})", f"{target}.requires_grad_()", f"{target}.detach_()",
            f"{target}.index_fill_(0, torch.tensor([0]), 2)", f"{target}.t_()",
            f"{target}.unsqueeze_(0)", f"{target}.squeeze_()", f"{target}.fill_diagonal_(1)",
            f"{target}.cumsum_(0)", f"{target}.transpose_(0, 0)",
            f"{x}.data.mul_(2)", f"{x}.grad = None",
        ))  # fmt: skip

    def target(self, x: str) -> str:
        """A tensor, or a view of it."""
        if self.random.random() < 0.6:
            return x
        shape = self.live[x].shape
        return self.random.choice((
            f"{x}[{draw.index(self.random, shape, arrays=False)}]", f"{x}.flatten()",
            f"{x}.transpose(0, -1)", f"{x}.view(-1)", f"{x}.detach()", f"{x}.unsqueeze(0)",
            f"{x}.diagonal()", f"{x}.real",
        ))  # fmt: skip

    def assignment(self, x: str) -> str | None:
        shape = self.live[x].shape
        y = self.operand(x, exactly=True) if self.random.random() < 0.6 else None
        if y is None or (y in self.live and shares(self.values[x], self.values[y])):
            y = draw.scalar(self.random)
        if y in self.live and self.random.random() < 0.4:
            y = f"{y}.sum()"
        operator = "=" if self.random.random() < 0.85 else self.random.choice(AUGMENTED[:3])
        return f"!{x}[{draw.index(self.random, shape, arrays=True)}] {operator} {y}"

    def graph(self, x: str) -> str | None:
        random = self.random
        if not self.has_history(x):  # PyTorch dies of a hook on such a view
            return f"{x}.is_leaf"
        return random.choice((
            f"!{x}.retain_grad()", f"!{x}.register_hook(lambda g: g * 2)",
            f"!{x}.register_hook(lambda g: None)", f"{x}.detach()",
            f"{x}.detach().requires_grad_()", f"!{x}.sum().backward(retain_graph=True)",
            f"!{x}.requires_grad_({random.random() < 0.5})",
            "!torch.set_grad_enabled(False)", "!torch.set_grad_enabled(True)", f"{x}.clone()",
            f"{x}.is_leaf", f"{x}._is_view()", f"{x}.grad", f"{x}.data",
            f"{x}.is_contiguous()", f"!{x}.register_hook(lambda g: g.sin())", f"{x}.output_nr",
            f"{x}.requires_grad", "torch.is_grad_enabled()",
        ))  # fmt: skip

    def has_history(self, x: str) -> bool:
        value = self.values[x]
        try:
            return not value._is_view() or value.grad_fn is not None
        except RuntimeError:
            return False

    def out(self, x: str) -> str | None:
        function = self.random.choice(("add({x}, {z}", "mul({x}, {z}", "exp({x}", "sum({x}, 0",
                                       "cat([{x}, {x}]", "matmul({x}, {x}", "neg({x}", "abs({x}",
                                       "cumsum({x}, 0", "maximum({x}, {x}", "clamp({x}, 0, 1",
                                       "where({x} > 0, {x}, {x}"))  # fmt: skip
        z = self.operand(x)
        text = function.format(x=x, z=z)
        try:  # with another shape PyTorch resizes the tensor within its memory, as deprecated
            shape = tuple(eval(f"torch.{text}).detach()", self.values).shape)
        except Exception:
            shape = (2, 3)
        targets = [n for n, f in self.live.items() if f.shape == shape and n not in (x, z)]
        if not targets:
            return None
        y = self.random.choice(targets)
        if any(n != y and shares(self.values[n], self.values[y]) for n in (x, z) if n in self.live):
            return None  # written while it is read
        return f"!torch.{text}, out={y})"


def multiply(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two shapes can be those of a matrix product."""
    if not a or not b:
        return False
    return a[-1] == b[-2 if len(b) > 1 else 0]


def shares(a: Any, b: Any) -> bool:
    if not (hasattr(a, "untyped_storage") and hasattr(b, "untyped_storage")):
        return False
    try:
        return bool(a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr())
    except RuntimeError:  # of PyTorch, for a result of a transform that has no storage
        return False
