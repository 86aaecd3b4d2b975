"""What the stubs say beyond the signatures of functions: types by the names of arguments, and whole
signatures where the result depends on how a function is called."""

from __future__ import annotations

words = str.split

# The types of arguments that are annotated as Any, because operations take raw arrays and Tensors
# alike. One that may be None has None for its default, which the generator adds.
ARGUMENTS = {
    **dict.fromkeys(words(
        "A B LD linear_bias linear_weight LU LU_data LU_pivots "
        "a abs anchor angle append attn_mask aweights b b_hh b_ih batch1 "
        "batch2 bias boundaries condition count fweights grid hx imag in_proj_bias in_proj_weight "
        "index indices input input1 input2 k_proj_weight key key_padding_mask log_probs logits "
        "mask mat mat1 mat2 n negative new_state offsets other out_proj_bias out_proj_weight "
        "per_sample_weights pivots pos_weight positive prepend prob q_proj_weight query real "
        "running_mean running_var self sorted_sequence sorter source src static_k static_v target "
        "targets tau tensor tensor1 tensor2 theta v_proj_weight value values var vec vec1 "
        "vec2 w_hh w_ih weight weights window x x1 x2 y"
    ), "Tensor"),
    **dict.fromkeys(words("alpha beta dx correction nan posinf neginf"), "Number"),
    **dict.fromkeys(words("min max exponent test_elements elements"), "Operand"),
    **dict.fromkeys(words("kernel_size stride padding dilation output_padding"), "Ints"),
    **dict.fromkeys(words("rtol atol rcond tol"), "float | Tensor"),
    **dict.fromkeys(words("destination shifts"), "Ints"),
    **dict.fromkeys(words("input_lengths target_lengths"), "Tensor | Sequence[int]"),
    **dict.fromkeys(words("size shape pad"), "Shape"),
    "axis": "int", "bias_k": "Tensor | None", "bias_v": "Tensor | None",
    "data": "Any", "device": "Device", "dim": "int", "dims": "Ints", "dtype": "Dtype",
    "fill_value": "Number", "generator": "Generator", "layout": "Layout", "low": "int",
    "high": "int", "memory_format": "MemoryFormat", "names": "None", "obj": "Any",
    "buffer": "Any", "ext_tensor": "Any", "ndarray": "Array",
    "ord": "int | float | str", "out": "Tensor", "p": "int | float | str", "q": "float | Tensor",
    "matrices": "Tensor", "s": "Number", "scale_factor": "float | Sequence[float]",
    "start": "Number", "end": "Number", "step": "Number", "tensors": "Tensor",
    "indices_or_sections": "int | Sequence[int]", "unbiased": "bool",
    "distance_function": "Callable[[Tensor, Tensor], Tensor]",
}  # fmt: skip
# Other types for the arguments of one function.
OF_FUNCTION = {
    "adaptive_avg_pool1d.output_size": "int | Sequence[int]",
    "adaptive_max_pool1d.output_size": "int | Sequence[int]",
    "convolution.bias": "Tensor | None", "batch_norm.bias": "Tensor | None",
    "batch_norm.weight": "Tensor | None", "batch_norm.running_mean": "Tensor | None",
    "batch_norm.running_var": "Tensor | None", "instance_norm.bias": "Tensor | None",
    "instance_norm.weight": "Tensor | None", "instance_norm.running_mean": "Tensor | None",
    "instance_norm.running_var": "Tensor | None",
    "multi_head_attention_forward.in_proj_weight": "Tensor | None",
    "multi_head_attention_forward.in_proj_bias": "Tensor | None",
    "multi_head_attention_forward.out_proj_bias": "Tensor | None",
    "dist.p": "float", "gradient.dim": "Dims", "normalize.dim": "Ints",
    "index_put.indices": "Sequence[Tensor | None]", "lstm_cell.hx": "Sequence[Tensor]",
    "lerp.weight": "Operand", "lerp.end": "Tensor",
    "masked_fill.value": "Operand", "fill.value": "Operand",
    "index_fill.value": "Operand", "constant_pad_nd.value": "Number", "addcmul.value": "Number",
    "addcdiv.value": "Number", "matrix_norm.dim": "Sequence[int]",
    "multi_dot.tensors": "Sequence[Tensor]", "interpolate.size": "Ints", "upsample.size": "Ints",
    "upsample_nearest.size": "Ints", "upsample_bilinear.size": "Ints",
    "gaussian_nll_loss.var": "Tensor | float", "searchsorted.input": "Operand",
    "bucketize.input": "Operand", "affine_grid.size": "Shape", "unravel_index.shape": "Ints",
    "squeeze.dim": "Ints", "roll.dims": "Ints", "clamp_min.min": "Operand",
    "fold.output_size": "Ints", "randint_like.low": "int", "take_along_dim.indices": "Tensor",
    "max_unpool1d.output_size": "Sequence[int]", "max_unpool2d.output_size": "Sequence[int]",
    "max_unpool3d.output_size": "Sequence[int]", "tensorsolve.dims": "Sequence[int]",
    "result_type.tensor1": "Operand", "result_type.tensor2": "Operand",
    "movedim.source": "Ints", "moveaxis.source": "Ints",
    "histogramdd.bins": "int | Sequence[int] | Sequence[Tensor]", "hash_tensor.dim": "Ints",
    "segment_reduce.data": "Tensor", "segment_reduce.lengths": "Tensor | None",
    "segment_reduce.indices": "Tensor | None", "segment_reduce.offsets": "Tensor | None",
    "view_copy.dtype": "Dtype | None", "lobpcg.B": "Tensor | None",
    "lobpcg.X": "Tensor | None", "lobpcg.iK": "Tensor | None", "lobpcg.ortho_iparams": "Any",
    "lobpcg.tracker": "Any", "lobpcg.ortho_fparams": "Any", "lobpcg.ortho_bparams": "Any",
    "svd_lowrank.M": "Tensor | None",
    "linear_cross_entropy.options": "Any", "squeeze_copy.dim": "Ints",
    **{f"native_{norm}.{word}": "Tensor | None"
       for norm in ("batch_norm", "layer_norm", "group_norm")
       for word in ("weight", "bias", "running_mean", "running_var")},
}  # fmt: skip
OF_FUNCTION |= {f"conv{n}d.padding": "Ints | str" for n in (1, 2, 3)}
OUTPUT_SIZE = "int | Sequence[int | None] | None"  # of adaptive pools
# Functions whose second operand may be a number, and those whose first may be.
NUMBER_RIGHT = set(words(
    "add sub mul div eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor remainder floor_divide "
    "fmod divide true_divide multiply subtract greater greater_equal less less_equal "
    "not_equal rsub float_power xlogy xlog1py zeta copysign bitwise_left_shift bitwise_right_shift "
    "ldexp"
))
NUMBER_LEFT = set(words(
    "bitwise_and bitwise_or bitwise_xor remainder pow float_power xlogy xlog1py zeta "
    "bitwise_left_shift bitwise_right_shift"
))
POLYNOMIALS = "_polynomial_"  # functions of a point and a degree, either of which may be a number

# Reductions that take NumPy's ``axis`` and ``keepdims`` too. PyTorch takes them everywhere.
AXIS = set(words("sum mean prod amax amin all any argmax argmin std var cumsum cumprod squeeze"))

# Results that are not a Tensor.
RESULTS = {
    **dict.fromkeys(words("sort topk cummax cummin kthvalue mode"), "ValuesIndices"),
    **dict.fromkeys(words("var_mean std_mean"), "tuple[Tensor, Tensor]"),
    **dict.fromkeys(["adaptive_max_pool1d_with_indices", "adaptive_max_pool2d_with_indices",
                     "adaptive_max_pool3d_with_indices", "max_pool1d_with_indices",
                     "max_pool2d_with_indices", "max_pool3d_with_indices"],
                    "tuple[Tensor, Tensor]"),
    "torch.adaptive_max_pool1d": "tuple[Tensor, Tensor]",
    "aminmax": "MinMax", "frexp": "Frexp", "histogram": "Histogram", "geqrf": "Geqrf",
    "triangular_solve": "TriangularSolve", "cholesky_ex": "CholeskyEx", "lstsq": "Lstsq",
    "ldl_factor": "LDLFactor", "ldl_factor_ex": "LDLFactorEx", "histogramdd": "HistogramDD",
    **dict.fromkeys(words("svd_lowrank pca_lowrank native_batch_norm native_layer_norm "
                          "native_group_norm"), "tuple[Tensor, Tensor, Tensor]"),
    "lobpcg": "tuple[Tensor, Tensor]",
    **dict.fromkeys(words("split_copy split_with_sizes_copy unbind_copy"), "tuple[Tensor, ...]"),
    "linalg.lu_factor": "LUFactor", "linalg.lu_factor_ex": "LUFactorEx", "linalg.lu": "PLU",
    "lu_unpack": "PLU", "torch.svd": "SVD", "linalg.svd": "LinalgSVD", "eigh": "Eigen",
    "eig": "Eigen", "qr": "QR", "solve_ex": "SolveEx", "inv_ex": "InvEx", "slogdet": "Slogdet",
    "gradient": "tuple[Tensor, ...]",
    "multi_head_attention_forward": "tuple[Tensor, Tensor | None]",
}  # fmt: skip

_NEW = (
    "dtype: Dtype | None = None, layout: Layout | None = None, device: Device = None, "
    "pin_memory: bool = False, requires_grad: bool = False"
)
_SIZED = """
{name}(*size: int, {extra}{new}) -> Tensor
{name}(size: Shape, *, {extra}{new}) -> Tensor
"""
_OUT = "out: Tensor | None = None, "
_RANDOM = "generator: Generator | None = None, "
_NO_NAMES = ", memory_format: MemoryFormat | None = None, names: None = None"
# Whole signatures. Several for one name are overloads. Those of a function hold for the method, of
# which the first argument is ``self``, unless there are others for ``Tensor.name``.
SIGNATURES = """
manual_seed(seed: int) -> Generator
broadcast_shapes(*shapes: int | Shape) -> Size
max(input: Tensor, *, out: Tensor | None = None) -> Tensor
max(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor
max(input: Tensor, dim: int, keepdim: bool = False, *, out: Sequence[Tensor] | None = None) -> ValuesIndices
max(input: Tensor, *, axis: int, keepdims: bool = False) -> ValuesIndices
min(input: Tensor, *, out: Tensor | None = None) -> Tensor
min(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor
min(input: Tensor, dim: int, keepdim: bool = False, *, out: Sequence[Tensor] | None = None) -> ValuesIndices
min(input: Tensor, *, axis: int, keepdims: bool = False) -> ValuesIndices
median(input: Tensor) -> Tensor
median(input: Tensor, dim: int, keepdim: bool = False, *, out: Sequence[Tensor] | None = None) -> ValuesIndices
nanmedian(input: Tensor) -> Tensor
nanmedian(input: Tensor, dim: int, keepdim: bool = False, *, out: Sequence[Tensor] | None = None) -> ValuesIndices
var(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor
var(input: Tensor, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False, out: Tensor | None = None) -> Tensor
var(input: Tensor, unbiased: bool) -> Tensor
var(input: Tensor, *, axis: Dims, correction: Number | None = None, keepdims: bool = False) -> Tensor
std(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor
std(input: Tensor, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False, out: Tensor | None = None) -> Tensor
std(input: Tensor, unbiased: bool) -> Tensor
std(input: Tensor, *, axis: Dims, correction: Number | None = None, keepdims: bool = False) -> Tensor
var_mean(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False) -> tuple[Tensor, Tensor]
var_mean(input: Tensor, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]
std_mean(input: Tensor, dim: Dims = None, unbiased: bool = True, keepdim: bool = False) -> tuple[Tensor, Tensor]
std_mean(input: Tensor, dim: Dims = None, *, correction: Number | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]
where(condition: Tensor) -> tuple[Tensor, ...]
where(condition: Tensor, input: Operand, other: Operand, *, out: Tensor | None = None) -> Tensor
set_default_tensor_type(t: type[Tensor] | str) -> None
Tensor.cuda(self, device: Device = None, non_blocking: bool = False) -> Tensor
Tensor.apply_(self, callable: Callable[[Any], Any]) -> Tensor
Tensor.map_(self, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor
Tensor.set_(self, source: Any = None, storage_offset: int = 0, size: Shape | None = None, stride: Shape | None = None) -> Tensor
Tensor.resize_(self, *sizes: int, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.resize_(self, sizes: Shape, *, memory_format: MemoryFormat | None = None) -> Tensor
resize_as_(input: Tensor, the_template: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.resize_as_(self, the_template: Tensor, *, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.as_subclass(self, cls: type[Any]) -> Any
Tensor.to_sparse(self, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: int | None = None) -> Any
Tensor.sparse_mask(self, mask: Any) -> Any
Tensor.to_sparse_csr(self, dense_dim: int | None = ...) -> Any
Tensor.to_sparse_csc(self, dense_dim: int | None = ...) -> Any
Tensor.to_sparse_bsr(self, blocksize: Sequence[int], dense_dim: int | None = ...) -> Any
Tensor.to_sparse_bsc(self, blocksize: Sequence[int], dense_dim: int | None = ...) -> Any
Tensor.to_dense(self) -> Tensor
Tensor.storage(self) -> Any
Tensor._typed_storage(self) -> Any
Tensor.untyped_storage(self) -> Any
Tensor.share_memory_(self) -> Tensor
Tensor.is_shared(self) -> bool
Tensor.pin_memory(self, device: Device = None) -> Tensor
Tensor.is_pinned(self, device: Device = None) -> bool
Tensor.where(self, condition: Tensor, other: Operand) -> Tensor
nonzero(input: Tensor, *, as_tuple: Literal[False] = False, out: Tensor | None = None) -> Tensor
nonzero(input: Tensor, *, as_tuple: Literal[True]) -> tuple[Tensor, ...]
unique(input: Tensor, sorted: bool = True, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None) -> Tensor
unique(input: Tensor, sorted: bool, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: int | None = None) -> tuple[Tensor, Tensor]
unique(input: Tensor, sorted: bool = True, *, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: int | None = None) -> tuple[Tensor, Tensor]
unique(input: Tensor, sorted: bool = True, return_inverse: Literal[False] = False, *, return_counts: Literal[True], dim: int | None = None) -> tuple[Tensor, Tensor]
unique(input: Tensor, sorted: bool = True, *, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = None) -> tuple[Tensor, Tensor, Tensor]
unique(input: Tensor, sorted: bool, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = None) -> tuple[Tensor, Tensor, Tensor]
unique(input: Tensor, sorted: bool, return_inverse: Literal[False], return_counts: Literal[True], dim: int | None = None) -> tuple[Tensor, Tensor]
unique_consecutive(input: Tensor, return_inverse: Literal[False] = False, return_counts: Literal[False] = False, dim: int | None = None) -> Tensor
unique_consecutive(input: Tensor, return_inverse: Literal[True], return_counts: Literal[False] = False, dim: int | None = None) -> tuple[Tensor, Tensor]
unique_consecutive(input: Tensor, return_inverse: Literal[False] = False, *, return_counts: Literal[True], dim: int | None = None) -> tuple[Tensor, Tensor]
unique_consecutive(input: Tensor, return_inverse: Literal[True], return_counts: Literal[True], dim: int | None = None) -> tuple[Tensor, Tensor, Tensor]
split(tensor: Tensor, split_size_or_sections: Ints, dim: int = 0) -> tuple[Tensor, ...]
Tensor.split(self, split_size: Ints, dim: int = 0) -> tuple[Tensor, ...]
tensor_split(input: Tensor, indices_or_sections: Ints | Tensor, dim: int = 0) -> tuple[Tensor, ...]
tensor_split(input: Tensor, *, indices: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]
tensor_split(input: Tensor, *, sections: int, dim: int = 0) -> tuple[Tensor, ...]
tensor_split(input: Tensor, *, tensor_indices_or_sections: Tensor, dim: int = 0) -> tuple[Tensor, ...]
reshape(input: Tensor, shape: Shape) -> Tensor
Tensor.reshape(self, *shape: int) -> Tensor
Tensor.reshape(self, shape: Shape) -> Tensor
Tensor.view(self, *size: int) -> Tensor
Tensor.view(self, size: Shape) -> Tensor
Tensor.view(self, dtype: Dtype) -> Tensor
Tensor.expand(self, *size: int, implicit: bool = False) -> Tensor
Tensor.expand(self, size: Shape, *, implicit: bool = False) -> Tensor
Tensor.repeat(self, *repeats: int) -> Tensor
Tensor.repeat(self, repeats: Shape) -> Tensor
Tensor.sum_to_size(self, *size: int) -> Tensor
Tensor.sum_to_size(self, size: Shape) -> Tensor
tile(input: Tensor, dims: Shape) -> Tensor
Tensor.tile(self, *dims: int) -> Tensor
Tensor.tile(self, dims: Shape) -> Tensor
permute(input: Tensor, dims: Shape) -> Tensor
Tensor.permute(self, *dims: int) -> Tensor
Tensor.permute(self, dims: Shape) -> Tensor
flip(input: Tensor, dims: Ints) -> Tensor
Tensor.flip(self, *dims: int) -> Tensor
Tensor.flip(self, dims: Shape) -> Tensor
unflatten(input: Tensor, dim: int, sizes: Shape) -> Tensor
Tensor.unfold(self, dimension: int, size: int, step: int) -> Tensor
Tensor.polygamma(self, n: int) -> Tensor
atleast_1d(tensor: Tensor, /) -> Tensor
atleast_1d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]
atleast_1d(*tensors: Tensor) -> tuple[Tensor, ...]
atleast_2d(tensor: Tensor, /) -> Tensor
atleast_2d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]
atleast_2d(*tensors: Tensor) -> tuple[Tensor, ...]
atleast_3d(tensor: Tensor, /) -> Tensor
atleast_3d(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]
atleast_3d(*tensors: Tensor) -> tuple[Tensor, ...]
broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]
broadcast_tensors(tensors: Sequence[Tensor], /) -> tuple[Tensor, ...]
block_diag(*tensors: Tensor) -> Tensor
cartesian_prod(*tensors: Tensor) -> Tensor
meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]
meshgrid(tensors: Sequence[Tensor], /, *, indexing: str | None = None) -> tuple[Tensor, ...]
einsum(equation: str, *operands: Tensor) -> Tensor
einsum(equation: str, operands: Sequence[Tensor], /) -> Tensor
einsum(operand: Tensor, /, *operands: Tensor | Sequence[Any]) -> Tensor
chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor
tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] | Sequence[int] | Tensor = 2, out: Tensor | None = None) -> Tensor
pow(input: Tensor, exponent: Operand, *, out: Tensor | None = None) -> Tensor
pow(input: Number, exponent: Tensor, *, out: Tensor | None = None) -> Tensor
float_power(input: Tensor, exponent: Operand, *, out: Tensor | None = None) -> Tensor
float_power(input: Number, exponent: Tensor, *, out: Tensor | None = None) -> Tensor
isin(elements: Tensor, test_elements: Operand, *, assume_unique: bool = False, invert: bool = False, out: Tensor | None = None) -> Tensor
isin(elements: Number, test_elements: Tensor, *, assume_unique: bool = False, invert: bool = False, out: Tensor | None = None) -> Tensor
scatter(input: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str | None = None, out: Tensor | None = None) -> Tensor
scatter(input: Tensor, dim: int, index: Tensor, value: Number, *, reduce: str | None = None, out: Tensor | None = None) -> Tensor
repeat_interleave(input: Tensor, repeats: int | Tensor, dim: int | None = None, *, output_size: int | None = None) -> Tensor
repeat_interleave(input: Tensor, *, output_size: int | None = None) -> Tensor
trapezoid(y: Tensor, x: Tensor, *, dim: int = -1) -> Tensor
trapezoid(y: Tensor, *, dx: Number = 1, dim: int = -1) -> Tensor
trapz(y: Tensor, x: Tensor, *, dim: int = -1) -> Tensor
trapz(y: Tensor, *, dx: float = 1, dim: int = -1) -> Tensor
cumulative_trapezoid(y: Tensor, x: Tensor, *, dim: int = -1) -> Tensor
cumulative_trapezoid(y: Tensor, *, dx: Number = 1, dim: int = -1) -> Tensor
gradient(input: Tensor, *, spacing: Number | Sequence[Number] | Tensor | Sequence[Tensor] | None = 1, dim: Dims = None, edge_order: int = 1) -> tuple[Tensor, ...]
histogram(input: Tensor, bins: int, *, range: Sequence[float] | None = None, weight: Tensor | None = None, density: bool = False, out: Sequence[Tensor] | None = None) -> Histogram
histogram(input: Tensor, bins: Tensor, *, weight: Tensor | None = None, density: bool = False, out: Sequence[Tensor] | None = None) -> Histogram
norm(input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False, dtype: Dtype | None = None, out: Tensor | None = None) -> Tensor
bernoulli(input: Tensor, *, generator: Generator | None = None, out: Tensor | None = None) -> Tensor
bernoulli(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor
lu(A: Tensor, pivot: bool = True, get_infos: Literal[False] = False) -> tuple[Tensor, Tensor]
lu(A: Tensor, pivot: bool, get_infos: Literal[True]) -> tuple[Tensor, Tensor, Tensor]
lu(A: Tensor, pivot: bool = True, *, get_infos: Literal[True]) -> tuple[Tensor, Tensor, Tensor]
lstm(input: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, Tensor, Tensor]
lstm(data: Tensor, batch_sizes: Tensor, hx: Sequence[Tensor], params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool) -> tuple[Tensor, Tensor, Tensor]
gru(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, Tensor]
gru(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool) -> tuple[Tensor, Tensor]
rnn_tanh(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, Tensor]
rnn_tanh(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool) -> tuple[Tensor, Tensor]
rnn_relu(input: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, Tensor]
rnn_relu(data: Tensor, batch_sizes: Tensor, hx: Tensor, params: Sequence[Tensor], has_biases: bool, num_layers: int, dropout: float, train: bool, bidirectional: bool) -> tuple[Tensor, Tensor]
arange(end: Number, *, {out}{new}) -> Tensor
arange(start: Number, end: Number, step: Number = 1, *, {out}{new}) -> Tensor
normal(mean: Tensor, std: Tensor | float = 1.0, *, {random}out: Tensor | None = None) -> Tensor
normal(mean: float, std: Tensor, *, {random}out: Tensor | None = None) -> Tensor
normal(mean: float, std: float, size: Shape, *, {random}{out}{new}) -> Tensor
randint(high: int, size: Shape, *, {random}{out}{new}) -> Tensor
randint(low: int, high: int, size: Shape, *, {random}{out}{new}) -> Tensor
randint_like(input: Tensor, high: int, *, {random}{new}, memory_format: MemoryFormat | None = None) -> Tensor
randint_like(input: Tensor, low: int, high: int, *, {random}{new}, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.new_tensor(self, data: Any, *, {new}) -> Tensor
Tensor.new_full(self, size: Shape, fill_value: Number, *, {new}) -> Tensor
Tensor.new_empty_strided(self, size: Shape, stride: Sequence[int], *, {new}) -> Tensor
Tensor.new_empty(self, *size: int, {new}) -> Tensor
Tensor.new_empty(self, size: Shape, *, {new}) -> Tensor
Tensor.new_zeros(self, *size: int, {new}) -> Tensor
Tensor.new_zeros(self, size: Shape, *, {new}) -> Tensor
Tensor.new_ones(self, *size: int, {new}) -> Tensor
Tensor.new_ones(self, size: Shape, *, {new}) -> Tensor
Tensor.new(self, *args: Any, device: Device = None) -> Tensor
Tensor.to(self, dtype: Dtype, non_blocking: bool = False, copy: bool = False, *, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.to(self, device: Device = None, dtype: Dtype | None = None, non_blocking: bool = False, copy: bool = False, *, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.to(self, other: Tensor, non_blocking: bool = False, copy: bool = False, *, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.type(self, dtype: None = None, non_blocking: bool = False) -> str
Tensor.type(self, dtype: Dtype | str, non_blocking: bool = False) -> Tensor
Tensor.type_as(self, other: Tensor) -> Tensor
Tensor.expand_as(self, other: Tensor) -> Tensor
Tensor.view_as(self, other: Tensor) -> Tensor
Tensor.reshape_as(self, other: Tensor) -> Tensor
Tensor.contiguous(self, memory_format: MemoryFormat | None = None) -> Tensor
Tensor.cpu(self) -> Tensor
Tensor.copy_(self, src: Tensor, non_blocking: bool = False) -> Self
Tensor.zero_(self) -> Self
Tensor.bernoulli_(self, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Self
Tensor.cauchy_(self, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Self
Tensor.exponential_(self, lambd: float = 1, *, generator: Generator | None = None) -> Self
Tensor.geometric_(self, p: float, *, generator: Generator | None = None) -> Self
Tensor.log_normal_(self, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Self
Tensor.normal_(self, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Self
Tensor.random_(self, *, generator: Generator | None = None) -> Self
Tensor.random_(self, to: int, *, generator: Generator | None = None) -> Self
Tensor.random_(self, from_: int, to: int | None, *, generator: Generator | None = None) -> Self
Tensor.uniform_(self, from_: float = 0, to: float = 1, *, generator: Generator | None = None) -> Self
Tensor.fill_diagonal_(self, fill_value: Number, wrap: bool = False) -> Self
nn.functional.max_pool1d(input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False, return_indices: Literal[False] = False) -> Tensor
nn.functional.max_pool1d(input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.max_pool1d(input: Tensor, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.max_pool2d(input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False, return_indices: Literal[False] = False) -> Tensor
nn.functional.max_pool2d(input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.max_pool2d(input: Tensor, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.max_pool3d(input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False, return_indices: Literal[False] = False) -> Tensor
nn.functional.max_pool3d(input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1, ceil_mode: bool = False, *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.max_pool3d(input: Tensor, kernel_size: Ints, stride: Ints | None, padding: Ints, dilation: Ints, ceil_mode: bool, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.adaptive_max_pool1d(input: Tensor, output_size: Ints, return_indices: Literal[False] = False) -> Tensor
nn.functional.adaptive_max_pool1d(input: Tensor, output_size: Ints, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False) -> Tensor
nn.functional.adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
nn.functional.adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[False] = False) -> Tensor
nn.functional.adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int | None] | None, return_indices: Literal[True]) -> tuple[Tensor, Tensor]
"""  # noqa: E501
SIGNATURES += "".join(
    f"Tensor.{name}(self) -> Tensor\n"
    for name in words("bfloat16 bool byte cdouble cfloat char double float half int long short")
)
SIGNATURES = SIGNATURES.format(new=_NEW, out=_OUT, random=_RANDOM)
for _name, _extra in {
    "empty": _OUT, "zeros": _OUT, "ones": _OUT, "rand": _RANDOM + _OUT, "randn": _RANDOM + _OUT,
}.items():  # fmt: skip
    SIGNATURES += _SIZED.format(name=_name, extra=_extra, new=_NEW)
