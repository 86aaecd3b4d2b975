"""Modules: attributes, state, hooks, printing. Each script is run here and in PyTorch, and must
print the same."""

import contextlib
import io
import textwrap
from typing import Any

import pytest

import retrograd

LAYER = """
class Layer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("scratch", torch.zeros(1), persistent=False)
    def forward(self, x):
        return F.linear(x, self.weight, self.bias)
    def extra_repr(self):
        return "plain"

def attempt(function, *args, **kwargs):
    try:
        print(function(*args, **kwargs))
    except Exception as error:
        print(type(error).__name__, str(error))
"""

SCRIPTS = {
    "walking": """
        m = nn.Sequential(Layer(2, 3), nn.ModuleList([Layer(1, 1), Layer(1, 1)]))
        print(m)
        print(list(m.state_dict()))
        print([n for n, _ in m.named_parameters()], [n for n, _ in m.named_modules()])
        print([n for n, _ in m.named_buffers()], [n for n, _ in m.named_children()])
        print([n for n, _ in m.named_parameters(prefix="p", recurse=False)])
        order = []
        m.apply(lambda x: order.append(type(x).__name__))
        print(order)
    """,
    "shared parts": """
        shared = Layer(2, 2)
        m = nn.Sequential(shared, nn.ReLU(), shared)
        print(len(list(m.parameters())), [n for n, _ in m.named_modules()])
        print([n for n, _ in m.named_modules(remove_duplicate=False)])
        print([n for n, _ in m.named_parameters(remove_duplicate=False)])
        print(list(m.state_dict()))
        other = nn.Sequential(Layer(2, 2), nn.ReLU(), Layer(2, 2))
        print(m.load_state_dict(other.state_dict()))
    """,
    "loading": """
        m = nn.Sequential(Layer(2, 3))
        attempt(m.load_state_dict, {"0.weight": torch.ones(2), "x": torch.ones(1)})
        state = {"0.weight": torch.ones(3, 2), "x.y": torch.ones(1)}
        attempt(m.load_state_dict, state, strict=False)
        attempt(m.load_state_dict, [1])
        attempt(m.load_state_dict, {"0.weight": 3}, strict=False)
        attempt(m.load_state_dict, {"0.bias": torch.ones(3)}, strict=False)
        print(m[0].bias)
        state = {"0.bias": torch.zeros(3, dtype=torch.float64)}
        m.load_state_dict(state, strict=False, assign=True)
        print(m[0].bias)
        class Extra(Layer):
            def get_extra_state(self): return {"a": 1}
            def set_extra_state(self, state): print("got", state)
        e = Extra(1, 1)
        print(list(e.state_dict()))
        print(e.load_state_dict(e.state_dict()))
        attempt(e.load_state_dict, Layer(1, 1).state_dict())
        attempt(Layer(1, 1).load_state_dict, e.state_dict())
    """,
    "state hooks": """
        m = nn.Sequential(Layer(1, 1))
        m.register_state_dict_pre_hook(lambda *a: print("before", a[1:]))
        m[0].register_state_dict_post_hook(lambda mod, sd, prefix, about: print(list(sd), prefix))
        m[0].register_load_state_dict_pre_hook(lambda mod, *a: print(sorted(a[0]), a[1]))
        m.register_load_state_dict_post_hook(lambda mod, keys: keys.missing_keys.clear())
        s = m.state_dict()
        print(m.load_state_dict({}))
    """,
    "attributes": """
        l = Layer(2, 3)
        def setting(name, value): setattr(l, name, value)
        attempt(setting, "weight", torch.ones(1))
        attempt(setting, "count", 3)
        attempt(l.register_parameter, "a.b", None)
        attempt(l.register_parameter, "", None)
        attempt(l.register_parameter, "forward", None)
        attempt(l.register_parameter, "q", torch.ones(1))
        attempt(l.register_parameter, "q", 3)
        attempt(l.register_buffer, "weight", None)
        attempt(l.register_buffer, "b", 3)
        attempt(l.add_module, "weight", nn.ReLU())
        attempt(l.add_module, "a.b", nn.ReLU())
        attempt(l.add_module, "a", 3)
        attempt(lambda: l.nothing)
        attempt(l.get_submodule, "q")
        attempt(l.get_parameter, "count")
        attempt(l.get_buffer, "weight")
        attempt(l.get_parameter, "bias")
        attempt(setting, "extra", nn.Parameter(torch.ones(1) * l.weight.sum()))
        attempt(setting, "extra", nn.ReLU())
        del l.extra
        l.extra = nn.ReLU()
        attempt(setting, "extra", 3)
        l.extra = None
        print(l)
        l.count = torch.ones(2)
        l.here = nn.Buffer(torch.ones(1), persistent=False)
        print(list(l.state_dict()), [n for n, _ in l.named_buffers()])
        l.bias = None
        del l.weight
        print(list(l.state_dict()), "weight" in dir(l), "bias" in dir(l))
        class Early(nn.Module):
            def __init__(self):
                self.weight = nn.Parameter(torch.ones(1))
        attempt(Early)
        class NoForward(nn.Module): pass
        attempt(NoForward(), 1)
        attempt(l.train, 1)
    """,
    "hooks": """
        log = []
        l = Layer(2, 3)
        l.register_forward_pre_hook(lambda mod, a: log.append("before"))
        l.register_forward_pre_hook(lambda mod, a, k: ((a[0] + 1,), k), with_kwargs=True)
        l.register_forward_hook(lambda mod, a, o: o * 2)
        first = l.register_forward_hook(lambda mod, a, o: log.append("first"), prepend=True)
        l.register_full_backward_pre_hook(lambda mod, g: log.append(g[0].tolist()))
        l.register_full_backward_hook(lambda mod, i, o: None if i[0] is None else
                                      (i[0] * 10,))
        l.register_full_backward_hook(lambda mod, i, o: log.append((str(i[0]), o[0].tolist())))
        x = torch.ones(1, 2, requires_grad=True)
        y = l(x)
        print(y.tolist(), type(y.grad_fn).__name__)
        y.sum().backward()
        print(log, x.grad, l.weight.grad)
        log.clear(); first.remove()
        l(torch.ones(1, 2)).sum().backward()
        print(log)
        class Fails(nn.Module):
            def forward(self, x): raise ValueError("no")
        f = Fails()
        f.register_forward_hook(lambda mod, a, o: print("always", o), always_call=True)
        attempt(f, x)
        register = nn.modules.module.register_module_forward_hook
        from_all = register(lambda mod, a, o: print(type(mod)))
        nn.ReLU()(x); from_all.remove(); nn.ReLU()(x)
        attempt(lambda: [h for h in [l.register_full_backward_hook(lambda *a: (1, 2))]] and
                l(x).sum().backward())
    """,
    "dtypes and modes": """
        m = nn.Sequential(Layer(2, 2), nn.Dropout(0.5))
        weight = m[0].weight
        weight.grad = torch.ones(2, 2)
        m.double()
        print(weight is m[0].weight, weight.dtype, weight.grad.dtype, m[0].count.dtype)
        print(m.to(torch.float32)[0].weight.dtype, m.to("cpu")[0].bias.dtype)
        attempt(m.to, torch.int64)
        print(m.eval().training, m[1].training, m.train()[1].training)
        m.requires_grad_(False)
        print([p.requires_grad for p in m.parameters()])
        m.zero_grad(set_to_none=False)
        print(weight.grad)
        m.zero_grad()
        print(weight.grad)
    """,
    "copies": """
        import copy, pickle
        l = nn.Linear(2, 2)
        c = copy.deepcopy(l)
        print(c.weight.equal(l.weight), c.weight is l.weight, isinstance(c.weight, nn.Parameter))
        p = pickle.loads(pickle.dumps(l))
        print(p.weight.equal(l.weight), p.weight.requires_grad, type(p.weight).__name__)
        print(copy.deepcopy(nn.Parameter(torch.ones(1), requires_grad=False)))
    """,
    "containers": """
        s = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
        print(s[1:], s[-1], len(s), len(s + s), len(s * 2))
        del s[0]
        s.insert(1, nn.ReLU()); s.append(nn.Tanh()); s[0] = nn.GELU()
        print(s, s.pop(1), [n for n, _ in s.named_children()])
        attempt(lambda: s[7])
        l = nn.ModuleList([nn.ReLU()] * 2 + [nn.Tanh()])
        print(l, l[:2], len(l + l))
        l.insert(0, nn.GELU()); l.extend([nn.ReLU()]); del l[1]
        print(l)
        attempt(l.extend, 3)
        d = nn.ModuleDict({"a": nn.ReLU()})
        d["b"] = nn.Tanh(); d.update([("c", nn.ReLU())])
        print(d, "a" in d, list(d.keys()), d.pop("a"))
        p = nn.ParameterList([torch.ones(2), nn.Parameter(torch.zeros(1))])
        p.append(torch.ones(1)); p[0] = torch.zeros(3)
        print(p, len(p), p[-1], list(p.state_dict()))
        q = nn.ParameterDict({"a": torch.ones(2)}); q["b"] = torch.zeros(1)
        print(q, list(q.keys()), q.pop("a"))
        from collections import OrderedDict
        pairs = [("z", torch.ones(1)), ("y", torch.ones(2)), ("x", torch.ones(3))]
        for given in (dict(pairs), OrderedDict(pairs), pairs):
            q = nn.ParameterDict(given); q.update(nn.ParameterDict(OrderedDict(w=torch.ones(1))))
            print(list(q.keys()), [n for n, _ in q.named_parameters()])
        print(nn.Sequential(OrderedDict(first=nn.ReLU(), second=nn.Tanh())))
    """,
}


def printed(library: Any, script: str) -> str:
    names = {"torch": library, "nn": library.nn, "F": library.nn.functional}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(LAYER + textwrap.dedent(script), names)
    return out.getvalue().replace("torch.nn.modules.activation", "retrograd.nn.activations")


@pytest.mark.filterwarnings("ignore:Full backward hook is firing:UserWarning")
@pytest.mark.parametrize("name", SCRIPTS)
def test_modules_do_what_pytorchs_do(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is the reference to compare with")
    theirs, ours = (printed(library, SCRIPTS[name]) for library in (torch, retrograd))
    assert ours == theirs


def test_a_state_that_does_not_fit_changes_nothing() -> None:
    torch = retrograd
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    before = {n: x.clone() for n, x in model.state_dict().items()}
    state = {n: torch.zeros_like(x) for n, x in before.items()}
    state["1.weight"] = torch.zeros(3)
    with pytest.raises(RuntimeError, match=r"size mismatch for 1.weight"):
        model.load_state_dict(state)
    assert all(x.equal(before[n]) for n, x in model.state_dict().items())
