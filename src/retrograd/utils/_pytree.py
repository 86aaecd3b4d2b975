"""``torch.utils._pytree``, where programs look for ``utils.pytree``."""

from retrograd.utils.pytree import *  # noqa: F403 - all of it
from retrograd.utils.pytree import __all__ as __all__
