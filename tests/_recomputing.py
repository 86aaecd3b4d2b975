"""What tests of checkpointing share: functions that are run again, and what comes of it."""


def tensor(torch, *values, requires_grad=True):
    return torch.tensor(list(values), dtype=torch.float64, requires_grad=requires_grad)


def recomputing(torch, function, **options):
    """``function`` as a checkpointed one."""
    options = {"use_reentrant": False, **options}
    return lambda *args, **named: torch.utils.checkpoint.checkpoint(
        function, *args, **options, **named
    )


def counted(function):
    """``function``, which counts how often it is begun and how often it comes to its end."""

    def counting(*args, **named):
        counting.begun += 1
        result = function(*args, **named)
        counting.ended += 1
        return result

    counting.begun = counting.ended = 0
    return counting


def gradients(torch, function, *inputs, **how):
    """The gradients of the sum of all that ``function`` gives."""
    outputs = function(*inputs)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    total = sum(x.sum() for x in outputs)
    return [g.tolist() for g in torch.autograd.grad(total, inputs, **how)]


def wave(x):
    return (x.sin() * x.exp()).tanh()


def differing(first, second):
    """A function that does one thing first, and then another."""
    runs = iter([first, second])
    return lambda x: next(runs)(x)
