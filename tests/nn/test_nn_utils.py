"""``nn.utils``: what its functions do, print and say. Each script is run here and in PyTorch, and
must print the same."""

import contextlib
import io
import textwrap
from typing import Any

import numpy as np
import pytest
from _computed_weights import space

import retrograd

nn = retrograd.nn


SCRIPTS = {
    "registering and removing": """
        l = nn.Linear(3, 3)
        print(Z.is_parametrized(l), Z.is_parametrized(l, "weight"))
        print(Z.type_before_parametrizations(l) is nn.Linear)
        w = l.weight
        Z.register_parametrization(l, "weight", Symmetric())
        Z.register_parametrization(l, "bias", Doubled())
        print(l, Z.is_parametrized(l), Z.is_parametrized(l, "weight"), Z.is_parametrized(l, "x"))
        print(type(l).__name__, Z.type_before_parametrizations(l) is nn.Linear)
        print(isinstance(l, nn.Linear), [n for n, _ in l.named_modules()])
        print(list(l.state_dict()), [n for n, _ in l.named_children()])
        print(l.parametrizations.weight.original is w, w.is_leaf, l.weight.is_leaf)
        print("weight" in dir(l), hasattr(l, "weight"), l.parametrizations["weight"][0].training)
        p = l.parametrizations.weight
        print(type(p).__name__, len(p), p.unsafe, p.is_tensor, p.ntensors)
        Z.remove_parametrizations(l, "weight")
        print(l, l.weight is w, bool((w == w.T).all()), list(l.state_dict()))
        Z.remove_parametrizations(l, "bias", leave_parametrized=False)
        print(l, type(l).__name__, hasattr(l, "parametrizations"), list(l.state_dict()))
        attempt(Z.remove_parametrizations, l, "weight")
        attempt(Z.register_parametrization, l, "nothing", Symmetric())
        attempt(Z.register_parametrization, l, "in_features", Symmetric())
    """,
    "removing several": """
        torch.manual_seed(0)
        l = P.weight_norm(linear(3, 2))
        attempt(Z.remove_parametrizations, l, "weight", leave_parametrized=False)
        w = l.weight.detach().clone()
        Z.remove_parametrizations(l, "weight")
        print(l, type(l.weight).__name__, l.weight.requires_grad, bool((l.weight == w).all()))
        l = parametrized(linear(3, 2).requires_grad_(False), Sum())
        print([type(p).__name__ for p in l.parameters()], l.weight.requires_grad)
        Z.remove_parametrizations(l, "weight")
        print(type(l.weight).__name__, list(l.state_dict()), [n for n, _ in l.named_buffers()])
        b = parametrized(nn.BatchNorm1d(2), Doubled(), name="running_mean")
        print(b, list(b.state_dict()), b.running_mean)
        print([n for n, _ in b.named_buffers()], [n for n, _ in b.named_parameters()])
        Z.remove_parametrizations(b, "running_mean")
        print(list(b.state_dict()))
        l = parametrized(linear(2, 2), Doubled(), Symmetric(), Exp())
        attempt(setattr, l, "weight", torch.ones(2, 2, dtype=f64))
        print(l.parametrizations.weight)
        l = parametrized(nn.Linear(2, 2), Doubled(), Doubled())
        print(l)
    """,
    "assigning": """
        l = parametrized(linear(2, 2), Doubled())
        kept = l.parametrizations.weight.original
        l.weight = torch.tensor([[1.0, 2], [3, 4]], dtype=f64)
        print(l.weight, kept, l.parametrizations.weight.original is kept)
        attempt(setattr, l, "weight", torch.ones(2, 2, dtype=torch.float32))
        attempt(setattr, l, "weight", nn.Parameter(torch.ones(2, 2, dtype=f64)))
        attempt(setattr, l, "weight", 3)
        l = parametrized(linear(2, 2), Sum())
        l.weight = torch.tensor([[1.0, 4], [9, 16]], dtype=f64)
        print(l.weight, l.parametrizations.weight.original1)
        attempt(setattr, l, "weight", torch.ones(2, 2, dtype=torch.float32))
        with torch.no_grad():
            l.weight.fill_(0)  # a value of the moment
        print(l.weight)
    """,
    "bad parametrizations": """
        def register(first, second=None, unsafe=False):
            l = linear(2, 3)
            with torch.no_grad():
                l.weight.fill_(1.0); l.bias.fill_(1.0)
            attempt(Z.register_parametrization, l, "weight", first, unsafe=unsafe)
            if second is not None:
                attempt(Z.register_parametrization, l, "weight", second, unsafe=unsafe)
            return l
        whole = lambda x: x
        register(Fixed(lambda x: x.float()))
        register(Fixed(lambda x: x[:2]))
        register(Fixed(lambda x: x[:2]), unsafe=True)
        register(Fixed(lambda x: 3))
        register(Fixed(whole, lambda x: 3))
        register(Fixed(whole, lambda x: [x, 3]))
        register(Fixed(whole, lambda x: x.float()))
        register(Fixed(whole, lambda x: x[:2]))
        register(Doubled(), Fixed(lambda x: x.float()))
        register(Doubled(), Fixed(lambda x: x[:2]))
        register(Doubled(), Fixed(lambda x: 3))
        register(Doubled(), Fixed(whole, lambda x: 3))
        register(Doubled(), Fixed(whole, lambda x: x.float()))
        register(Doubled(), Fixed(whole, lambda x: x[:2]))
        l = register(Doubled(), Fixed(lambda x: x[:2]), unsafe=True)
        print(l.weight.shape, l.parametrizations.weight.unsafe)
        attempt(Z.ParametrizationList, [], torch.ones(2))
        def refuse(x): raise NotImplementedError("no way back")
        l = register(Doubled(), Fixed(whole, refuse))
        attempt(setattr, l, "weight", torch.ones(3, 2, dtype=f64))
        l = register(Fixed(lambda x, y: x + y, lambda x: (x, x)))
        l.parametrizations.weight[0].right_inverse = lambda x: (x, x, x)
        attempt(setattr, l, "weight", torch.ones(3, 2, dtype=f64))
        l.parametrizations.weight[0].right_inverse = lambda x: x
        attempt(setattr, l, "weight", torch.ones(3, 2, dtype=f64))
        l.parametrizations.weight[0].right_inverse = lambda x: (x, 3)
        attempt(setattr, l, "weight", torch.ones(3, 2, dtype=f64))
        l.parametrizations.weight[0].right_inverse = lambda x: (x, x.float())
        attempt(setattr, l, "weight", torch.ones(3, 2, dtype=f64))
        l = register(Fixed(whole, lambda x: x))
        l.parametrizations.weight[0].right_inverse = lambda x: 3
        attempt(setattr, l, "weight", torch.ones(3, 2, dtype=f64))
    """,
    "orthogonal": """
        attempt(P.orthogonal, nn.Linear(2, 2), "nothing")
        attempt(P.orthogonal, nn.Linear(2, 2), "bias")
        attempt(P.orthogonal, nn.Linear(2, 2), orthogonal_map="qr")
        attempt(P.orthogonal, nn.Linear(2, 2, dtype=torch.complex64), orthogonal_map="householder")
        for sizes in ((3, 3), (2, 4), (4, 2)):
            torch.manual_seed(5)
            l = P.orthogonal(linear(*sizes))
            print(l.weight)
            attempt(setattr, l, "weight", torch.ones(9, 9, dtype=f64))
            value = nn.init.orthogonal_(torch.empty(sizes[::-1], dtype=f64))
            l.weight = value
            print(bool((l.weight - value).abs().max() < 1e-12))
        l = P.orthogonal(linear(3, 3), use_trivialization=False)
        attempt(setattr, l, "weight", torch.eye(3, dtype=f64))
        l = P.orthogonal(linear(3, 3), orthogonal_map="householder", use_trivialization=False)
        value = nn.init.orthogonal_(torch.empty(3, 3, dtype=f64))
        l.weight = value
        print(bool((l.weight - value).abs().max() < 1e-12))
        print(list(P.orthogonal(nn.Linear(2, 2)).state_dict()))
        class Batch(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(2, 3, 4, 3, dtype=f64))
        b = P.orthogonal(Batch())
        print((b.weight.mT @ b.weight).round(decimals=6).abs())
    """,
    "norms": """
        attempt(P.spectral_norm, nn.Linear(2, 2), "nothing")
        attempt(P.spectral_norm, nn.Linear(2, 2), n_power_iterations=0)
        attempt(P.spectral_norm, nn.Linear(2, 2), dim=2)
        attempt(P.spectral_norm, nn.Linear(2, 2), dim=-3)
        attempt(P.weight_norm, nn.Linear(2, 2), "nothing")
        attempt(P.weight_norm, nn.Linear(2, 2), dim=5)
        attempt(older, nn.utils.weight_norm, nn.Linear(2, 2), dim=-4)
        attempt(nn.utils.spectral_norm, nn.Linear(2, 2), n_power_iterations=-1)
        attempt(nn.utils.spectral_norm, nn.Linear(2, 2, bias=False), "bias")
        l = nn.utils.spectral_norm(nn.Linear(2, 2))
        attempt(nn.utils.spectral_norm, l)
        print(l, list(l.state_dict()), l.state_dict()._metadata[""])
        print(nn.utils.remove_spectral_norm(l), list(l.state_dict()), l.state_dict()._metadata[""])
        attempt(nn.utils.remove_spectral_norm, l)
        print(len(l._forward_pre_hooks), len(l._state_dict_hooks))
        l = older(nn.utils.weight_norm, nn.Linear(2, 2))
        attempt(older, nn.utils.weight_norm, l)
        print(l, list(l.state_dict()), [n for n, _ in l.named_parameters()])
        print(nn.utils.remove_weight_norm(l), list(l.state_dict()))
        attempt(nn.utils.remove_weight_norm, l)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            nn.utils.weight_norm(nn.Linear(2, 2))
        print([(w.category.__name__, str(w.message)) for w in seen])
    """,
    "older states": """
        torch.manual_seed(1)
        old = older(nn.utils.weight_norm, linear(3, 2))
        model = nn.Sequential(nn.Sequential(P.weight_norm(linear(3, 2))))
        state = {f"0.0.{k}": v for k, v in old.state_dict().items()}
        print(model.load_state_dict(state), sorted(state))
        print(bool((model[0][0].weight == old.weight).all()))
        new = P.weight_norm(linear(3, 2))
        print(new.load_state_dict(old.state_dict()), bool((new.bias == old.bias).all()))
        attempt(new.load_state_dict, {"weight_g": torch.ones(2, 1)})
        s = nn.utils.spectral_norm(linear(3, 2))
        s(torch.ones(3, dtype=f64))
        past = {"weight_orig": s.weight_orig.data, "weight": s.weight.data,
                "weight_u": s.weight_u, "bias": s.bias.data}
        fresh = nn.utils.spectral_norm(linear(3, 2))
        print(fresh.load_state_dict(past))
        fresh.eval(); s.eval()
        x = torch.arange(3, dtype=f64)
        print(bool((fresh(x) - s(x)).abs().max() < 1e-12))
        attempt(fresh.load_state_dict, {"weight_orig": past["weight_orig"], "bias": past["bias"]})
        print(fresh.load_state_dict(s.state_dict()), fresh.load_state_dict(dict(s.state_dict())))
    """,
    "transferring": """
        torch.manual_seed(2)
        a, b = linear(3, 3), linear(3, 3)
        print(Z.transfer_parametrizations_and_params(a, b) is b, Z.is_parametrized(b))
        parametrized(a, Doubled(), Symmetric()); P.weight_norm(a, "bias")
        Z.transfer_parametrizations_and_params(a, b, "weight")
        print(b, b.parametrizations.weight.original is a.parametrizations.weight.original)
        c = nn.Module()
        Z.transfer_parametrizations_and_params(a, c)
        print(c, list(c.state_dict()))
        print(bool((c.weight == a.weight).all()), bool((c.bias == a.bias).all()))
        print(c.parametrizations.bias.original1 is a.parametrizations.bias.original1)
    """,
    "caching": """
        calls = []
        l = parametrized(linear(2, 2), Fixed(lambda x: (calls.append(1), x * 2)[1]))
        calls.clear()
        with Z.cached():
            print(l.weight is l.weight, len(calls))
            with Z.cached():
                w = l.weight
            print(l.weight is w, len(calls))
        print(l.weight is l.weight, len(calls))
        with Z.cached():
            (l(torch.ones(2, dtype=f64)) + l(torch.ones(2, dtype=f64))).sum().backward()
        print(l.parametrizations.weight.original.grad, len(calls))
        attempt(copy.copy, l)
        import pickle
        attempt(pickle.dumps, l)
    """,
    "gradients clipped": """
        def gradients(dtype=torch.float32):
            ps = [torch.zeros(2, 2, dtype=dtype), torch.zeros(3), torch.zeros(1)]
            ps[0].grad = torch.tensor([[1.0, -2.0], [3.0, 0.5]], dtype=dtype)
            ps[1].grad = torch.tensor([10.0, 0.0, -4.0])
            return ps
        for norm in (1, 2, 2.0, 3.5, 0.5, float("inf"), float("-inf"), "inf", 0):
            for bound in (0.5, 5, 1000):
                ps = gradients()
                attempt(nn.utils.clip_grad_norm_, ps, bound, norm)
                print([p.grad for p in ps])
        ps = gradients(f64)
        print(nn.utils.clip_grad_norm_(iter(ps), 1.0), [p.grad for p in ps])
        ps = gradients()
        print(nn.utils.clip_grad_norm_(ps[0], 1.0), ps[0].grad, nn.utils.clip_grad_norm_([], 1.0))
        print(nn.utils.clip_grad_norm_(ps[2:], 1.0), nn.utils.get_total_norm([]))
        print(nn.utils.get_total_norm([p.grad for p in ps[:2]], 1))
        print(nn.utils.get_total_norm(ps[0].grad))
        print(nn.utils.clip_grads_with_norm_(ps, 2.0, torch.tensor(10.0)), [p.grad for p in ps])
        print(nn.utils.clip_grad_value_(ps, 0.1), [p.grad for p in ps])
        print(nn.utils.clip_grad_value_(ps[1], 1, foreach=False), ps[1].grad)
        for bad in (float("nan"), float("inf")):
            ps = gradients()
            ps[1].grad[1] = bad
            attempt(nn.utils.clip_grad_norm_, ps, 1.0, error_if_nonfinite=True)
            print([p.grad for p in ps])
            print(nn.utils.clip_grad_norm_(ps, 1.0), [p.grad for p in ps])
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            nn.utils.clip_grad_norm_((p for p in []), 1.0)
            print(nn.utils.clip_grad_norm(gradients(), 1.0))
        print([(w.category.__name__, str(w.message)) for w in seen])
        made = torch.tensor([[3.0, 4.0, -12.0], [1.0, 2.0, 2.0]])
        for g in (made.half(), made.double().T, torch.complex(made, -made), made[:, ::2], made[1],
                  made[0, 1], made[:, 1:].clone().T, made.new_zeros(0, 2), torch.tensor(7.0)):
            w = torch.zeros_like(g)
            w.grad = g.clone() if g.dim() < 2 else g
            attempt(nn.utils.clip_grad_norm_, [w], 2.0)
            print(w.grad)
            if not g.is_complex():
                attempt(nn.utils.clip_grad_value_, [w], 0.25)
                print(w.grad, made)
        w = torch.zeros(2, 3)
        w.grad = torch.ones(3).expand(2, 3)
        attempt(nn.utils.clip_grad_norm_, [w], 2.0)
        print(w.grad)
        w = torch.ones(2, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that this makes a cycle
            (w * w).sum().backward(create_graph=True)
        print(nn.utils.clip_grad_norm_(w, 1.0).requires_grad, w.grad.detach())
    """,
    "parameters as a vector": """
        m = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
        v = nn.utils.parameters_to_vector(m.parameters())
        print(v.shape, v.requires_grad)
        kept = list(m.parameters())
        nn.utils.vector_to_parameters(torch.arange(13.0), m.parameters())
        print(list(m.parameters()), all(a is b for a, b in zip(kept, m.parameters())))
        attempt(nn.utils.vector_to_parameters, [1.0], m.parameters())
        attempt(nn.utils.vector_to_parameters, np.ones(13), m.parameters())
        attempt(nn.utils.parameters_to_vector, [])
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        joined = nn.utils.parameters_to_vector([w, w[:1]])
        (joined * torch.tensor([1.0, 10.0, 100.0])).sum().backward()
        print(w.grad)
    """,
    "fused with normalization": """
        torch.manual_seed(3)
        def normalized(kind, features, **options):
            bn = kind(features, dtype=f64, **options)
            for x in (bn.running_mean, bn.running_var, *bn.parameters()):
                x.data.uniform_(0.5, 2.0)
            return bn.eval()
        def fused(layer, bn, shape, *options):
            x = torch.randn(shape, dtype=f64)
            make = nn.utils.fuse_linear_bn_eval if isinstance(layer, nn.Linear) \\
                else nn.utils.fuse_conv_bn_eval
            new = make(layer.eval(), bn, *options)
            print(new, new.bias, new.weight.sum())
            print(bool((new(x) - bn(layer(x))).abs().max() < 1e-12))
        fused(nn.Conv2d(2, 3, 2, dtype=f64), normalized(nn.BatchNorm2d, 3), (1, 2, 4, 4))
        fused(nn.Conv1d(2, 3, 2, bias=False, dtype=f64), normalized(nn.BatchNorm1d, 3), (1, 2, 4))
        fused(nn.Conv1d(2, 3, 2, dtype=f64), normalized(nn.BatchNorm1d, 3, affine=False), (1, 2, 4))
        turned = nn.ConvTranspose1d(2, 3, 2, dtype=f64)
        fused(turned, normalized(nn.BatchNorm1d, 3), (1, 2, 4), True)
        fused(linear(2, 3), normalized(nn.BatchNorm1d, 3), (4, 2))
        attempt(nn.utils.fuse_conv_bn_eval, nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1))
        attempt(nn.utils.fuse_linear_bn_eval, linear(2, 3).eval(), nn.BatchNorm1d(2).eval())
        bare = nn.BatchNorm1d(3, track_running_stats=False).eval()
        attempt(nn.utils.fuse_linear_bn_eval, linear(2, 3).eval(), bare)
        frozen = linear(2, 3).requires_grad_(False).eval()
        new = nn.utils.fuse_linear_bn_eval(frozen, normalized(nn.BatchNorm1d, 3))
        print(new.weight.requires_grad, new.bias.requires_grad)
    """,
    "without initial values": """
        torch.manual_seed(0)
        l = nn.utils.skip_init(nn.Linear, 3, 4, dtype=f64)
        print(l, l.weight.dtype, torch.rand(1))
        print(nn.utils.skip_init(nn.Conv2d, 1, 2, kernel_size=3, device="cpu"), torch.rand(1))
        class Bare(nn.Module):
            def __init__(self): super().__init__()
        attempt(nn.utils.skip_init, Bare)
    """,
}


def printed(library: Any, script: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(textwrap.dedent(script), space(library))
    return out.getvalue()


@pytest.mark.parametrize("name", SCRIPTS)
def test_utilities_do_and_say_what_pytorchs_do(torch: Any, name: str) -> None:
    theirs, ours = (printed(library, SCRIPTS[name]) for library in (torch, retrograd))
    assert ours == theirs


def test_clipping_scales_the_norm_to_the_bound() -> None:
    w = retrograd.zeros(3, requires_grad=True)
    w.grad = retrograd.tensor([1.0, 2.0, 2.0])
    assert nn.utils.clip_grad_norm_([w], 1.5).item() == 3
    np.testing.assert_allclose(w.grad.numpy(), [0.5, 1, 1], rtol=1e-6)
    assert nn.utils.clip_grad_norm_([w], 10).item() == pytest.approx(1.5, rel=1e-6)
    np.testing.assert_allclose(w.grad.numpy(), [0.5, 1, 1], rtol=1e-6)


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
def test_clipping_is_a_write_that_is_noticed(clip: Any) -> None:
    w, v = retrograd.zeros(2, requires_grad=True), retrograd.ones(2, requires_grad=True)
    w.grad = retrograd.tensor([3.0, 4.0])
    product = (w.grad * v).sum()
    clip([w], 1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_clipping_of_gradients_inside_transforms() -> None:
    def clipped(g: Any) -> Any:
        w = retrograd.zeros_like(g)
        w.grad = g.clone()
        nn.utils.clip_grad_norm_([w], 1.0)
        return w.grad

    rows = retrograd.tensor([[3.0, 4.0], [0.3, 0.4]])
    found = retrograd.func.vmap(clipped)(rows)
    np.testing.assert_allclose(found.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-5)
