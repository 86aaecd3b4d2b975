"""``torch.version``: the version of this package; ``cuda`` and similar are ``None``."""

__version__ = "0.1.0"
debug = False
cuda = hip = rocm = xpu = None
git_version = "unknown"
