"""Names of PyTorch's tracing that programs mention in passing."""
