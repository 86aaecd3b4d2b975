"""What a user does wrong with transforms is said in PyTorch's words, and leaves nothing changed.

A case is an expression, the error, and the words it begins with. Both libraries are asked; the
cases after ``BEYOND`` are ours alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from _transform_programs import LIBRARIES, library_named, warnings_of

import retrograd
from retrograd import _modes

Torch = Any


@pytest.fixture(params=LIBRARIES)
def torch(request: pytest.FixtureRequest) -> Iterator[Torch]:
    library = library_named(request.param)
    with warnings_of(library):
        yield library


SETTING = """
x = torch.arange(3.0) + 1
m = torch.arange(6.0).reshape(2, 3)
s = torch.tensor(2.0)
i = torch.tensor([1, 2])
z = torch.tensor([1 + 1j])
captured = torch.zeros(3)

def writing(x):
    captured.add_(x)
    return x.sum()

def counting(x):
    captured.add_(1.0)
    return x.sum()

def assigning(x):
    captured[0] = x.sum()
    return x.sum()

def branching(x):
    if x.sum() > 0:
        return x
    return -x

def looping(x):
    total = x * 0
    while total.sum() < 10:
        total = total + x
    return total

def add(x, y):
    return x + y

def pairs(x, y):
    return (x * y).sum()

def scaled(x):
    return x * 2

kept = []

def keeping(x):
    kept.append(x)
    return x * 2
"""

SCALAR = "grad_and_value(f)(*args): Expected f(*args) to return a "
JVP = "jvp(f, primals, tangents): "
STRUCTURE = "Expected pytree structure of cotangents to be the same as pytree structure of outputs"
MUTATED = "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call "
RANDOM = "vmap: called random operation while in randomness error mode. Please either use the"
ITEM = "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over"
CONTROL = "vmap: It looks like you're attempting to use a Tensor in some data-dependent control"
DYNAMIC = "vmap: We do not support batching operators that can "
INPLACE = (
    "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor "
    "`other` in extra_args that has more elements than `self`. This happened due to `other` being "
    "vmapped over but `self` not being vmapped over"
)

CASES = [
    # grad
    ("func.grad(torch.sin)(x)", RuntimeError, SCALAR + "scalar Tensor, got tensor with 1 dims. "
     "Maybe you wanted to use the vjp or jacrev APIs instead?"),
    ("func.grad(lambda x: 1.0)(x)", RuntimeError, SCALAR + "Tensor, got <class 'float'>"),
    ("func.grad(lambda x: None)(x)", RuntimeError, SCALAR + "Tensor, got <class 'NoneType'>"),
    ("func.grad(lambda x: (x.sum(), x))(x)", RuntimeError, SCALAR + "Tensor, got <class 'tuple'>"),
    ("func.grad(lambda x: x.sum(), has_aux=True)(x)", RuntimeError,
     "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux"),
    ("func.grad(lambda x: [x.sum(), x], has_aux=True)(x)", RuntimeError,
     "grad_and_value(f)(*args): output of function f should be a tuple: (output, aux) if has_aux"),
    ("func.grad(torch.sum)(i)", RuntimeError,
     "only Tensors of floating point dtype can require gradients"),
    ("func.grad(lambda d: d['a'].sum())({'a': x, 'b': i})", RuntimeError,
     "only Tensors of floating point dtype can require gradients"),
    ("func.grad(lambda x: x.sum())(2.0)", ValueError,
     "Thing passed to transform API must be Tensor, got <class 'float'>"),
    ("func.grad(lambda d: d['a'].sum())({'a': x, 'b': None})", ValueError,
     "Thing passed to transform API must be Tensor, got <class 'NoneType'>"),
    ("func.grad(lambda z: (z * z).sum())(z)", RuntimeError,
     "grad can be implicitly created only for real scalar outputs but got torch.complex64"),
    ("func.grad(pairs, argnums=2)(x, x)", RuntimeError,
     "Got argnum=2, but only 2 positional inputs"),
    ("func.grad(pairs, argnums=-3)(x, x)", RuntimeError,
     "Got argnum=-3, but only 2 positional inputs"),
    ("func.grad(pairs, argnums=(0, 2))(x, x)", RuntimeError,
     "Got argnum=2, but only 2 positional inputs"),
    ("func.grad(pairs, argnums=(0, 0))(x, x)", RuntimeError,
     "argnums elements must be unique, got (0, 0)"),
    ("func.grad(pairs, argnums=())(x, x)", RuntimeError, "argnums must be non-empty"),
    ("func.grad(pairs, argnums=[0])(x, x)", RuntimeError,
     "argnums must be int or Tuple[int, ...], got: <class 'list'>"),
    ("func.grad(pairs, argnums=(0, 1.5))(x, x)", RuntimeError,
     "argnum must be int, got: <class 'float'>"),
    ("func.grad(torch.sum)()", RuntimeError, "Got argnum=0, but only 0 positional inputs"),
    ("func.grad(lambda x: x.sum().backward())(x)", RuntimeError,
     "backward() called inside a functorch transform. This is not supported"),
    ("func.grad(lambda x: x.requires_grad_().sum())(x)", RuntimeError,
     "You are attempting to call Tensor.requires_grad_()"),
    ("func.grad(lambda x: x.mul_(2).sum())(x.clone())", RuntimeError,
     "a leaf Variable that requires grad is being used in an in-place operation."),
    # writes to what the function has captured
    ("func.grad(writing)(x)", RuntimeError, MUTATED),
    ("func.grad(counting)(x)", RuntimeError, MUTATED),
    ("func.grad(assigning)(x)", RuntimeError, MUTATED),
    ("func.vjp(writing, x)", RuntimeError, MUTATED),
    ("func.jvp(writing, (x,), (x,))", RuntimeError, MUTATED),
    ("func.jvp(counting, (x,), (x,))", RuntimeError, MUTATED),
    ("func.jacrev(assigning)(x)", RuntimeError, MUTATED),
    ("func.jacfwd(assigning)(x)", RuntimeError, MUTATED),
    ("func.grad(func.grad(writing))(s)", RuntimeError, MUTATED),
    # vjp
    ("func.vjp(torch.sin, x)[1](torch.ones(2))", RuntimeError,
     "Mismatch in shape: grad_output[0] has a shape of torch.Size([2]) and output[0] has a shape of"
     " torch.Size([3])."),
    ("func.vjp(torch.sin, x)[1]((x, x))", RuntimeError, STRUCTURE),
    ("func.vjp(lambda x: (x, x), x)[1]((x,))", RuntimeError, STRUCTURE),
    ("func.vjp(lambda x: (x, x), x)[1]([x, x])", RuntimeError, STRUCTURE),
    ("func.vjp(lambda x: {'a': x}, x)[1]({'b': x})", RuntimeError, STRUCTURE),
    ("func.vjp(lambda x: 1.0, x)", RuntimeError,
     "vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type "
     "<class 'float'>"),
    ("func.vjp(lambda x: (x, 1), x)", RuntimeError,
     "vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type"),
    ("func.vjp(lambda x: None, x)", RuntimeError,
     "vjp(f, *primals): Expected f to be a function that has non-empty output (got output = "),
    ("func.vjp(lambda x: (), x)", RuntimeError,
     "vjp(f, *primals): Expected f to be a function that has non-empty output (got output = []"),
    ("func.vjp(lambda x: x.argmax(), x)", RuntimeError,
     "vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with "
     "dtype torch.int64"),
    ("func.vjp(torch.sin, 1.0)", ValueError, "Thing passed to transform API must be Tensor, got"),
    ("func.vjp(torch.sin, i)", RuntimeError,
     "only Tensors of floating point dtype can require gradients"),
    ("func.vjp(torch.sin, x, has_aux=True)", RuntimeError,
     "vjp(f, *primals): output of function f should be a tuple: (output, aux) if has_aux is True"),
    # jvp
    ("func.jvp(torch.sin, x, x)", RuntimeError,
     JVP + "Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."),
    ("func.jvp(torch.sin, (x,), x)", RuntimeError,
     JVP + "Expected primals and tangents to have the same python structure. For example, if "
     "primals is a tuple of 3 tensors, tangents also must be."),
    ("func.jvp(torch.sin, (x,), (x, x))", RuntimeError,
     JVP + "Expected primals and tangents to have the same python structure."),
    ("func.jvp(lambda d: d['a'], ({'a': x},), ({'b': x},))", RuntimeError,
     JVP + "Expected primals and tangents to have the same python structure."),
    ("func.jvp(torch.sin, (x,), (torch.ones(2),))", RuntimeError,
     "Trying to set a forward gradient that has a different size than that of the original Tensor, "
     "this is not supported. Tensor is of size [3] while the given forward gradient is of size"),
    ("func.jvp(torch.sin, (x,), (1.0,))", RuntimeError,
     JVP + "Expected tangents to only contain Tensors, got <class 'float'>"),
    ("func.jvp(torch.sin, (1.0,), (1.0,))", RuntimeError,
     JVP + "Expected primals to only contain Tensors, got <class 'float'>"),
    ("func.jvp(torch.sin, (), ())", RuntimeError,
     JVP + "Expected primals to contain at least one Tensor."),
    ("func.jvp(torch.sin, (i,), (i,))", ValueError,
     "Expected primal to be floating point or complex, but got: torch.int64"),
    ("func.jvp(torch.sin, (x[:2],), (i,))", ValueError,
     "Expected tangent to be floating point or complex, but got: torch.int64"),
    ("func.jvp(lambda x: 1.0, (x,), (x,))", RuntimeError,
     JVP + "expected f(*primals) to return only tensors, got unsupported type <class 'float'>"),
    ("func.jvp(lambda x: None, (x,), (x,))", RuntimeError,
     JVP + "Expected f to be a function that has non-empty output"),
    ("func.jvp(torch.sin, (x,), (x,), has_aux=True)", RuntimeError,
     JVP + "output of function f should be a tuple: (output, aux) if has_aux is True"),
    ("func.jvp(lambda x: s, (x,), (x,), strict=True)", RuntimeError,
     "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs. This "
     "is not allowed with strict=True."),
    ("func.jvp(lambda x: (x.sin(), s), (x,), (x,), strict=True)", RuntimeError,
     "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs."),
    ("func.jvp(lambda x: x.detach(), (x,), (x,), strict=True)", RuntimeError,
     "jvp(f, primals, tangents, strict=True): The output of f is independent of the inputs."),
    # linearize
    ("func.linearize(torch.sin, x)[1](torch.ones(2))", RuntimeError,
     "tangent:0 with shape torch.Size([2]) in flattened pytree doesn't match the shape "
     "torch.Size([3]) of the corresponding primal."),
    ("func.linearize(torch.sin, x)[1](x.double())", RuntimeError,
     "tangent:0 with dtype torch.float64 in flattened pytree doesn't match the dtype torch.float32 "
     "of the corresponding primal."),
    ("func.linearize(torch.sin, x)[1](x, x)", RuntimeError, "Expected the tangents "),
    # jacobians
    ("func.jacrev(torch.sin)(z)", RuntimeError,
     "jacrev: Expected all inputs to be real but received complex tensor at flattened input idx: "),
    ("func.jacfwd(torch.sin)(z)", RuntimeError,
     "jacfwd: Expected all inputs to be real but received complex tensor at flattened input idx: "),
    ("func.jacrev(lambda x: torch.complex(x, x))(x)", RuntimeError,
     "jacrev: Expected all outputs to be real but received complex tensor at flattened input idx"),
    ("func.jacfwd(lambda x: torch.complex(x, x))(x)", RuntimeError,
     "jacfwd: Expected all outputs to be real but received complex tensor at flattened input idx"),
    ("func.jacrev(torch.sin, chunk_size=0)", ValueError,
     "jacrev: `chunk_size` should be greater than 0."),
    ("func.jacrev(torch.sin, argnums=1)(x)", RuntimeError, "Got argnum=1, but only 1 positional"),
    ("func.jacfwd(torch.sin, argnums=1)(x)", RuntimeError, "Got argnum=1, but only 1 positional"),
    ("func.jacrev(torch.sin, argnums=())(x)", RuntimeError, "argnums must be non-empty"),
    ("func.jacfwd(torch.sin, argnums=())(x)", RuntimeError, "argnums must be non-empty"),
    ("func.jacrev(lambda x: 1.0)(x)", RuntimeError,
     "vjp(f, *primals): expected f(*primals) to return only tensors, got unsupported type"),
    ("func.jacfwd(lambda x: 1.0)(x)", RuntimeError,
     JVP + "expected f(*primals) to return only tensors, got unsupported type"),
    ("func.jacrev(torch.sin)(i)", RuntimeError,
     "only Tensors of floating point dtype can require gradients"),
    ("func.jacfwd(torch.sin)(i)", ValueError,
     "Expected primal to be floating point or complex, but got: torch.int64"),
    ("func.jacrev(torch.sin)(2.0)", ValueError, "Thing passed to transform API must be Tensor"),
    ("func.jacfwd(lambda x: x * torch.rand(()))(x)", RuntimeError, RANDOM),
    # the arguments of vmap
    ("func.vmap(torch.sin, in_dims=[0])(x)", ValueError,
     "vmap(sin, in_dims=[0], ...)(<inputs>): expected `in_dims` to be int or a (potentially nested)"
     " tuple matching the structure of inputs, got: <class 'list'>."),
    ("func.vmap(torch.sin, in_dims=None)(x)", ValueError,
     "vmap(sin, in_dims=None, ...)(<inputs>): expected `in_dims` to be int or a (potentially"),
    ("func.vmap(torch.sin, in_dims=(None,))(x)", ValueError,
     "vmap: Expected at least one Tensor to vmap over"),
    ("func.vmap(torch.sin)()", ValueError,
     "vmap(sin)(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap"
     " over a function with no inputs."),
    ("func.vmap(add, in_dims=(0,))(x, x)", ValueError,
     "vmap(add, in_dims=(0,), ...)(<inputs>): in_dims is not compatible with the structure of "
     "`inputs`. in_dims has structure "),
    ("func.vmap(add, in_dims=(0, (0,)))(x, x)", ValueError,
     "vmap(add, in_dims=(0, (0,)), ...)(<inputs>): in_dims is not compatible with the structure"),
    ("func.vmap(lambda d: d['a'], in_dims=({'b': 0},))({'a': x})", ValueError,
     "vmap(<lambda>, in_dims=({'b': 0},), ...)(<inputs>): in_dims is not compatible with the"),
    ("func.vmap(add)(x, m)", ValueError,
     "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes [3, 2] "
     "for the mapped dimension"),
    ("func.vmap(add)(x, 2.0)", ValueError,
     "vmap(add, in_dims=0, ...)(<inputs>): Got in_dim=0 for an input but the input is of type "
     "<class 'float'>. We cannot vmap over non-Tensor arguments, please use None as the respective "
     "in_dim"),
    ("func.vmap(scaled, in_dims=1)(x)", ValueError,
     "vmap(scaled, in_dims=1, ...)(<inputs>): Got in_dim=1 for some input, but that input is a "
     "Tensor of dimensionality 1 so expected in_dim to satisfy -1 <= in_dim < 1."),
    ("func.vmap(scaled, in_dims=-2)(x)", ValueError,
     "vmap(scaled, in_dims=-2, ...)(<inputs>): Got in_dim=-2 for some input, but that input is a"),
    ("func.vmap(scaled)(s)", ValueError,
     "vmap(scaled, in_dims=0, ...)(<inputs>): Got in_dim=0 for some input, but that input is a "
     "Tensor of dimensionality 0"),
    ("func.vmap(scaled, in_dims=(0.5,))(x)", ValueError,
     "vmap(scaled, in_dims=(0.5,), ...)(<inputs>): Got in_dim=0.5 for an input but in_dim must be "
     "either an integer dimension or None."),
    ("func.vmap(torch.sin, randomness='foo')(x)", RuntimeError,
     "Only allowed values for randomness are 'error', 'different', or 'same'. Got foo"),
    ("func.vmap(torch.sin, chunk_size=0)(x)", ValueError,
     "vmap: chunk_size should be None or greater than 0. (got 0)"),
    # the results of vmap
    ("func.vmap(lambda x: 1.0)(x)", ValueError,
     "vmap(<lambda>, ...): `<lambda>` must only return Tensors, got type <class 'float'>. Did you "
     "mean to set out_dims= to None for output?"),
    ("func.vmap(lambda x: None)(x)", ValueError,
     "vmap(<lambda>, ...): `<lambda>` must only return Tensors, got type <class 'NoneType'>."),
    ("func.vmap(lambda x: (x, 1))(x)", ValueError,
     "vmap(<lambda>, ...): `<lambda>` must only return Tensors, got type <class 'int'>."),
    ("func.vmap(scaled, out_dims=None)(x)", ValueError,
     "vmap(scaled, ...): `scaled` can not return a BatchedTensor when out_dim is None"),
    ("func.vmap(lambda x: (x, x), out_dims=(0,))(x)", ValueError,
     "vmap(<lambda>, ..., out_dims=(0,))(<inputs>): out_dims is not compatible with the structure "
     "of `outputs`. out_dims has structure "),
    ("func.vmap(scaled, out_dims=(0, 0))(x)", ValueError,
     "vmap(scaled, ..., out_dims=(0, 0))(<inputs>): out_dims is not compatible with the structure"),
    ("func.vmap(lambda x: {'a': x, 'b': x}, out_dims={'a': 0})(m)", ValueError,
     "vmap(<lambda>, ..., out_dims={'a': 0})(<inputs>): out_dims is not compatible with the"),
    ("func.vmap(scaled, out_dims='a')(x)", ValueError,
     "vmap(scaled, ..., out_dims=a): `out_dims` must be an int, None or a python collection of "
     "ints representing where in the outputs the vmapped dimension should appear."),
    ("func.vmap(scaled, out_dims=3)(m)", IndexError,
     "Dimension out of range (expected to be in range of [-2, 1], but got 3)"),
    ("func.vmap(scaled, out_dims=-3)(m)", IndexError,
     "Dimension out of range (expected to be in range of [-2, 1], but got -3)"),
    # what a mapped function may not do
    ("func.vmap(lambda x: x.item())(x)", RuntimeError, ITEM),
    ("func.vmap(lambda x: float(x) * x)(x)", RuntimeError, ITEM),
    ("func.vmap(lambda x: int(x) * x)(x)", RuntimeError, ITEM),
    ("func.vmap(lambda i: x[i:])(i)", RuntimeError, ITEM),
    ("func.vmap(lambda x: torch.tensor([x, 1.0]))(x)", RuntimeError, ITEM),
    ("func.vmap(branching)(m)", RuntimeError, CONTROL),
    ("func.vmap(looping)(m)", RuntimeError, CONTROL),
    ("func.vmap(lambda x: x if x else -x)(x)", RuntimeError, CONTROL),
    ("func.vmap(func.vmap(branching))(m[None, :, :, None])", RuntimeError, CONTROL),
    ("func.vmap(func.grad(lambda x: branching(x).sum()))(m)", RuntimeError,
     "vmap: It looks like you're "),
    ("func.vmap(lambda x: x[x > 0])(m)", RuntimeError, DYNAMIC),
    ("func.vmap(lambda x: x.nonzero())(m)", RuntimeError, DYNAMIC),
    ("func.vmap(lambda x: x.unique())(m)", RuntimeError, DYNAMIC),
    ("func.vmap(lambda x: torch.zeros(3).copy_(x))(m)", RuntimeError, INPLACE),
    ("func.vmap(lambda x: captured.__setitem__(0, x.sum()))(m)", RuntimeError, INPLACE),
    ("func.vmap(lambda x: x.sum().backward())(x)", RuntimeError,
     "backward() called inside a functorch transform. This is not supported"),
    ("func.vmap(lambda x: x.requires_grad_())(x)", RuntimeError,
     "You are attempting to call Tensor.requires_grad_()"),
    ("func.vmap(lambda x: torch.rand(2))(x)", RuntimeError, RANDOM),
    ("func.vmap(lambda x: torch.zeros(5).normal_(), randomness='different')(x)", RuntimeError,
     "vmap: Cannot ask for different inplace randomness on an unbatched tensor."),
    ("(func.vmap(keeping)(x), kept[0] + 1)", RuntimeError,
     "Either your tensor may have escaped from inside a function being vmapped"),
]  # fmt: skip

# Ours alone: what PyTorch answers with an error of another kind, or in a way that helps nobody.
BEYOND = [
    ("func.jacfwd(torch.sin)(2.0)", ValueError, "Thing passed to transform API must be Tensor"),
    ("func.hessian(lambda x: x.sum())(2.0)", ValueError, "Thing passed to transform API must be"),
    ("func.vmap(lambda x: torch.zeros(()).add_(x))(x)", RuntimeError, INPLACE),
    ("func.vmap(lambda x: torch.zeros(3).add_(x))(m)", RuntimeError, INPLACE),
    ("func.vmap(writing)(m)", RuntimeError, INPLACE),
    ("func.vmap(lambda x: x.tolist())(x)", RuntimeError, "vmap: It looks like you're calling"),
    ("func.vmap(lambda x: x.numpy())(x)", RuntimeError, "vmap: It looks like you're calling"),
]


def space_of(torch: Torch) -> dict[str, Any]:
    space: dict[str, Any] = {"torch": torch, "func": torch.func}
    exec(SETTING, space)
    return space


def said(error: BaseException) -> str:
    return re.sub(r"\bretrograd\.", "torch.", str(error))


def must_fail(space: dict[str, Any], code: str, kind: type[Exception], words: str) -> str:
    with pytest.raises(kind) as caught:
        eval(code, space)
    message = said(caught.value)
    assert message.startswith(words)
    assert type(caught.value) is kind
    return message


@pytest.mark.parametrize(("code", "kind", "words"), CASES, ids=[c[0] for c in CASES])
def test_mistakes(torch: Torch, code: str, kind: type[Exception], words: str) -> None:
    space = space_of(torch)
    must_fail(space, code, kind, words)
    # and nothing is half done
    assert space["captured"].tolist() == [0, 0, 0]
    assert space["m"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert space["x"].tolist() == [1, 2, 3]
    assert not space["x"].requires_grad
    assert torch.func.grad(lambda x: x * x)(space["s"]).item() == 4
    assert torch.func.vmap(torch.neg)(space["x"]).tolist() == [-1, -2, -3]
    if torch is retrograd:
        assert not _modes.switch.active


@pytest.mark.parametrize(("code", "kind", "words"), BEYOND, ids=[c[0] for c in BEYOND])
def test_mistakes_that_pytorch_answers_otherwise(
    code: str, kind: type[Exception], words: str
) -> None:
    must_fail(space_of(retrograd), code, kind, words)
    assert not _modes.switch.active


# What a message must tell, in these words or others: which argument, and what to do.
HELPFUL = [
    ("func.vmap(add)(x, m)", r"\[3, 2\]"),
    ("func.vmap(add, in_dims=(0,))(x, x)", r"in_dims has structure .* but inputs has structure"),
    ("func.vmap(branching)(m)", r"torch\.where"),
    ("func.vmap(lambda x: x.item())(x)", r"rewrite"),
    ("func.vmap(lambda x: x[x > 0])(m)", r"torch\.where"),
    ("func.vmap(writing)(m)", r"zeros_like|new_zeros|out-of-place"),
    ("func.grad(writing)(x)", r"accept the mutated Tensor"),
    ("func.vjp(lambda x: {'a': x}, x)[1]({'b': x})", r"'b'.*'a'"),
    ("func.jvp(torch.sin, (x,), (x, x))", r"Got primals with structure .* and tangents with"),
    ("func.linearize(torch.sin, x)[1](x, x)", r"same argspec as the primals"),
    ("func.jvp(lambda x: (x.sin(), s), (x,), (x,), strict=True)", r"output 1|second|\[1\]"),
]


@pytest.mark.parametrize(("code", "pattern"), HELPFUL, ids=[c[0] for c in HELPFUL])
def test_messages_say_which_argument_and_what_to_do(code: str, pattern: str) -> None:
    with pytest.raises((RuntimeError, ValueError)) as caught:
        eval(code, space_of(retrograd))
    assert re.search(pattern, said(caught.value), re.S), said(caught.value)


# -- not mistakes ----------------------------------------------------------------------------

FINE = [
    ("func.grad(lambda x: x.sum().item() * x.sum())(x)", [6, 6, 6]),
    ("func.grad(lambda x: branching(x).sum())(x)", [1, 1, 1]),
    ("func.jvp(lambda x: looping(x).sum(), (x,), (x,))[1]", 12),
    ("func.grad(lambda x: x.detach().sum())(x)", [0, 0, 0]),
    ("func.grad(lambda x: x.data.sum())(x)", [0, 0, 0]),
    ("func.grad(lambda x: torch.tensor(3))(x)", [0, 0, 0]),
    ("func.grad(lambda x: (x.double() ** 2).sum())(x)", [2, 4, 6]),
    ("func.grad(lambda x: torch.autograd.grad((x ** 3).sum(), x, create_graph=True)[0].sum())(x)",
     [6, 12, 18]),
    ("func.jvp(lambda x: x.argmax(), (x,), (x,))[1]", 0),
    ("func.vmap(branching, in_dims=1)(m) if False else func.vmap(lambda y: branching(x) * y)(x)",
     [[1, 2, 3], [2, 4, 6], [3, 6, 9]]),  # looks at what is not mapped
    ("func.vmap(lambda y: x.sum().item() * y)(x)", [6, 12, 18]),
    ("func.vmap(lambda x: torch.zeros_like(x).copy_(x))(m)", [[0, 1, 2], [3, 4, 5]]),
    ("func.vmap(lambda x: x.new_zeros(3).copy_(x))(m)", [[0, 1, 2], [3, 4, 5]]),
    ("func.vmap(lambda x: torch.tensor(x.shape))(m)", [[3], [3]]),
    ("(func.grad(lambda x: keeping(x).sum())(x), kept[0] + 1)[1]", [2, 3, 4]),
]  # fmt: skip


@pytest.mark.parametrize(("code", "expected"), FINE, ids=[c[0] for c in FINE])
def test_what_is_allowed(torch: Torch, code: str, expected: Any) -> None:
    assert eval(code, space_of(torch)).tolist() == expected


def test_saved_tensor_hooks_work_inside_transforms(torch: Torch) -> None:
    """Beyond PyTorch, which refuses them."""
    packed: list[Any] = []

    def f(x: Any) -> Any:
        def pack(t: Any) -> Any:
            packed.append(t.clone())
            return len(packed) - 1

        with torch.autograd.graph.saved_tensors_hooks(pack, packed.__getitem__):
            return (x**3).sum()

    func, x = torch.func, torch.tensor([1.0, 2.0])
    if torch is not retrograd:
        with pytest.raises(RuntimeError, match="don't yet support saved tensor hooks"):
            func.grad(f)(x)
        return
    assert func.grad(f)(x).tolist() == [3, 12]
    assert len(packed) > 0
    assert func.hessian(f)(x).tolist() == [[6, 0], [0, 12]]
    assert func.vmap(func.grad(f))(x[:, None]).tolist() == [[3], [12]]


def test_attributes_that_only_arrays_have_are_refused() -> None:
    found = {}

    def f(x: Any) -> Any:
        for name in ("astype", "flags", "real", "astype_", "__array_interface__"):
            try:
                getattr(x._data, name)
            except AttributeError as error:
                found[name] = str(error)
        # It would slow down each access to an attribute that exists.
        assert not hasattr(type(x._data), "__getattr__")
        return x

    retrograd.func.vmap(f)(retrograd.ones(2))
    for name in ("astype", "flags", "real"):
        assert found[name] == f"{name} of a value under vmap"
    assert found.keys() == {"astype", "flags", "real", "astype_", "__array_interface__"}
