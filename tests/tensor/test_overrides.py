"""``__torch_function__``: subclasses of Tensor, classes that look like it, and modes, beside
PyTorch: who is asked, about which function, and what comes out."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from typing import Any

import pytest
from _side_by_side import outcome

import retrograd
from retrograd.tensor import _interception, _overrides

LOGGING = """
import copy, operator
log = []
class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = func.__name__  # which has the namespace in it in PyTorch
        for space in ("linalg_", "special_", "fft_"):
            name = name.removeprefix(space)
        log.append(name)
        return super().__torch_function__(func, types, args, kwargs)
class Plain(torch.Tensor):
    pass
class Inner(Plain):
    pass
class Other(torch.Tensor):
    pass
s, t = torch.tensor([1.0, 2.0, 3.0, 4.0]).as_subclass(Logged), torch.ones(4)
n = torch.tensor([1, 2]).as_subclass(Logged)
p = torch.tensor([1.0, 2.0]).as_subclass(Plain)
"""
OPERATORS = {
    f"{left} {sign} {right}": f"y = {left} {sign} {right}\nlog, type(y).__name__, y.tolist()"
    for sign in ("+", "-", "*", "/", "//", "%", "**", "@", "==", "!=", "<", "<=", ">", ">=")
    for left, right in (("s", "t"), ("t", "s"), ("2", "s"), ("s", "2"), ("s", "s"))
    if sign != "@" or "2" not in (left, right)
}
INTEGERS = {
    f"{left} {sign} {right}": f"y = {left} {sign} {right}\nlog, type(y).__name__, y.tolist()"
    for sign in ("&", "|", "^", "<<", ">>")
    for left, right in (("n", "torch.tensor([1, 3])"), ("torch.tensor([1, 3])", "n"), ("2", "n"))
}
AUGMENTED = {
    f"{left} {sign}= {right}": f"y = {left}\ny {sign}= {right}\n"
    "log, type(y).__name__, y.tolist(), s.tolist(), t.tolist()"
    for sign in ("+", "-", "*", "/", "//", "%", "**")
    for left, right in (("s", "t"), ("t", "s"), ("s", "2"))
}
CALLS = """
-s; +s; abs(s); ~n
s[0]; s[1:, None]; s[s > 2]; t[n]
s.shape; s.dtype; s.ndim; s.requires_grad; s.is_leaf; s.grad_fn; s.grad; s.data; s.mT
s.size(); s.dim(); s.numel(); s.tolist(); s[0].item(); s.numpy().tolist()
bool(s[0]); float(s[0]); int(s[0]); len(s); repr(s); f"{s}"; 1.0 in s; hash(s) != 0
operator.index(n[0]); reversed(s); s.detach(); s.clone(); s.double(); s.type(); s.to(torch.float64)
s.add(1); t.add(s); s.sum(); s.mean(0); s.max(0); s.sort(); s.split(2)
s.unbind(); s.unflatten(0, (2, 2))
torch.add(s, 1); torch.add(t, s); torch.sum(s); torch.cat([t, s]); torch.stack((s, t))
torch.max(s, 0)
torch.where(t > 0, s, t); torch.einsum("i,i", s, t); torch.matmul(s, t); torch.exp(input=s)
torch.zeros_like(s); torch.numel(s); torch.equal(s, t); torch.is_floating_point(s)
torch.is_tensor(s)
torch.add(t, t, out=s); torch.as_tensor(s); s.new_zeros(2); torch.Tensor.add(s, 1)
F.softmax(s, 0); F.relu(s); F.linear(s, torch.ones(2, 4)); F.layer_norm(s, (4,))
F.cross_entropy(s[None], torch.tensor([1])); torch.linalg.vector_norm(s); torch.special.erf(s).shape
torch.fft.fft(s).real; s.add_(1); s.mul_(t); s.zero_(); t.add_(s); torch.nn.Parameter(t) + 1
"""
PROGRAMS = {
    "iteration": "[type(x).__name__ for x in s], [n for n in log if n != 'dim']",
    "setitem": "s[0] = 7.0\nlog, s.tolist()",
    "setitem of a plain tensor": "t[0] = s[3]\nlog, t.tolist()",
    "setting properties": """
c = s.clone()
c.requires_grad = True
c.grad = None
log, c.requires_grad""",
    "gradients": """
x = s.clone().requires_grad_()
y = (x * x).sum()
y.backward()
log, type(y).__name__, y.grad_fn.__class__.__name__, type(x.grad).__name__, x.grad, x""",
    "autograd.grad": """
x = s.clone().requires_grad_()
g, = torch.autograd.grad((x * x).sum(), x)
log, type(g).__name__, g.tolist()""",
    "a subclass of a subclass": "type(p + torch.ones(2).as_subclass(Inner)).__name__",
    "two subclasses": "p + torch.ones(2).as_subclass(Other)",
    "two subclasses, by a function": "torch.add(p, torch.ones(2).as_subclass(Other))",
    "printing": "p, p + 1, p.requires_grad_() * 2, p[:, None], p.double()",
    "constructors": "Plain([1, 2]), Plain(t), Plain(2, 3).shape, Plain()",
    "constructor, which shares": "Plain(t).data_ptr() == t.data_ptr()",
    "constructor, of another dtype": "Plain(torch.tensor([1, 2]))",
    "__new__ of one's own": """
class Described(torch.Tensor):
    @staticmethod
    def __new__(cls, x, text, *args, **kwargs):
        return super().__new__(cls, x, *args, **kwargs)
    def __init__(self, x, text):
        self.text = text
d = Described([1, 2], "two")
d, d.text, d + 1, type(d * 2).__name__""",
    "_make_subclass": """
make = torch.Tensor._make_subclass
make(Plain, t, True), make(Plain, t).requires_grad""",
    "as_subclass": """
x = torch.ones(2, requires_grad=True)
y = x.as_subclass(Plain)
y, y.is_leaf, y._is_view(), y.as_subclass(torch.Tensor)""",
    "as_subclass, of none": "t.as_subclass(int)",
    "a view written": """
v = p[0]
v.mul_(5)
p, type(v).__name__""",
    "an override in part": """
class Masked(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.Tensor.mean or func in (torch.mean, torch.Tensor.shape.__get__):
            return "overridden"
        return super().__torch_function__(func, types, args, kwargs)
m = torch.ones(2).as_subclass(Masked)
m.mean(), torch.mean(m), m.shape, m.sum(), m.size()""",
    "disabled": """
with torch._C.DisableTorchFunctionSubclass():
    found = s + 1, s.shape
found, type(found[0]).__name__, log""",
    "a class without overrides": """
class Quiet(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl
q = torch.ones(2).as_subclass(Quiet)
type(q + 1).__name__, type(q.sum()).__name__, q.shape""",
    "in a module": """
layer = nn.Linear(4, 2)
y = layer(s)
type(y).__name__, "linear" in log""",
    "under no_grad": """
x = s.clone().requires_grad_()
with torch.no_grad():
    y = x * 2
type(y).__name__, y.requires_grad""",
}
LOOK_ALIKE = """
HANDLED = {}
def implements(*functions):
    def decorate(function):
        HANDLED.update(dict.fromkeys(functions, function))
        return function
    return decorate
class Scaled:
    def __init__(self, n, value):
        self.n, self.value = n, value
    def __repr__(self):
        return f"Scaled({self.n}, {self.value})"
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func not in HANDLED:
            return NotImplemented
        return HANDLED[func](*args, **(kwargs or {}))
@implements(torch.add, torch.Tensor.add)
def add(a, b, **options):
    if isinstance(a, torch.Tensor):
        return a + b.value * torch.eye(b.n)
    return Scaled(a.n, a.value + b) if not isinstance(b, torch.Tensor) else add(b, a)
@implements(torch.mean)
def mean(a, dim=None):
    return a.value / a.n
@implements(torch.matmul, torch.Tensor.matmul)
def matmul(a, b):
    return a * b.value if isinstance(a, torch.Tensor) else b * a.value
@implements(torch.Tensor.__rsub__, torch.Tensor.sub, torch.sub)
def sub(a, b):
    return "sub", type(a).__name__, type(b).__name__
@implements(torch.cat)
def cat(tensors, dim=0):
    return "cat", len(tensors), dim
@implements(torch.linalg.cholesky, torch.cholesky)
def cholesky(a):
    return Scaled(a.n, a.value ** 0.5)
@implements(torch.Tensor.pow, torch.Tensor.__pow__)
def pow(a, b):
    return "pow", type(b).__name__
t, d = torch.ones(2, 2), Scaled(2, 3.0)
"""
LOOKING_ALIKE = {
    expression: expression
    for expression in """
torch.add(d, 1), torch.add(d, t), torch.add(t, d)
t.add(d)
t + d
d + t
t - d
torch.mean(d), torch.mean(d, dim=0)
t @ d
t.matmul(d)
torch.matmul(t, d), torch.matmul(d, t)
torch.cat([t, d]), torch.cat((d, d), dim=1)
torch.linalg.cholesky(d)
t ** d
t.pow(d)
torch.exp(d)
torch.linalg.inv(d)
F.cross_entropy(d, d)
F.relu(d)
torch.zeros_like(d)
t.mul(d)
t * d
torch.sub(d, t)
torch.nn.functional.linear(t, d)
torch.stack([t, d])
torch.overrides.has_torch_function((t, d)), torch.overrides.has_torch_function((t,))
[torch.overrides.is_tensor_like(x) for x in (d, t, 1)]
""".strip().split("\n")
}
MODES = """
log = []
class Log(torch.overrides.TorchFunctionMode):
    def __init__(self, name):
        self.name = name
    def __torch_function__(self, func, types, args=(), kwargs=None):
        log.append((self.name, func.__name__))
        return func(*args, **(kwargs or {}))
t = torch.ones(2)
"""
IN_MODES = {
    "functions": """
with Log("a"):
    x = torch.zeros(2) + t
    y = torch.exp(x).sum(), t.shape, t[0], torch.arange(3), torch.rand(2).shape, F.relu(x)
    z = torch.tensor([1.0]), torch.full((2,), 3), torch.eye(2), torch.stack([t, t])
log, x, y[0], t + 1, len(log)""",
    "modes in modes": """
with Log("a"), Log("b"):
    t + 1
log""",
    "disabled": """
with Log("a"):
    with torch._C.DisableTorchFunctionSubclass():
        t + 1
    with torch._C.DisableTorchFunction():
        t + 2
log""",
    "after an error": """
try:
    with Log("a"):
        t + torch.ones(3)
except RuntimeError:
    log.append("error")
t + 1
log""",
    "a mode that says something else": """
class Seven(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return 7 if func is torch.zeros else func(*args, **(kwargs or {}))
with Seven():
    x = torch.zeros(3), torch.ones(1)
x""",
}
NAMES = {
    "resolve_name": "[*map(torch.overrides.resolve_name, (torch.add, F.relu, torch.Tensor.add))]",
    "is_tensor_method_or_property": "[torch.overrides.is_tensor_method_or_property(f) for f in "
    "(torch.Tensor.add, torch.add, torch.Tensor.shape.__get__)]",
    "overridable functions": "all(f in torch.overrides.get_overridable_functions()[torch.Tensor] "
    "for f in (torch.Tensor.add, torch.Tensor.sum, torch.Tensor.__getitem__))",
    "ignored functions": "torch.is_tensor in torch.overrides.get_ignored_functions(), "
    "torch.add in torch.overrides.get_ignored_functions()",
    "testing overrides": "torch.overrides.get_testing_overrides()[torch.add](1, 2)",
    "wrap_torch_function": """
@torch.overrides.wrap_torch_function(lambda a: (a,))
def double(a):
    return 2 * a
class Overrides:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__
double(4), double(Overrides())""",
    "handle_torch_function, refused": """
class Refuses:
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return NotImplemented
torch.overrides.handle_torch_function(torch.add, (Refuses(),), Refuses())""",
}


def compare(setup: str, program: str) -> None:
    torch = pytest.importorskip("torch")
    program = setup.strip() + "\n" + program.strip()
    assert outcome(retrograd, program) == outcome(torch, program)


@pytest.mark.parametrize("program", [*OPERATORS, *INTEGERS, *AUGMENTED])
def test_operators(program: str) -> None:
    compare(LOGGING, {**OPERATORS, **INTEGERS, **AUGMENTED}[program])


@pytest.mark.parametrize("call", [c.strip() for c in CALLS.replace("\n", ";").split(";") if c])
def test_calls(call: str) -> None:
    setup = f"{LOGGING}y = {call}\nparts = y if isinstance(y, tuple) else (y,)"
    compare(setup, "log, type(y).__name__, [type(x).__name__ for x in parts], y")


@pytest.mark.parametrize("name", PROGRAMS)
def test_subclasses(name: str) -> None:
    compare(LOGGING, PROGRAMS[name])


@pytest.mark.parametrize("met_before", [False, True])
@pytest.mark.parametrize("expression", LOOKING_ALIKE)
def test_classes_that_look_like_tensors(expression: str, met_before: bool) -> None:
    """Whether such an object has been seen before or not."""
    compare(LOOK_ALIKE + "torch.add(d, 1)\n" * met_before, expression)


@pytest.mark.parametrize("name", IN_MODES)
def test_modes(name: str) -> None:
    compare(MODES, IN_MODES[name])


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    compare("", NAMES[name])


class Kept(retrograd.Tensor):
    """A subclass that pickle finds."""


_interception.uninstall()  # nobody else is to pay for it


def test_copies_of_a_subclass_keep_class_and_attributes() -> None:
    kept = retrograd.ones(2).as_subclass(Kept)
    kept.note = "here"  # type: ignore[attr-defined]
    for made in (copy.deepcopy(kept), pickle.loads(pickle.dumps(kept))):
        assert type(made) is Kept
        assert made.note == "here"
        assert retrograd.equal(made, kept)


def test_nothing_is_checked_before_a_class_overrides_something() -> None:
    add: Any = retrograd.Tensor.add  # is put there when it is first looked at
    assert retrograd.Tensor.__dict__["add"] is add
    assert not _overrides.INSTALLED
    assert not isinstance(add, _interception.Intercepted)

    class Overrides(retrograd.Tensor):
        pass

    assert isinstance(retrograd.Tensor.__dict__["add"], _interception.Intercepted)
    assert {add: 1}[retrograd.Tensor.add] == 1  # a table that was made before
    _interception.uninstall()
    assert retrograd.Tensor.__dict__["add"] is add


def test_the_first_call_by_super_is_that_of_the_base() -> None:
    """A method that nobody has looked at yet, or whose module is not loaded, is looked up in the
    base, not again in the subclass."""
    program = """
import retrograd as torch
calls = []
class Noting(torch.Tensor):
    def exp(self):
        calls.append("exp")
        return super().exp()
    def erfinv(self):
        calls.append("erfinv")
        return super().erfinv()
x = torch.zeros(2).as_subclass(Noting)
assert x.exp().tolist() == [1.0, 1.0] and x.erfinv().tolist() == [0.0, 0.0]
assert calls == ["exp", "erfinv"], calls
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
