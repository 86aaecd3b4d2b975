"""The rules that pages show: for every operation, and the same as what the engine runs."""

import ast
import math
import re
from contextlib import suppress
from functools import cache

import numpy as np
import pytest
from samples import SAMPLES
from samples._pool import evaluate
from test_table import Example, is_finite, is_smooth, small, watched_forwards, wide_enough

import retrograd as torch
from retrograd import nn
from retrograd.autograd._operation_node import fit
from retrograd.ops._operation import TABLE, Operation
from retrograd.viz import _words
from retrograd.viz._formulas import formula, names_in
from retrograd.viz._rules import expression_for, formulas, rule_of, words

# Beside these, the table has operations without a derivative.
WITH_RULES = [op for op in TABLE.values() if op.has_rules]
by_name = pytest.mark.parametrize("operation", WITH_RULES, ids=lambda op: op.name)


@by_name
def test_no_rule_is_without_words_and_formulas(operation: Operation) -> None:
    assert len(words(operation)) > 10
    assert len(formulas(operation)) == len(operation.inputs)
    for position, text in enumerate(formulas(operation)):
        has_rule = operation.joint is not None or operation.rules[position] is not None
        assert bool(text) == has_rule
        if text:
            left, _, right = text.partition(" = ")
            assert left == f"grad_{operation.inputs[position]}"
            assert right
            assert len(right) <= 200
            assert not re.search(r"\bg\b|lambda|TensorLike|is_lifted\(|isinstance|0x", right), text


def test_words_are_about_operations_that_exist() -> None:
    for known in (_words.EXPRESSIONS, _words.TEXTS):
        assert set(known) <= set(TABLE)


def test_operations_that_most_programs_use_have_words_of_their_own() -> None:
    known = {name for name, operation in TABLE.items() if operation.words}
    assert len(known) >= 60
    common = (
        "add mul mm addmm sum mean relu tanh sigmoid exp log pow_scalar softmax log_softmax "
        "nll_loss convolution native_layer_norm view transpose index cat expand max"
    )
    assert set(common.split()) <= known


# -- the formula is what the engine runs ---------------------------------------------------------


class Tried:
    """One call of an operation on real numbers, and the gradients that the engine finds."""

    def __init__(self, operation: Operation, inputs: list, options: dict) -> None:
        self.operation, self.options, self.inputs = operation, options, inputs
        self.grads = [self.grad(i) if is_float(x) else None for i, x in enumerate(inputs)]

    def grad(self, position: int):
        """The gradient of one input; None if the engine has none."""
        tensors = [torch.from_numpy(np.array(x)) if is_array(x) else x for x in self.inputs]
        tensors[position].requires_grad_(True)
        result = self.operation(*tensors, **self.options)
        self.result = result if isinstance(result, tuple) else (result,)
        self.outputs = [x for x in self.result if x.requires_grad][:1]
        rng = np.random.default_rng(0)
        self.given = [torch.from_numpy(np.array(rng.normal(size=x.shape))) for x in self.outputs]
        try:
            found = torch.autograd.grad(
                self.outputs, tensors[position], self.given, allow_unused=True
            )
        except RuntimeError as error:  # there is no derivative
            if not re.search("implement|derivative|require", str(error)):
                raise
            return None
        return found[0]

    def values(self, position: int, of: type) -> dict:
        """What names mean in the formula for one input: raw arrays, or Tensors."""

        def as_kind(x):
            x = x._data if isinstance(x, torch.Tensor) else x
            return torch.from_numpy(np.array(x)) if of is torch.Tensor and is_array(x) else x

        operation = self.operation
        several = operation.output_names != ("result",)
        grads = [as_kind(g) for g in self.given]
        return {
            **dict(zip(operation.output_names, map(as_kind, self.result), strict=False)),
            **self.options,
            **dict(zip(operation.inputs, map(as_kind, self.inputs), strict=False)),
            "g": grads if several else grads[0],
            "shape": np.shape(self.inputs[position]),
            "shapes": [np.shape(x) for x in self.inputs],
            "needs": [True] * len(self.inputs),
        }


def is_array(x) -> bool:
    return isinstance(x, (np.ndarray, np.generic))


def is_float(x) -> bool:
    return is_array(x) and x.dtype.kind == "f"


@cache
def examples() -> dict[str, list[Example]]:
    """Calls of operations with real numbers at smooth points, as the samples of the table make
    them; the table's own test goes on to their gradients, which takes its time."""
    found: dict[str, dict[str, Example]] = {}

    def notice(operation: Operation, inputs, options, result) -> None:
        ways = found.setdefault(operation.name, {})
        outputs = result if isinstance(result, tuple) else (result,)
        good = all(small(x) and wide_enough(x) for x in inputs) and all(map(is_finite, outputs))
        if len(ways) < 8 and good:
            kinds = [(np.shape(x), np.asarray(x).dtype.kind) for x in inputs]
            copies = [np.copy(x) if isinstance(x, np.ndarray) else x for x in inputs]
            ways.setdefault(repr((kinds, options)), Example(operation, copies, options))

    with watched_forwards(notice):
        for expression in filter(is_smooth, SAMPLES):
            with suppress(Exception):  # a sample may be refused; what it did before counts
                evaluate(torch, expression, "float64")
    return {name: list(ways.values()) for name, ways in found.items()}


def tries(operation: Operation):
    """Calls of an operation on real arrays that have a gradient."""
    for example in examples().get(operation.name, []):
        inputs = example.inputs
        reals = all(np.asarray(x).dtype.kind not in "c" for x in inputs)
        if operation.name not in NOT_TRIED and reals and any(map(is_float, inputs)):
            tried = Tried(operation, inputs, example.options)
            if tried.outputs and all(x._data.dtype.kind == "f" for x in tried.outputs):
                yield tried


def agree(value, grad, shape) -> None:
    value = value._data if isinstance(value, torch.Tensor) else np.asarray(value)
    if value.shape != shape:
        value = fit(
            np.broadcast_to(value, np.broadcast_shapes(value.shape, shape)), shape, value.dtype
        )
    np.testing.assert_allclose(value, grad._data, rtol=1e-9, atol=1e-12)


ELEMENTWISE = [op for op in WITH_RULES if op.family == "elementwise" and op.differentiable]
# Elementwise operations that no sample calls on real numbers at a smooth point (name: reason).
NOT_TRIED = {
    "conj": "complex numbers", "real": "complex numbers", "imag": "complex numbers",
    "conj_of_half": "complex numbers", "conj_physical": "complex numbers",
    "polar": "gives complex numbers",
    "complex": "gives complex numbers", "to_dtype": "the result has another dtype",
    "nextafter": "not smooth anywhere", "rrelu": "random", "threshold_backward": "part of relu",
    "copy": "only in place, where the result has the shape of what is written",
    "hyp0f1": "part of the rules of Bessel functions", "airy_ai_derivative": "part of airy_ai",
}  # fmt: skip


@pytest.mark.parametrize("operation", ELEMENTWISE, ids=lambda op: op.name)
def test_the_expression_of_an_elementwise_rule_gives_the_engines_gradient(operation) -> None:
    checked = 0
    for tried in tries(operation):
        for position, grad in enumerate(tried.grads):
            expression = expression_for(operation, position)
            if grad is None or expression is None or operation.name in _words.EXPRESSIONS:
                continue
            names = names_in(operation.rules[position].function)
            source = ast.unparse(expression)
            value = eval(source, names, tried.values(position, np.ndarray))
            agree(value, grad, np.shape(tried.inputs[position]))
            checked += 1
    no_slope = all(
        right in ("", "0", "not defined")
        for right in (f.partition(" = ")[2] for f in formulas(operation))
    )
    not_one = any(expression_for(operation, i) is None for i, r in enumerate(operation.rules) if r)
    name = operation.name
    rare = name.endswith(("_slope", "_written", "_of_result")) or name in NOT_TRIED
    written = name in _words.EXPRESSIONS
    assert checked or no_slope or not_one or rare or written


@pytest.mark.parametrize("operation", ELEMENTWISE, ids=lambda op: op.name)
def test_the_formula_as_it_is_shown_gives_the_engines_gradient(operation) -> None:
    """What was rearranged is still the same: formulas without words in them are turned back."""
    for tried in tries(operation):
        for position, grad in enumerate(tried.grads):
            simple = tuple(
                (k, v) for k, v in tried.options.items() if type(v) in (int, float, str, bool)
            )
            text = formulas(operation, False, simple)[position].partition(" = ")[2]
            called = set(re.findall(r"(\w+)\(", text))
            if grad is None or not text or re.search(r"where|if|else|defined|nan|=", text):
                continue
            if called - MATHEMATICS or operation.name.endswith("_slope"):
                continue
            values = tried.values(position, torch.Tensor)
            agree(
                eval(as_python(text), TENSOR_NAMES, values), grad, np.shape(tried.inputs[position])
            )


TENSOR_NAMES = {
    **{name: getattr(torch, name) for name in dir(torch) if not name.startswith("_")},
    "erfinv": torch.erfinv, "div_rounded": torch.div, "softplus": nn.functional.softplus,
    "i1": torch.special.i1, "i1e": torch.special.i1e, "digamma": torch.special.digamma,
    "math": math, "log": lambda x: torch.log(torch.as_tensor(x, dtype=torch.float64)),
    "lgamma": torch.special.gammaln, "xlogy": torch.special.xlogy,
}  # fmt: skip


MATHEMATICS = {
    "exp",
    "exp2",
    "log",
    "sin",
    "cos",
    "sinh",
    "cosh",
    "sqrt",
    "sgn",
    "sigmoid",
    "tanh",
    "erf",
    "erfinv",
    "lgamma",
    "digamma",
    "i1",
    "i1e",
}


def as_python(text: str) -> str:
    """A formula turned back into what can be evaluated."""
    for shown, written in (("·", "*"), ("−", "-"), ("^", "**"), ("ln 2", "math.log(2)"),
                           ("ln 10", "math.log(10)"), ("√(2π)", "math.sqrt(2*math.pi)"),
                           ("√π", "math.sqrt(math.pi)"), ("π", "math.pi")):  # fmt: skip
        text = text.replace(shown, written)
    text = re.sub("([⁰¹²³⁴⁵⁶⁷⁸⁹])", lambda m: f"**{'⁰¹²³⁴⁵⁶⁷⁸⁹'.index(m[1])}", text)
    text = re.sub(r"\|(\w+)\|", r"abs(\1)", text)
    text = re.sub(r"sqrt\((\d+|2 \* math.pi)\)", r"math.sqrt(\1)", text)
    return re.sub(r"\bgrad\b", "g", text)


@pytest.mark.parametrize("name", sorted(_words.EXPRESSIONS))
def test_expressions_for_kernels_give_the_engines_gradient(name: str) -> None:
    operation, checked = TABLE[name], 0
    for tried in tries(operation):
        for position, grad in enumerate(tried.grads):
            expression = expression_for(operation, position)
            values = tried.values(position, torch.Tensor)
            if grad is None or expression is None or values.get("approximate") == "tanh":
                continue
            if name == "logsumexp":
                reduced = [d % len(values["shape"]) for d in values["dim"]]
                for which in ("g", "result"):
                    for d in sorted(reduced) if not values["keepdim"] else ():
                        values[which] = values[which].unsqueeze(d)
            agree(eval(ast.unparse(expression), TENSOR_NAMES, values), grad, values["shape"])
            checked += 1
    assert checked


# -- some formulas by hand -----------------------------------------------------------------------

KNOWN = {
    "tanh": ("grad_self = grad · (1 − result²)",),
    "sigmoid": ("grad_self = grad · result · (1 − result)",),
    "exp": ("grad_self = grad · result",),
    "mul": ("grad_self = grad · other", "grad_other = grad · self"),
    "div": ("grad_self = grad / other", "grad_other = −grad · (self / other²)"),
    "amax": ("grad_self = grad / (how many along dim are equal to result) where self = result, "
             "else 0",),
    "mse_loss": ("grad_self = 2 · (self − target) · (grad / numel(self))",
                 "grad_target = 2 · (target − self) · (grad / numel(target))"),
    "huber_loss": ("grad_self = clamp(self − target, −delta, delta) · (grad / numel(self))",
                   "grad_target = clamp(target − self, −delta, delta) · (grad / numel(target))"),
    "select": ("grad_self = zeros of self.shape, with grad at index along dim",),
    "mm": ("grad_self = grad @ mat2ᵀ", "grad_mat2 = selfᵀ @ grad"),
    "relu": ("grad_self = grad where result > 0, else 0",),
    "sqrt": ("grad_self = grad / (2 · result)",),
    "sub": ("grad_self = grad", "grad_other = −grad"),
    "sum": ("grad_self = expand(grad, self.shape)",),
    "mean": ("grad_self = expand(grad / numel(self), self.shape)",),
    "view": ("grad_self = reshape(grad, self.shape)",),
    "where": ("", "grad_self = grad where condition, else 0",
              "grad_other = 0 where condition, else grad"),
    "silu": ("grad_self = grad · sigmoid(self) · (1 + self · (1 − sigmoid(self)))",),
    "asin": ("grad_self = grad / sqrt(1 − self²)",),
    "linalg_inv_ex": ("grad_A = −(inverseᵀ @ (grad_inverse @ inverseᵀ))",),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_formulas_read_as_in_a_book(name: str) -> None:
    options = (("reduction", "mean"),) if name.endswith("_loss") else ()
    assert formulas(TABLE[name], False, options) == KNOWN[name]


# Operations that programs call, and what calls them: none may be shown as a call of some kernel.
COMMON = """
    a+b a-b 1-a a*b a*3 a/b 1/a a**2 a**3.0 a**b 2**a a.sqrt() a.rsqrt() a.exp() a.log() a.log1p()
    a.sin() a.cos() a.tan() a.tanh() a.sigmoid() a.relu() F.leaky_relu(a) F.elu(a) F.gelu(a)
    F.silu(a) F.softplus(a) a.abs() a.clamp(0.2,0.8) torch.maximum(a,b) torch.where(a>0.5,a,b)
    a.erf() a.reciprocal() torch.atan2(a,b) a.sum() a.sum(1) a.mean() a.mean(0) a.prod() a.max()
    a.max(1)[0] a.amax(1) a.min() a.var() a.std() a.norm() a.logsumexp(1) a.cumsum(0) a.cumprod(0)
    a.softmax(1) a.log_softmax(1) a@a.t() torch.addmm(a,a,m[0]) torch.mv(a,a[0])
    torch.dot(a[0],a[1]) torch.bmm(m,m) a.t() a.transpose(0,1) a.permute(1,0) a.view(12)
    a[None].squeeze(0) a.unsqueeze(0) a[0].expand(3,4) a[0].repeat(2) torch.cat([a,b])
    torch.stack([a,b]) a.split(2,1)[0] a.unbind()[0] a[0] a[:,1:3] a[[0,1]] a.gather(1,i)
    a.scatter_add(1,i,b) a.index_select(0,i[0]) a.masked_fill(a>.5,0.) a.masked_select(a>.5)
    a.flip(0) a.roll(1) a.tril() a.diagonal() F.pad(a,(1,1)) a.clone() a.sort()[0] a.topk(2)[0]
    F.mse_loss(a,b) F.smooth_l1_loss(a,b) F.huber_loss(a,b) F.nll_loss(a,i[0])
    F.binary_cross_entropy(a,b) F.binary_cross_entropy_with_logits(a,b) F.embedding(i,a)
    F.layer_norm(a,(4,)) F.conv2d(m[None],m[None]) F.max_pool2d(m[None],2) F.avg_pool2d(m[None],2)
    F.adaptive_avg_pool2d(m[None],2) F.interpolate(m[None],scale_factor=2)
    F.scaled_dot_product_attention(m,m,m) nn.LSTMCell(4,2)(a)[0] nn.GRUCell(4,2)(a)
    nn.RNNCell(4,2)(a) torch.linalg.inv(m) torch.linalg.det(m) torch.linalg.solve(m,m) m[0].trace()
    torch.lerp(a,b,0.3) torch.addcmul(a,b,b) torch.cdist(a,b)
"""
READABLE = MATHEMATICS | {
    "expand", "numel", "reshape", "transpose", "permute", "inverse", "squeeze", "sum_to", "sum",
    "mean", "cat", "stack", "gather", "flip", "roll", "tril", "clamp", "softmax", "diag",
}  # fmt: skip


@pytest.mark.parametrize("call", COMMON.split())
def test_what_programs_use_has_formulas_without_kernels(call: str) -> None:
    torch.manual_seed(0)
    a, b = (torch.rand(3, 4, dtype=torch.float64, requires_grad=True) for _ in range(2))
    m = torch.rand(2, 4, 4, dtype=torch.float64, requires_grad=True)
    i = torch.tensor([[0, 1, 2], [1, 0, 2], [2, 2, 1]])
    names = {"a": a, "b": b, "m": m, "i": i, "torch": torch, "F": nn.functional}
    names["nn"] = Doubled()
    result = eval(call, names)
    shown = rule_of(result.grad_fn, tuple(result.shape))
    assert any(shown.formulas)
    assert "computes the gradients of its inputs" not in shown.words
    for text in shown.formulas:
        assert set(re.findall(r"(\w+)\(", text)) <= READABLE, text


class Doubled:
    """The layers of ``nn`` in double precision."""

    def __getattr__(self, name: str):
        return lambda *sizes: getattr(nn, name)(*sizes).double()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("g * (a - (b - c))", "grad · (a − (b − c))"),
        ("(a - b) - c", "a − b − c"),
        ("a / (b / c)", "a / (b / c)"),
        ("a / b / c", "a / b / c"),
        ("a / b / b", "a / b²"),
        ("a * 2", "2 · a"),
        ("a * (b / c)", "a · (b / c)"),
        ("-(a + b)", "−(a + b)"),
        ("(-a) ** 2", "(−a)²"),
        ("-(a ** 2)", "−a²"),
        ("(a + b) ** n", "(a + b)^n"),
        ("a - a * b * b", "a · (1 − b²)"),
        ("a * b + a * c", "a · (b + c)"),
        ("a + a", "2 · a"),
        ("a @ (b @ c)", "a @ (b @ c)"),
        ("a * (b @ c)", "a · (b @ c)"),
        ("where(c, a, b) * d", "(a where c, else b) · d"),
        ("a - -b", "a + b"),
    ],
)
def test_brackets_are_where_they_are_needed(source: str, shown: str) -> None:
    assert formula(ast.parse(source, mode="eval").body, {}) == shown


# -- nodes ---------------------------------------------------------------------------------------


def test_options_decide_which_way_a_rule_goes() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert rule_of((x**2).grad_fn).formulas == ["grad_self = 2 · grad · self"]
    assert rule_of((x**3).grad_fn).formulas == ["grad_self = grad · exponent · self^(exponent − 1)"]


def test_no_formula_for_what_nobody_wants() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert rule_of((x * 3).grad_fn).formulas == ["grad_self = grad · other", ""]
    assert rule_of((x.detach() * x).grad_fn).formulas == ["", "grad_other = grad · self"]


def test_broadcasting_is_said() -> None:
    x = torch.ones(3, requires_grad=True)
    with_sum = rule_of((x + torch.ones(2, 3)).grad_fn, (2, 3))
    assert "summed over the broadcast dimensions" in with_sum.words
    assert "sum over" not in rule_of((x + torch.ones(3)).grad_fn, (3,)).words


@pytest.mark.parametrize("shape", [(3,), (2, 1), (1, 3), (2, 3), (), (1, 1), (4, 1, 1), (4, 2, 1)])
def test_the_sum_of_what_was_broadcast_is_in_the_formula(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape, requires_grad=True)
    y = torch.randn(2, 3, requires_grad=True)
    for z in (x + y, x - y, y - x, x * y):
        grad = torch.randn(z.shape)
        received = torch.autograd.grad(z, (x, y), grad)
        if z.grad_fn.next_functions[0][0].variable is y:
            received = received[::-1]
        names = {"grad": grad, "self": x, "other": y, "sum": torch.sum}
        for text, wanted in zip(rule_of(z.grad_fn, tuple(z.shape)).formulas, received, strict=True):
            right = text.partition(" = ")[2].replace("·", "*").replace("−", "-")
            result = eval(right, names)
            assert result.shape == wanted.shape, text
            torch.testing.assert_close(result, wanted)


def test_only_what_is_summed_has_a_sum() -> None:
    bias = torch.ones(1, requires_grad=True)
    weight = torch.ones(3, 1, requires_grad=True)
    y = torch.addmm(bias, torch.ones(2, 3), weight)
    assert rule_of(y.grad_fn, (2, 1)).formulas == [
        "grad_self = sum(grad, dim=0)", "", "grad_mat2 = mat1ᵀ @ grad"
    ]  # fmt: skip
    # [2, 1] arrives and [1, 1] leaves, but by a product.
    y = torch.addmm(bias, torch.ones(2, 1), torch.ones(1, 1, requires_grad=True))
    assert rule_of(y.grad_fn, (2, 1)).formulas[2] == "grad_mat2 = mat1ᵀ @ grad"
    loss = nn.functional.mse_loss(weight, torch.zeros(3, 1))
    assert "sum over the dimensions" not in rule_of(loss.grad_fn, ()).words


def test_complex_numbers_are_said() -> None:
    z = torch.tensor([1 + 2j], requires_grad=True)
    assert "conjugated" in rule_of((z * z).grad_fn).words
    assert "conjugated" not in rule_of((z.real * 2.0).grad_fn).words


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, power, y):
        ctx.save_for_backward(x, y)
        return x**3 * y

    @staticmethod
    def backward(ctx, grad):
        x, y = ctx.saved_tensors
        return 3 * x**2 * y * grad, None, x**3 * grad  # the slope of a cube


def test_a_custom_function_shows_its_own_source() -> None:
    x, y = (torch.tensor(2.0, requires_grad=True) for _ in range(2))
    shown = rule_of(Cube.apply(x, 3, y).grad_fn)
    line = Cube.backward.__code__.co_firstlineno
    assert shown.words == f"Defined by you at test_viz_rules.py:{line}: Cube.backward."
    assert shown.formulas == [
        "grad_x = Cube.backward(ctx, grad)[0]", "grad_y = Cube.backward(ctx, grad)[2]"
    ]  # fmt: skip
    assert "# the slope of a cube" in shown.source
    assert shown.to_json()["source"] == shown.source


def test_every_kind_of_node_has_a_rule() -> None:
    base = torch.ones(4, requires_grad=True) * 1
    base[1:3].mul_(2.0)
    assert "view was written" in rule_of(base.grad_fn).words
    leaf = torch.ones(1, requires_grad=True)
    end = (leaf * 1).grad_fn.next_functions[0][0]
    assert rule_of(end).formulas == [".grad = .grad + grad"]
    joined = torch.cat([leaf, leaf]).grad_fn
    assert [f.partition(" = ")[0] for f in rule_of(joined).formulas] == [
        "grad_tensors[0]", "grad_tensors[1]"
    ]  # fmt: skip
