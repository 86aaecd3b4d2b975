"""The part of a tensor that autograd uses: its data, its node and its gradient.

The Tensor class that users hold adds everything that is about arrays.
"""

from __future__ import annotations

import sys
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from retrograd import arrays
from retrograd._modes import modes
from retrograd._source import is_own
from retrograd.arrays import dtypes
from retrograd.autograd._backward import backward
from retrograd.autograd._history import Meta, edge, meta_of, origin, set_node
from retrograd.autograd._hooks import RemovableHandle, add_hook
from retrograd.autograd._node import NOWHERE, Node
from retrograd.autograd._versions import Version, version_of
from retrograd.autograd._wrap import SPARSE, wrap
from retrograd.ops._lifted import Lifted
from retrograd.ops._operation import TensorLike

_NON_LEAF_GRAD = (
    "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
    "attribute won't be populated during autograd.backward(). If you indeed want the .grad field "
    "to be populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you "
    "access the non-leaf Tensor by mistake, make sure you access the leaf Tensor instead. See "
    "github.com/pytorch/pytorch/pull/30531 for more information."
)


def check_new_leaf(tensor: Any) -> None:
    """RuntimeError for a leaf that a user makes under a transform, and for one that would lie below
    it: what is recorded under the transform would not lead to it."""
    data, by_user = tensor._data, not is_own(sys._getframe(2).f_code.co_filename)
    levels = [level for level in modes.levels if not level.transparent]
    of_innermost = not levels or (
        isinstance(data, Lifted) and data.level.number >= levels[-1].number
    )
    if of_innermost and not (by_user and (levels or modes.running is not None)):
        return
    raise RuntimeError(
        "You are attempting to call Tensor.requires_grad_() (or perhaps using "
        "torch.autograd.functional.* APIs) inside of a function being transformed by a functorch "
        "transform. This is unsupported, please attempt to use the functorch transforms (e.g. "
        "grad, vjp, jacrev, jacfwd, hessian) or call requires_grad_() outside of a function being "
        "transformed instead."
    )


class Variable(TensorLike):
    """A value in a graph: data, the node that made it, and its gradient."""

    __slots__ = ("__dict__", "__weakref__", "_meta", "_node", "_version_counter")

    _node: Node | None  # the node that made this; None for leaves
    _version_counter: Version | None  # None: nobody has watched this memory yet
    _meta: Meta | None  # None for plain results

    # -- where it came from ------------------------------------------------------------------

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor; None for leaves.

        >>> (torch.ones(1, requires_grad=True) * 2).grad_fn.name()
        'MulBackward0'
        """
        if self._meta is not None and self._meta.view is not None:
            origin(self)
        return self._node

    @property
    def _number(self) -> int | None:
        """Which output of the node this is; None if it has but one."""
        return None if self._meta is None else self._meta.number

    @_number.setter
    def _number(self, number: int | None) -> None:
        if number is not None or self._meta is not None:
            meta_of(self).number = number

    @property
    def output_nr(self) -> int:
        """Which of its node's outputs this is."""
        return self._number or 0

    @property
    def is_leaf(self) -> bool:
        """Whether a user made this tensor, rather than an operation that is recorded."""
        return self.grad_fn is None

    @property
    def requires_grad(self) -> bool:
        """Whether operations on this tensor are recorded."""
        if self._node is not None:
            return True
        meta = self._meta
        if meta is None:
            return False
        return meta.requires_grad or (meta.view is not None and meta.view.base.requires_grad)

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        self.requires_grad_(value)

    @property
    def _is_plain(self) -> bool:
        """Whether this is nothing but a value: not recorded, and no view that takes part in writes
        under a transform."""
        meta = self._meta
        if meta is None:
            return self._node is None
        view = meta.view
        return not self.requires_grad and (view is None or not isinstance(view.base._data, Lifted))

    def requires_grad_(self, requires_grad: bool = True) -> Any:
        """Starts or stops recording operations on this leaf.

        Args:
            requires_grad: Whether operations are recorded.

        Returns:
            The tensor itself.

        Example:
            >>> torch.ones(2).requires_grad_()
            tensor([1., 1.], requires_grad=True)
        """
        if self._node is not None:
            if requires_grad:
                return self
            raise RuntimeError(
                "you can only change requires_grad flags of leaf variables. If you want to use a "
                "computed variable in a subgraph that doesn't require differentiation use "
                "var_no_grad = var.detach()."
            )
        if requires_grad and (modes.levels or modes.running is not None):
            check_new_leaf(self)
        if requires_grad and self._data.dtype.kind not in dtypes.INEXACT:
            from retrograd.autograd._explaining._hints import of_integers

            raise of_integers(
                RuntimeError("only Tensors of floating point dtype can require gradients"),
                self._data.dtype,
            )
        if requires_grad and self.is_inference() and not modes.inference:
            raise RuntimeError(
                "Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed."
            )
        if requires_grad or self._meta is not None:
            meta = meta_of(self)
            meta.requires_grad = bool(requires_grad)
            meta.accumulator = None if not requires_grad else meta.accumulator
        return self

    def detach(self) -> Any:
        """Returns a tensor that shares memory with this one but has no history.

        Returns:
            A tensor that does not require grad.
        """
        if isinstance(self._data, Lifted):
            return _detached(self, modes.interceptors)
        self._data = arrays.writable(self._data)
        detached = wrap(self._data, version=version_of(self))
        if modes.observer is not None:
            modes.observer.left(self, detached)
        if self.is_inference():
            meta_of(detached).inference = True
            detached._version_counter = None
        return detached

    def detach_(self) -> Any:
        """Detaches this tensor from the graph, in place.

        Returns:
            The tensor itself, which is now a leaf.
        """
        if self._is_view():
            raise RuntimeError(
                "Can't detach views in-place. Use detach() instead. If you are using "
                "DistributedDataParallel (DDP) for training, and gradient_as_bucket_view is set as "
                "True, gradients are views of DDP buckets, and hence detach_() cannot be called on "
                "these gradients. To fix this error, please refer to the Optimizer.zero_grad() "
                "function in torch/optim/optimizer.py as the solution."
            )
        set_node(self, None)
        if isinstance(self._data, Lifted):
            self._data = self._data.detached()
        if self._meta is not None:
            self._meta.requires_grad = False
        return self

    def is_inference(self) -> bool:
        """Tests whether this tensor was created in inference mode."""
        return self._meta is not None and self._meta.inference

    def _is_view(self) -> bool:
        return self._meta is not None and self._meta.view is not None

    @property
    def _base(self) -> Any:
        view = self._meta.view if self._meta is not None else None
        return view.base if view is not None else None

    @property
    def _version(self) -> int:
        if self.is_inference():
            raise RuntimeError("Inference tensors do not track version counter.")
        return version_of(self).count  # from now on, whatever writes counts

    # -- its gradient ------------------------------------------------------------------------

    _differentiated: Any = None  # of a sparse tensor: the method that gives its values

    @property
    def grad(self) -> Any:
        """The gradient accumulated so far; None before there is one."""
        meta = self._meta
        if self._node is not None and (meta is None or (meta.grad is None and not meta.retains)):
            if modes.observer is not None:
                modes.observer.asked_for_grad(self)
            warnings.warn(_NON_LEAF_GRAD, UserWarning, stacklevel=2)
        return meta.grad if meta is not None else None

    @grad.setter
    def grad(self, value: Any) -> None:
        if value is not None:
            self._check_new_grad(value)
        if value is not None or self._meta is not None:
            meta = meta_of(self)
            meta.grad = value
            meta.added = meta.seen = 0

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    def _check_new_grad(self, value: Any) -> None:
        if not isinstance(value, Variable):
            raise TypeError(
                "assigned grad expected to be a Tensor or None but got grad of type "
                f"{type(value).__name__}"
            )
        if value is self:
            raise RuntimeError("can't assign Variable as its own grad")
        known: Any = value
        data = (known._values() if type(value) in SPARSE else known)._data
        dtype = data.dtype
        if dtype != self._data.dtype:
            given = arrays.dtypes.from_numpy_dtype(dtype)
            short = {"float64": "double", "float32": "float", "float16": "half"}
            raise RuntimeError(
                f"attempting to assign a gradient with dtype '{short.get(given.name, given.name)}' "
                f"to a tensor with grad_dtype '{arrays.dtypes.type_word(self._data.dtype)}'. The "
                "gradient must match the tensor's grad_dtype (defaults to the tensor's dtype). You "
                "can set the tensor's grad_dtype attribute with a specific dtype, or None to allow "
                "any dtype. Set grad_dtype with caution. Diverging the dtypes of a tensor and its "
                "gradient may break downstream systems that assume they match."
            )
        if isinstance(data, Lifted) or isinstance(self._data, Lifted):
            tensor: Any = self  # devices are a matter of the class above
            if known.device != tensor.device:
                raise RuntimeError(
                    "assigned grad has data located on a different device: it is on "
                    f"{known.device}, and the tensor on {tensor.device}. Move it with "
                    ".to(tensor.device) first."
                )
        if tuple(known.shape) != self._data.shape:
            raise RuntimeError(
                f"attempting to assign a gradient of size '{list(known.shape)}' to a tensor "
                f"of size '{list(self._data.shape)}'. Please ensure that the gradient and the "
                "tensor are the same size"
            )

    def retain_grad(self) -> None:
        """Keep the gradient of this intermediate result in ``.grad``, as leaves do."""
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        node = self.grad_fn
        if node is None or meta_of(self).retains:
            return
        meta_of(self).retains = True
        extras = node.extras_for_visit()
        extras.retained = {**(extras.retained or {}), self.output_nr: weakref.ref(self)}

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad`` was called on this intermediate result."""
        return self._meta is not None and self._meta.retains

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
        inputs: Any = None,
    ) -> None:  # fmt: skip
        """Computes the gradient of this tensor and adds it to the ``.grad`` of the leaves.

        Args:
            gradient: The gradient of the final result with respect to this tensor. It is optional
                if the tensor has one element.
            retain_graph: Whether to keep the graph for another backward pass. The default is
                ``create_graph``.
            create_graph: Whether to record the backward pass, for derivatives of higher order.
            inputs: The tensors whose ``.grad`` is added to. By default, all leaves of the graph.

        Example:
            >>> x = torch.tensor([1.0, 3.0], requires_grad=True)
            >>> (x**2).sum().backward()
            >>> x.grad
            tensor([2., 6.])
        """
        backward(self, gradient, retain_graph, create_graph, inputs=inputs)

    # -- hooks -------------------------------------------------------------------------------

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Registers a function that is called when the gradient of this tensor is computed.

        Args:
            hook: A function of the gradient. It returns None, or a gradient to use instead.

        Returns:
            A handle whose method ``remove`` removes the hook.

        Example:
            >>> x = torch.ones(2, requires_grad=True)
            >>> handle = x.register_hook(lambda g: g * 2)
            >>> x.sum().backward(); x.grad
            tensor([2., 2.])
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        node, number = edge(self)
        if node is None or node is NOWHERE:
            raise RuntimeError(
                "cannot register a hook on a view that was taken in no_grad mode: it has no "
                "gradient. Take the view in grad mode, or register the hook on its base."
            )
        extras = node.extras_for_visit()
        if extras.tensor_hooks is None:
            extras.tensor_hooks = {}
        if self._node is not None:
            registry = extras.tensor_hooks.setdefault(number or 0, OrderedDict())
        else:  # a leaf keeps its hooks itself: its node may go and come with the graphs using it
            meta = meta_of(self)
            if meta.hooks is None:
                meta.hooks = OrderedDict()
            registry = extras.tensor_hooks[0] = meta.hooks
        return add_hook(registry, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Any], None]) -> RemovableHandle:
        """Registers a function that is called after the ``.grad`` of this leaf is written.

        Args:
            hook: A function of the tensor, which returns nothing.

        Returns:
            A handle whose method ``remove`` removes the hook.
        """
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if self.grad_fn is not None:
            raise RuntimeError(
                "post accumulate grad hooks cannot be registered on non-leaf tensors"
            )
        meta = meta_of(self)
        if meta.post_hooks is None:
            meta.post_hooks = OrderedDict()
        return add_hook(meta.post_hooks, hook)


def _detached(x: Any, interceptors: Sequence[Any]) -> Any:
    """A value of a transform without its history. Of the interceptors of operations, those that
    note or replace what a function uses are asked first."""
    if not interceptors:
        if not isinstance(x._data, Lifted):
            return x.detach()
        return wrap(x._data.detached(), version=version_of(x))
    detach = getattr(interceptors[-1], "detach", None)
    if detach is None:
        return _detached(x, interceptors[:-1])
    return detach(x, lambda source: _detached(source, interceptors[:-1]))
