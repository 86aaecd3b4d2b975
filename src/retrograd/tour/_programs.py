"""The programs of the tour, in the order of the five notes they come from.

Where a note prints a program, it stands here as it does there. Where it only describes one, or
shows it in a picture, the program is written out.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A program to run: what it shows, and its text."""

    title: str
    shows: str
    source: str
    continues: bool = False  # with the variables of the program before
    fails: type[Exception] | None = None  # the error that it is there to show


@dataclass(frozen=True)
class Note:
    """One of the notes, and its programs."""

    title: str
    programs: tuple[Program, ...]


_BACKWARD = Note(
    "Note 1. An introduction to torch.autograd.backward()",
    (
        Program(
            "Tensors that remember how they were made",
            "A tensor prints the operation that made it. That operation, its grad_fn, is the\n"
            "way back to whatever it was computed from.",
            """\
import retrograd as torch
z = torch.tensor([1.0, 3.0], requires_grad=True)
y = z**2
l = y.sum()
print(z)
print(y)
print(l)
""",
        ),
        Program(
            "Backward from a vector",
            "grad_tensors is the gradient of some later result with respect to y. backward\n"
            "multiplies it by the Jacobian of y: a vector-Jacobian product, left in z.grad.",
            """\
gradient_tensors = torch.tensor([1.0, 1.0])
torch.autograd.backward(tensors = y, grad_tensors = gradient_tensors)
print(z.grad)
""",
            continues=True,
        ),
        Program(
            "Backward from a number",
            "The gradient of a number with respect to itself is 1, so none has to be given.",
            """\
import retrograd as torch
z1 = torch.tensor([1.0, 3.0], requires_grad=True)
y1 = z1**2
l = y1.sum()
l.backward()
print(z1.grad)
""",
        ),
        Program(
            "Only the inputs that matter",
            "inputs names the tensors whose gradient is wanted; all others are left alone. A\n"
            "GradientEdge names one without keeping it in memory.",
            """\
import retrograd as torch
a = torch.tensor([1.0, 3.0], requires_grad=True)
b = torch.tensor([2.0, 2.0], requires_grad=True)
torch.autograd.backward((a * b).sum(), inputs=a)
print(a.grad, b.grad)
edge = torch.autograd.graph.get_gradient_edge(b)
torch.autograd.backward((a * b).sum(), inputs=[edge])
print(a.grad, b.grad)
""",
        ),
        Program(
            "A pipeline of two stages",
            "Each stage sees only its own part of the graph. The second sends back the gradient\n"
            "of what it was given, and the first goes on from there.",
            """\
import retrograd as torch
w1 = torch.tensor([1.0, 3.0], requires_grad=True)
w2 = torch.tensor([0.5, 2.0], requires_grad=True)
outputs = w1**2

received = outputs.detach().requires_grad_()
loss = (received * w2).sum()
loss.backward()

torch.autograd.backward(tensors=outputs, grad_tensors=received.grad)
print(w1.grad, w2.grad)
""",
        ),
    ),
)

_GRAPH = Note(
    "Note 2. The basic knowledge of PyTorch autograd",
    (
        Program(
            "The graph behind a result",
            "Computing out builds a graph of operations. Its root is out.grad_fn, its leaves are\n"
            "the places where gradients are accumulated.",
            """\
import retrograd as torch
a = torch.tensor([2.0, 3.0], requires_grad=True)
b = torch.tensor([6.0, 4.0], requires_grad=True)
M = lambda x, y: 3*x**3 - y**2
out = M(a, b)

to_visit = [(out.grad_fn, 0)]
while to_visit:
    node, depth = to_visit.pop()
    leaf = ""
    if hasattr(node, "variable"):
        leaf = " of a" if node.variable is a else " of b"
    print("    " * depth + type(node).__name__ + leaf)
    inputs = [n for n, _ in node.next_functions if n is not None]
    to_visit += [(n, depth + 1) for n in reversed(inputs)]
""",
        ),
        Program(
            "Backward from a vector, through that graph",
            "A vector needs an initial gradient of its own shape. The slopes are 9*a**2 and -2*b.",
            """\
init_gradient = torch.ones(2)
out.backward(gradient = init_gradient)
print(a.grad, 9 * a.detach()**2)
print(b.grad, -2 * b.detach())
""",
            continues=True,
        ),
        Program(
            "Gradients are for leaves, and a graph is for one use",
            "Intermediate results keep no gradient unless asked to. After backward the values\n"
            "saved in the graph are gone, and the next forward builds a new one.",
            """\
import retrograd as torch
x = torch.tensor([1.0, 2.0], requires_grad=True)
plain, kept = x * x, x * x
kept.retain_grad()
l = (plain + kept).sum()
l.backward()
print(x.is_leaf, kept.is_leaf, plain.retains_grad)
print(x.grad, kept.grad)
try:
    l.backward()
except RuntimeError as error:
    print(str(error).split(" (")[0])
""",
        ),
        Program(
            "An operation of one's own",
            "A Function has a forward and a backward. apply runs the first and leaves a node in\n"
            "the graph that will run the second.",
            """\
import retrograd as torch

class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, i):
        result = i.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, grad_output):
        result, = ctx.saved_tensors
        return grad_output * result

x = torch.tensor([0.0, 1.0, 2.0], requires_grad=True)
y = Exp.apply(x)
print(y)
print(y.grad_fn.name())
y.sum().backward()
print(x.grad)
""",
        ),
        Program(
            "Training",
            "Forward, backward, and a step against the gradient, again and again. The data lie\n"
            "on the line 3 * x + 1.",
            """\
import retrograd as torch
x = torch.tensor([0.0, 1.0, 2.0, 3.0])
y = 3 * x + 1
params = [torch.tensor(0.0, requires_grad=True) for _ in range(2)]
lr = 0.1
for step in range(101):
    slope, offset = params
    l = ((slope * x + offset - y)**2).mean()
    l.backward()
    if step % 25 == 0:
        print(f"step {step:3d}  loss {l.item():7.4f}  {slope.item():.3f} * x + {offset.item():.3f}")
    params = [(p - lr * p.grad).detach().requires_grad_() for p in params]
""",
        ),
    ),
)

_WEIGHTS = Note(
    "Note 3. What grad_tensors is for",
    (
        Program(
            "ReLU, from Dive into Deep Learning",
            "The derivative of ReLU at 160 points at once. It is a vector of results, so backward\n"
            "is given a weight for each of them.",
            """\
import retrograd as torch
x = torch.arange(-8.0, 8.0, 0.1, requires_grad=True)
y = torch.relu(x)
y.backward(torch.ones_like(x), retain_graph=True)
""",
        ),
        Program(
            "What that left behind",
            "A slope of 0 below zero and of 1 above. This is every twentieth, from x = -7 on.",
            """\
print(x.grad.shape)
print(x.grad[10::20])
""",
            continues=True,
        ),
        Program(
            "Without the weights",
            "Which of the three results should be differentiated? Nothing says so: an error.",
            """\
import retrograd as torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x*x
y.backward()
""",
            fails=RuntimeError,
        ),
        Program(
            "The Jacobian that was never built",
            "One row of the Jacobian takes one backward pass. With all rows in hand, the product\n"
            "of its transpose with v is what a single pass with v computes.",
            """\
import retrograd as torch
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
y = x * x.sum()
rows = [torch.autograd.grad(y, x, row, retain_graph=True)[0] for row in torch.eye(3)]
jacobian = torch.stack(rows)
v = torch.tensor([1.0, 0.1, 0.01])
print(jacobian)
print(jacobian.T @ v)
y.backward(v)
print(x.grad)
""",
        ),
    ),
)

_THEORY = Note(
    "Note 4. Automatic differentiation and PyTorch in brief",
    (
        Program(
            "The slope of the sigmoid",
            "The note derives it by hand: (1 - sigmoid) * sigmoid.",
            """\
import retrograd as torch
x = torch.tensor([-2.0, 0.0, 2.0], requires_grad=True)
y = 1 / (1 + torch.exp(-x))
y.sum().backward()
print(x.grad)
print(((1 - y) * y).detach())
""",
        ),
        Program(
            "A circuit, backwards by hand",
            "Each line of the forward pass has its lines in the backward pass, in reverse order.\n"
            "backward() finds the same numbers on its own.",
            """\
import retrograd as torch
from retrograd import sigmoid
w0, x0 = torch.tensor(2.0, requires_grad=True), torch.tensor(-1.0, requires_grad=True)
w1, x1 = torch.tensor(-3.0, requires_grad=True), torch.tensor(-2.0, requires_grad=True)
w2 = torch.tensor(-3.0, requires_grad=True)

s0 = w0 * x0
s1 = w1 * x1
s2 = s0 + s1
s3 = s2 + w2
L = sigmoid(s3)

with torch.no_grad():
    grad_L = 1.0
    grad_s3 = grad_L * (1 - L) * L
    grad_w2 = grad_s3
    grad_s2 = grad_s3
    grad_s0 = grad_s2
    grad_s1 = grad_s2
    grad_w1 = grad_s1 * x1
    grad_x1 = grad_s1 * w1
    grad_w0 = grad_s0 * x0
    grad_x0 = grad_s0 * w0

L.backward()
print(L)
print("by hand:   ", *(f"{g.item():.4f}" for g in (grad_w0, grad_x0, grad_w1, grad_x1, grad_w2)))
print("backward():", *(f"{p.grad.item():.4f}" for p in (w0, x0, w1, x1, w2)))
""",
        ),
        Program(
            "ReLU without its Jacobian",
            "The Jacobian of ReLU has nothing off its diagonal. What comes from above passes\n"
            "where x > 0 and stops elsewhere; no matrix is needed.",
            """\
import retrograd as torch
x = torch.tensor([1.0, -2.0, 3.0, -1.0], requires_grad=True)
upstream = torch.tensor([4.0, -1.0, 5.0, 9.0])
z = torch.relu(x)
z.backward(upstream)
print(z)
print(x.grad)
print(torch.where(x > 0, upstream, 0.0))
""",
        ),
        Program(
            "The gradients of a matrix product",
            "dL/dx = dL/dy @ w.T and dL/dw = x.T @ dL/dy. (The note prints y as 4 x 4, but the x\n"
            "and w it prints have a 2 x 4 product. The last two rows it prints serve as dL/dy.)",
            """\
import retrograd as torch
x = torch.tensor([[2., 1., -3.], [3., 4., 2.]], requires_grad=True)
w = torch.tensor([[3., 2., 1., -1.], [2., 1., 3., 2.], [3., 2., 1., -2.]], requires_grad=True)
y = x @ w
print(y)
upstream = torch.tensor([[2., 3., -3., 9.], [-8., 1., 4., 6.]])
y.backward(upstream)
print(x.grad)
print(w.grad)
print(torch.equal(x.grad, upstream @ w.T), torch.equal(w.grad, x.T @ upstream))
""",
        ),
        Program(
            "Derivatives of any order",
            "With create_graph the backward pass is itself recorded, so its result can be\n"
            "differentiated again. These are x**4 at 2 and exp(2 * x) at 0, and four derivatives.",
            """\
import retrograd as torch
for f, at in ((lambda x: x**4, 2.0), (lambda x: torch.exp(2 * x), 0.0)):
    x = torch.tensor(at, requires_grad=True)
    y = f(x)
    orders = [y.item()]
    for order in range(4):
        y, = torch.autograd.grad(y, x, create_graph=True)
        orders.append(y.item())
    print(orders)
""",
        ),
        Program(
            "The second derivatives of a function of several variables",
            "A gradient of a gradient, one row at a time: the matrix of second derivatives of\n"
            "x * x * y, which is [[2 * y, 2 * x], [2 * x, 0]].",
            """\
import retrograd as torch
p = torch.tensor([3.0, 5.0], requires_grad=True)
slopes, = torch.autograd.grad(p[0] * p[0] * p[1], p, create_graph=True)
print(slopes.detach())
print(torch.stack([torch.autograd.grad(s, p, retain_graph=True)[0] for s in slopes]))
""",
        ),
    ),
)

_EXAMPLES = Note(
    "Note 5. Back-propagation with backward()",
    (
        Program(
            "Example 1: from a number",
            "out is the mean of 3 * (x + 2)**2 over four elements, so its slope in each is\n"
            "6 * 3 / 4 = 4.5.",
            """\
import retrograd as torch

x = torch.ones(2, 2, requires_grad=True)
y = x + 2
z = y * y * 3
out = z.mean()

print(x)
print(y)
print(z)
print(out)

out.backward()
print(x.grad)
""",
        ),
        Program(
            "Example 2: from a matrix, and then once more",
            "retain_graph keeps the graph for the second call, whose gradients are added to the\n"
            "first's: 1.8 + 4.5 = 6.3.",
            """\
import retrograd as torch

x = torch.ones(2, 2, requires_grad=True)
y = x + 2
z = y * y * 3
out = z.mean()

print(x)
print(y)
print(z)
print(out)


gradients = torch.tensor([[0.1, 1.0], [1.0,1.0]], dtype=torch.float)
z.backward(gradients,retain_graph=True)
print(x.grad)

out.backward()
print(x.grad)
""",
        ),
        Program(
            "Starting afresh",
            "x.grad = None clears what was accumulated.",
            """\
x.grad = None
(3 * (x + 2)**2).mean().backward()
print(x.grad)
""",
            continues=True,
        ),
    ),
)

NOTES = (_BACKWARD, _GRAPH, _WEIGHTS, _THEORY, _EXAMPLES)
