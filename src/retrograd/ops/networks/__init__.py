"""What neural networks are made of."""
