"""``torch.testing``: comparing tensors in tests, and making random ones."""

from retrograd.testing._comparison import assert_allclose, assert_close
from retrograd.testing._creation import make_tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]
