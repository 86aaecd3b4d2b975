"""``Transform``: the base class of invertible transforms, and their inverses."""

from __future__ import annotations

from typing import Any

from retrograd.distributions import constraints


class Transform:
    """A function of random variables.

    Args:
        cache_size: 1 to remember the last value and its image, so that inverting it costs nothing
            and is exact.

    Example:
        >>> class Double(Transform):
        ...     def _call(self, x): return 2 * x
        >>> Double()(torch.ones(1))
        tensor([2.])
    """

    bijective: Any = False

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = (None, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_inv": None}

    @property
    def domain(self) -> Any:
        """The domain of the transform, as a constraint."""
        raise NotImplementedError

    @property
    def codomain(self) -> Any:
        """The range of the transform, as a constraint."""
        raise NotImplementedError

    @property
    def sign(self) -> Any:
        """1 if the transform is increasing, -1 if it is decreasing."""
        raise NotImplementedError

    @property
    def event_dim(self) -> Any:
        """How many dimensions belong to one value."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Any:
        """The inverse function."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        """Returns the transform with the given cache size.

        Args:
            cache_size: 0 or 1.
        """
        if self._cache_size == cache_size:
            return self
        return self._copied(cache_size)

    def _copied(self, cache_size: int) -> Any:
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    _equal_by_type = False  # whether any two of the class are equal

    def __eq__(self, other: object) -> bool:
        return self is other or (self._equal_by_type and type(other) is type(self))

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        """Applies the function.

        Args:
            x: the values.

        Returns:
            Their images.
        """
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = (x, self._call(x))
        return self._cached_x_y[1]

    def _inv_call(self, y: Any) -> Any:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = (self._inverse(y), y)
        return self._cached_x_y[0]

    def _call(self, x: Any) -> Any:
        raise NotImplementedError

    def _inverse(self, y: Any) -> Any:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        """Returns the logarithm of the absolute value of the Jacobian's determinant.

        Args:
            x: the values.
            y: their images.

        Returns:
            A tensor without the dimensions of an event.
        """
        raise NotImplementedError

    def forward_shape(self, shape: Any) -> Any:
        """Returns the shape of the output for an input shape.

        Args:
            shape: the shape of the tensor.
        """
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Returns the shape of the input for an output shape.

        Args:
            shape: the shape of the image.
        """
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    def __init__(self, transform: Any) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> Any:
        return self._inv.bijective

    @property
    def sign(self) -> Any:
        return self._inv.sign

    @property
    def inv(self) -> Any:
        return self._inv

    def _copied(self, cache_size: int) -> Any:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = None

    def __call__(self, x: Any) -> Any:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Any, y: Any) -> Any:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._inv.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"
