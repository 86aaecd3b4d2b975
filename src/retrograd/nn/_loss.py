"""The base classes of losses."""

from __future__ import annotations

from typing import Any, ClassVar

from retrograd.nn import functional as F
from retrograd.nn._options import Family
from retrograd.tensor._tensor import Tensor

SAME_SHAPE = """\
Shape:
    Input and target: the same shape, any.
    Output: a scalar; the shape of the input for "none".
"""


class Loss(Family):
    """A function of ``nn.functional`` on predictions and targets, with options as attributes."""

    function: ClassVar[str] = ""
    weights: ClassVar[tuple[str, ...]] = ()  # options that are tensors, kept as buffers

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        if size_average is not None or reduce is not None:  # deprecated forms of ``reduction``
            each = reduce is False
            reduction = "none" if each else "sum" if size_average is False else "mean"
        self.reduction = reduction
        for name, value in options.items():
            if name in self.weights:
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)
        self.__dict__["_options"] = ("reduction", *options)
        self.__dict__["_function"] = getattr(F, self.function) if self.function else None

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(input, target)

    def _of(self, *inputs: Any) -> Tensor:
        """The function of some inputs, with the options of the loss."""
        options = {name: getattr(self, name) for name in self._options}
        loss: Tensor = self._function(*inputs, **options)
        return loss


class WeightedLoss(Loss):
    """A loss with a weight for each class, or each element."""

    weights = ("weight",)

    def __init__(
        self, weight: Any = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(size_average, reduce, reduction, weight=weight, **options)
