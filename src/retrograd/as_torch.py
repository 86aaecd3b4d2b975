"""Importing this module makes ``import torch`` mean retrograd, submodules included.

It has to come before the first import of ``torch``, at the top of the program::

    import retrograd.as_torch
    import torch
    import torch.nn.functional as F

``python -m retrograd script.py`` does the same for a script without changing it.
"""

from __future__ import annotations

from retrograd._alias import install

install()
