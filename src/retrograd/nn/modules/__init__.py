"""Where PyTorch keeps its modules, for programs that import from here."""

from retrograd.nn import *
from retrograd.nn import __all__ as __all__
from retrograd.nn.modules import module as module
