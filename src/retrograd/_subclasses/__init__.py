"""Names of PyTorch's fake tensors that programs mention, to treat these differently. No tensor is
one here: shapes without memory are tensors on the device ``"meta"``."""

from retrograd._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
