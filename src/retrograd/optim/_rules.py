"""The base class of most optimizers, which apply an update rule to each parameter.

Such an optimizer defines the initial state of a parameter, and which kernel of
``arrays/_updates.py`` to call with which numbers. Updates run on raw arrays: no tensor is created
and no operation is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retrograd import arrays
from retrograd._modes import modes, switch
from retrograd._source import Place, user_place
from retrograd.arrays import Raw, dtypes
from retrograd.autograd._history import check_write
from retrograd.autograd._versions import version_of
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.autograd.grad_mode import enable_grad, no_grad
from retrograd.ops._lifted import Lifted, device_value, tracer
from retrograd.optim.optimizer import Optimizer, ParamsT
from retrograd.tensor._tensor import Tensor

Group = dict[str, Any]
State = dict[str, Any]
Update = Callable[[Raw, Raw, State], None]

NUMBERS = ("step", "mu_product", "eta", "mu")  # entries of a state that are scalar tensors
# Options that older versions of PyTorch, and states saved by them, do not have.
_LATER_OPTIONS = {
    "amsgrad": False, "capturable": False, "centered": False, "decoupled_weight_decay": False,
    "differentiable": False, "foreach": None, "fused": None, "maximize": False, "momentum": 0,
    "nesterov": False,
}  # fmt: skip
_CAPTURABLE = ["cuda", "xpu", "hpu", "privateuseone", "xla"]
_FUSED = ["mps", "cuda", "xpu", "hpu", "cpu", "mtia", "privateuseone"]


class RuleOptimizer(Optimizer):
    """An optimizer that updates each parameter independently."""

    steps_are_traced = True  # tells the compiler, which does not import optimizers
    # In the error for capturable=True: what must be on a device that supports it.
    _captured = "params and state_steps"
    _supports_xla = True
    _elementwise = True  # whether the tensors of a state have the shape of their parameter
    # Whether the numbers that a rule passes to its kernel depend on the shape of the parameter.
    _numbers_by_shape = False

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        if defaults.get("differentiable"):
            raise NotImplementedError(
                "differentiable=True is not supported: steps write into the parameters and are not "
                "recorded. To differentiate through updates, compute new tensors, such as "
                "w - lr * g with gradients from torch.autograd.grad(..., create_graph=True), and "
                "call the model with them by torch.func.functional_call."
            )
        super().__init__(params, defaults)
        if defaults.get("fused") and defaults.get("foreach"):
            raise RuntimeError("`fused` and `foreach` cannot be `True` together.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            for name, default in _LATER_OPTIONS.items():
                if name in self.defaults:
                    group.setdefault(name, default)
            for param in group["params"]:
                for name, value in self.state.get(param, {}).items():
                    if name in NUMBERS and not isinstance(value, Tensor):
                        self.state[param][name] = number(value, group)

    def _cast(self, param: Any, group: Group, value: Any, key: Any = None) -> Any:
        cast = super()._cast(param, group, value, key)
        if key in NUMBERS and isinstance(cast, Tensor):
            cast = cast.cpu()  # the numbers that kernels take are computed from it there
        shaped = self._elementwise and isinstance(cast, Tensor) and key not in NUMBERS
        if shaped and cast.shape != param.shape:
            raise ValueError(
                f"loaded state dict has {key!r} of shape {tuple(cast.shape)} for a parameter of "
                f"shape {tuple(param.shape)}. The state belongs to another model, or the "
                "parameters are in another order."
            )
        return cast

    # -- to be overridden --------------------------------------------------------------------------

    def _initial_state(self, group: Group, param: Any) -> State:
        """The state of a parameter before its first step."""
        raise NotImplementedError

    def _rule(self, group: Group) -> Update:
        """The function of parameter, gradient and state that updates the parameters of a group."""
        raise NotImplementedError

    def _keeps_state(self, group: Group) -> bool:
        return True

    def _check_sparse(self, group: Group) -> None:
        """Raise an error if the optimizer does not take sparse gradients."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def _sparse_update(self, group: Group, param: Any, grad: Any, state: State) -> None:
        """Update a parameter by a sparse gradient."""
        raise NotImplementedError

    # -- the step ----------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient.

        Args:
            closure: clears the gradients, computes the loss, calls ``backward`` and returns the
                loss.

        Returns:
            The loss, or None without a closure.
        """
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._check_groups()
        if switch.active and (level := tracer()) is not None:
            traced_step(level, self)
            return loss
        source = user_place()
        for group in self.param_groups:
            rule = self._rule(group)
            keeps_state = self._keeps_state(group)
            for param in group["params"]:
                meta = param._meta
                if meta is None or meta.grad is None:
                    continue
                state = self.state[param] if keeps_state else {}
                if keeps_state and not state:
                    state.update(self._initial_state(group, param))
                if SPARSE and type(meta.grad) in SPARSE:
                    with no_grad():
                        grad = -meta.grad if group["maximize"] else meta.grad
                        self._sparse_update(group, param, grad, state)
                    continue
                data = param._data
                if not isinstance(data, arrays.ndarray):
                    data = param._data = arrays.writable(data)
                rule(data, meta.grad._data, state)
                record_write(param, source)
        return loss

    def _check_groups(self) -> None:
        """Raise all errors before any parameter is changed."""
        for group in self.param_groups:
            if SPARSE and any([type(p.grad) in SPARSE for p in group["params"]]):
                self._check_sparse(group)
            check = switch.active or modes.running is not None or _any_inference(group["params"])
            if group.get("capturable") and not all([_on_device(p) for p in group["params"]]):
                devices = [d for d in _CAPTURABLE if self._supports_xla or d != "xla"]
                raise AssertionError(
                    f"If capturable=True, {self._captured} must be on supported devices: {devices}."
                )
            for param in group["params"] if check or group.get("fused") else ():
                if param.grad is None:
                    continue
                if group.get("fused") and not param.is_floating_point():
                    raise RuntimeError(
                        "`fused=True` requires all the params to be floating point Tensors of "
                        f"supported devices: {_FUSED} but {param.dtype} and {param.device.type}"
                    )
                check_may_write(self, param)
            if Lifted.device_level is not None and self._keeps_state(group):  # there are devices
                for param in group["params"]:
                    if param.grad is not None:
                        check_state_is_beside(param, self.state.get(param, {}))


def traced_step(level: Any, optimizer: RuleOptimizer) -> None:
    """A step as lines of a program: one for each parameter, which overwrites it and its state. A
    line reads the numbers of the group, such as the learning rate, when it runs. If the traced
    function sets them itself, they become part of the program instead, which would otherwise set
    them only after all its lines have run."""
    for group in optimizer.param_groups:
        _check_options(level, group)
        before = level.options.get(id(group), group)
        if any(before.get(name) is not option for name, option in group.items()):
            level.depends_on_numbers = True
            group = dict(group)
        keeps_state = optimizer._keeps_state(group)
        for param in group["params"]:
            if param._meta is None or param._meta.grad is None:
                continue
            state = optimizer.state[param] if keeps_state else {}
            if keeps_state and not state:
                level.depends_on_numbers = True  # such as the first size of a step
                state.update(_traced_beginning(level, optimizer, group, param))
            _traced_update(level, optimizer, group, param, state)
            record_write(param, user_place())


def _check_options(level: Any, group: Group) -> None:
    """Refuse options, such as a learning rate, that the program itself computes. A step reads its
    options from memory before the program runs, so it would use old values."""
    lines = level.lines
    for name, option in group.items():
        data = option._data if isinstance(option, Tensor) else None
        if not isinstance(data, Lifted) or data.level is not level:
            continue
        memory = data.memory
        if memory.version or any([memory.var in line.outputs for line in lines]):
            level.look(f"the option {name!r} of an optimizer, which it computes")


def _traced_beginning(level: Any, optimizer: RuleOptimizer, group: Group, param: Any) -> State:
    traced = param._data
    param._data = traced.value
    try:
        state = optimizer._initial_state(group, param)
    finally:
        param._data = traced
    for value in state.values():
        if isinstance(value, Tensor):
            value._data = level.made(arrays.writable(value._data))
    return state


def _traced_update(
    level: Any, optimizer: RuleOptimizer, group: Group, param: Any, state: State
) -> None:
    names = [name for name, value in state.items() if isinstance(value, Tensor)]
    others = {name: value for name, value in state.items() if name not in names}
    update = TracedUpdate(optimizer, group, names, others)
    parts = [state[name]._data for name in names]
    writes = (0, *range(2, 2 + len(parts)))
    name = f"{type(optimizer).__name__.lower()}_update"
    results = level.overwrite(name, update, [param._data, param._meta.grad._data, *parts], writes)
    state.update((name, wrap(x)) for name, x in zip(update.made, results, strict=True))


class TracedUpdate:
    """What a step does to one parameter and its state, as a line of a program calls it."""

    updates_parameter = True  # tells the compiler, which does not import optimizers

    def __init__(
        self, optimizer: RuleOptimizer, group: Group, names: list[str], others: State
    ) -> None:
        self.optimizer = optimizer
        self.group = group
        self.names = names
        self.others = others
        self.made: list[str] = []  # entries of the state that the update makes

    def __call__(self, param: Raw, grad: Raw, *parts: Raw) -> tuple[Raw, ...]:
        now = self.run(self.optimizer._rule(self.group), param, grad, parts)
        self.made = [n for n, x in now.items() if isinstance(x, Tensor) and n not in self.names]
        return tuple([now[name]._data for name in self.made])

    def run(self, rule: Update, param: Any, grad: Any, parts: Any) -> State:
        now = {**self.others, **{n: wrap(x) for n, x in zip(self.names, parts, strict=True)}}
        rule(param, grad, now)
        return now

    @property
    def scalars(self) -> list[int]:
        """The positions, among the parts of the state, of its numbers."""
        return [i for i, name in enumerate(self.names) if name in NUMBERS]

    def deferred(self, rule: Update, shapes: Any, scalars: dict[int, Any]) -> Any:
        """The kernel that the update calls, its operands and its numbers, without calling it. The
        numbers of the state are given, and written."""
        calls: list[Any] = []
        stand_ins = [arrays.updates.Deferred(i, shape, calls) for i, shape in enumerate(shapes)]
        parts = [scalars.get(i, x) for i, x in enumerate(stand_ins[2:])]
        self.run(rule, stand_ins[0], stand_ins[1], parts)
        (call,) = calls
        return call


def _on_device(param: Any) -> bool:
    data = param._data
    return isinstance(data, Lifted) and data.level is Lifted.device_level


def _any_inference(params: list[Any]) -> bool:
    return any([p._meta is not None and p._meta.inference for p in params])


def check_state_is_beside(param: Any, state: State) -> None:
    """Raise a RuntimeError if a parameter was moved to another device after its state was made."""
    own = device_value(param)
    for name, x in state.items():
        if name in NUMBERS or not isinstance(x, Tensor) or type(x) in SPARSE:
            continue
        value = device_value(x)
        if own is None or value is None:
            same = own is value
        else:
            same = own.level.on_one_device(own, value)
        if not same:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"{param.device} and {x.device}! The parameters were moved after a step of the "
                "optimizer. optimizer.load_state_dict(optimizer.state_dict()) moves its state to "
                "them."
            )


def check_may_write(optimizer: Optimizer, param: Any) -> None:
    """Raise a RuntimeError if a parameter must not be written here."""
    values = [param._data]
    if param.grad is not None and type(param.grad) not in SPARSE:
        values.append(param.grad._data)
    # The level of values on a device has number 0: it is not a transform.
    if any(isinstance(x, Lifted) and x.level.number and not x.level.traces for x in values):
        raise RuntimeError(
            f"{type(optimizer).__name__}.step() cannot update a parameter inside of a function "
            "being transformed by a functorch transform. Call step() outside of it."
        )
    if modes.running is not None:
        modes.running.check_write("step", param)
    with no_grad():
        check_write(param, False)


def record_write(param: Any, source: Place) -> None:
    """Increment the version of a parameter, and note the line that wrote it."""
    version = param._version_counter
    if version is None:
        version = version_of(param)
    version.count += 1
    version.written_at = source


def number(value: float, group: Group) -> Any:
    """A scalar tensor of a state, in double precision if that is the default dtype."""
    double = dtypes.get_default_dtype() is dtypes.float64 and not group.get("fused")
    return wrap(arrays.updates.scalar(float(value), double))


def zeros_like(param: Any) -> Any:
    """A state of zeros with the memory layout of the parameter."""
    return wrap(arrays.updates.zeros_like(arrays.writable(param._data)))


def zeros_beside(param: Any, shape: tuple[int, ...]) -> Any:
    """Zeros of any shape in the dtype of a parameter, on its device."""
    there, zeros = device_value(param), arrays.zeros(shape, param.dtype.numpy)
    return wrap(zeros if there is None else there.placed(zeros))


def set_number(tensor: Any, value: float) -> None:
    """Write a scalar of a state."""
    memory(tensor)[()] = value


def advance(state: State) -> float:
    """Increment the step count and return it."""
    step = state["step"]
    count = float(step._data) + 1.0
    set_number(step, count)
    return count


def rule_of(
    kernel: Callable[..., None], names: tuple[str | None, ...], numbers: Callable[[float], Any]
) -> Update:
    """The rule that calls a kernel with the named entries of a state and with numbers that depend
    on the step count. Most parameters of a group have the same count.
    """
    by_count: dict[float, tuple[Any, ...]] = {}
    update = arrays.updates.update

    def rule(param: Raw, grad: Raw, state: State) -> None:
        # Of which an entry may be missing: amsgrad was turned on later, say. Nothing counts then.
        parts = [None if name is None else memory(state[name]) for name in names]
        count = advance(state)
        if count not in by_count:
            by_count[count] = numbers(count)
        update(kernel, (param, grad, *parts), by_count[count])

    return rule


def memory(tensor: Any) -> Raw:
    """The array of a tensor of a state, writable."""
    data = tensor._data
    if not isinstance(data, arrays.ndarray):
        data = tensor._data = arrays.writable(data)
    return data


def value_of(option: Any) -> Any:
    """The value of an option. A tensor keeps its dtype in arithmetic."""
    if not isinstance(option, Tensor):
        return option
    data = option._data
    if isinstance(data, Lifted) and data.level.traces:
        data = data.value
    elif _on_device(option):
        data = data.inner  # a copy on the CPU
    return arrays.updates.as_number(data)


# -- options ---------------------------------------------------------------------------------------


def options(arguments: dict[str, Any]) -> dict[str, Any]:
    """The options among the arguments of a constructor, which are its ``locals()``."""
    return {n: v for n, v in arguments.items() if n not in ("self", "params", "__class__")}


_WORDS = {"lr": "learning rate", "eps": "epsilon value"}


def check_lr(lr: Any) -> None:
    """Raise a ValueError for a learning rate with several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


def check_not_negative(**options: Any) -> None:
    """Raise a ValueError for the first negative option."""
    for name, value in options.items():
        if not value >= 0.0:
            raise ValueError(f"Invalid {_WORDS.get(name, f'{name} value')}: {value}")


def check_betas(betas: Any) -> None:
    """Raise a ValueError for a decay rate outside of [0, 1)."""
    for i in (0, 1):
        if not 0.0 <= betas[i] < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {betas[i]}")
