"""Descriptions of the rules of some operations, for pictures of graphs."""

RESHAPED = "The same elements in another shape: the gradient gets the shape of the input."
MOVED = "The gradient is transposed back."
PADDED = "The gradient goes to the selected elements; all others get zero."
EXTREME = (
    "The gradient goes to the extreme element; if several are equal, they share it. All others "
    "get zero."
)
PICKED = "The gradient goes to the selected elements, at the saved indices; all others get zero."
POOL = "The gradient of each window goes to its largest element; all others get nothing from it."
AVERAGE = "The gradient of each window is divided by its size and goes to all elements in it."
NORM = (
    "The incoming gradient, times weight, minus its mean and minus its share along the normalised "
    "values, is divided by the standard deviation: shifting or scaling all values does not change "
    "the result."
)
JOINED = "The gradient is split, and each input gets the piece that it contributed."
CUT = "The gradients of the pieces are concatenated; a piece without a gradient counts as zeros."
DERIVATIVE = "Each element of the gradient is multiplied by the derivative at that element."
ROBUST = (
    "For small differences between input and target, the derivative is proportional to the "
    "difference, as for squared errors; beyond the limit it depends only on the sign."
)
