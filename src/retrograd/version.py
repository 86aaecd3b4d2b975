"""``torch.version``: of this package, and of what PyTorch may be built with and this is not."""

__version__ = "0.1.0"
debug = False
cuda = hip = rocm = xpu = None
git_version = "unknown"
