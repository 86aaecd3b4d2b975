"""Operations: a kernel on raw arrays and, beside it, its derivative.

A derivative is a *rule*: a function of the gradient ``g`` of the result and of whatever else it
names in its parameters. What a rule names is what a graph node keeps for it:

- the name of an input (``self``, ``other``): the value of that input;
- ``result``: the value of the output (of an operation with several, the name of one of them);
- ``shape``: the shape of the input that the rule is for;
- ``transposed_next``: whether the gradient is about to be transposed, by the node that it goes to;
- the name of an option (``dim``, ``keepdim``): its value.

Rules are written with operators and with operations, which take raw arrays and Tensors alike. On
raw arrays a rule is plain array code; on Tensors it is recorded itself, and so gives derivatives
of any order.

A rule gives the *transposed* Jacobian applied to ``g``, without conjugation. The adjoint that
reverse mode needs for complex numbers is the same rule on conjugated values; that is done once for
everybody, where nodes are run. ``adjoint=True`` marks the operations whose rules give the adjoint
as they stand: those that are not complex-differentiable (``abs``, ``real``...) and those whose
coefficients are complex themselves.

Two more things may be declared beside the derivative. ``check`` is called with the operands before
they are promoted, and with the options; it raises what PyTorch raises for what the operation
refuses. ``number`` is the operation to call instead when the last operand is a Python number, where
PyTorch gives that a node of its own.

Forward mode follows from the family; where a direct rule is cheaper, ``jvp`` declares one. It is a
function of the tangent ``t`` of the input (a tuple, with None for inputs that have none, if there
are several inputs) and of whatever else it names, as a rule. Such an operation, and one that fits
no family, gives a ``reason``. An operation of one input whose Jacobian is symmetric (it is the
gradient of something) says ``symmetric``: its rule serves tangents as well.

A *composite* has a definition besides: an expression in other operations, which is its meaning in
every mode. Its forward and its rules then compute the same faster on arrays.

What an operation does to a whole batch of inputs follows from the family and from the names of its
options, where these speak of dimensions. Otherwise ``batch`` says it: see
``_batching_declarations``.

What users call and read is declared here too: ``public``, ``alias``, ``in_place``, ``out``,
``accepts`` and ``doc`` are described in ``_public``. Besides:

- ``heavy``: it takes one array, and is worth sharing between threads if that is large.
- ``words``: what its rule does, in words, for pictures of graphs.
- ``rearranges``: the result has the values of the input, in another shape, order or dtype.
- ``singular``: where its derivative is infinite or undefined, with a sentence: see ``Singular``.
- ``writes``: what it does to the tensor that it writes in place, if not every element is computed
  from those at the same index. See ``WRITES``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from retrograd import arrays
from retrograd._modes import modes, switch
from retrograd._records import Record
from retrograd.arrays import Raw
from retrograd.ops._batching_declarations import Batching
from retrograd.ops._lifted import Level, Lifted, bare_level, highest_level
from retrograd.ops._lifted import TensorLike as TensorLike
from retrograd.ops._lifted import raw as raw
from retrograd.ops._operands import ARRAYS_AND_NUMBERS, NUMBERS, Rule, Target, code_of
from retrograd.ops._public import declare, documented


class Singular(Record):
    """A set of values at which the derivative of an operation is infinite or undefined. It is
    consulted only to explain a gradient that is not finite."""

    name: str  # of an input or output that the operation saves
    at: tuple[float, ...]  # the values of it
    says: str  # what happens there: "the derivative of sqrt is infinite at 0"
    cure: str  # what to do about it


class Planned(Record):
    """A call of an operation on a ``Target`` that has not been made yet."""

    operation: Operation
    operands: tuple[Any, ...]
    options: dict[str, Any]


class Operation:
    """An entry of the table: name, forward, derivative rules, and the node it leaves behind.

    Calling it with raw arrays runs the forward; calling it with Tensors runs ``function``, which
    the tensor layer supplies and which records a node.
    """

    family: ClassVar[str] = "operation"
    # Supplied by the layers above.
    make_node_class: ClassVar[Callable[[Operation], Any]]
    make_narrow_node_class: ClassVar[Callable[[Operation], Any]]
    bind: ClassVar[Callable[[Operation], Any] | None] = None
    bind_at_level: ClassVar[Callable[[Operation], Any]]
    # Calls an operation and writes the result over its first operand.
    write: ClassVar[Callable[[Operation, list[Any], dict[str, Any]], Any] | None] = None

    __slots__ = ("_at_level", "_narrow_node_class", "_node_class", "_node_name", "adjoint",
                 "batch", "broadcasts", "check", "definition", "differentiable", "doc", "dtypes",
                 "fits", "forward", "function", "fused", "has_rules", "heavy", "inputs", "joint",
                 "jvp", "name", "needed_by", "number", "of_elements", "options", "output_names",
                 "random", "rearranges", "reason", "rules", "saves", "singular", "symmetric",
                 "view", "words", "writes", "written")  # fmt: skip

    def __init__(
        self, name: str, forward: Callable[..., Any], *, inputs: tuple[str, ...],
        rules: dict[str, Callable[..., Any]] | None = None, joint: Callable[..., Any] | None = None,
        node: str | None = None, outputs: tuple[str, ...] = ("result",), dtypes: str = "same",
        adjoint: bool = False, view: bool = False, broadcasts: bool | None = None,
        check: Callable[..., None] | None = None, number: Operation | None = None,
        jvp: Callable[..., Any] | None = None, batch: Batching | Callable[..., Any] | None = None,
        random: bool = False, definition: Callable[..., Any] | None = None, fused: bool = False,
        symmetric: bool = False, reason: str | None = None, doc: str | None = None,
        example: tuple[str, str] | None = None, returns: str = "A tensor",
        heavy: bool = False, words: str = "", rearranges: bool = False, writes: str = "",
        singular: tuple[Singular, ...] = (), table: dict[str, Operation] | None = None, **face: Any,
    ) -> None:  # fmt: skip
        table = TABLE if table is None else table
        code = code_of(forward)
        self.name = name
        self.forward = forward
        self.inputs = inputs
        self.options = code.co_varnames[len(inputs) : code.co_argcount] if code else ()
        own = rules or {}
        self.rules = tuple([Rule(own[i]) if i in own else None for i in inputs])
        self.joint = Rule(joint) if joint else None
        self.has_rules = joint is not None or any(self.rules)
        self.differentiable = self.has_rules and self.family != "constant"  # results have a history
        self._node_name = node
        self.output_names = outputs  # none: as many as the arguments say, and no rule names one
        self.dtypes = dtypes
        self.adjoint = adjoint
        self.view = view
        self.broadcasts = isinstance(self, Elementwise) if broadcasts is None else broadcasts
        # Whether gradients may have to be reduced or cast to the shape and dtype of their inputs.
        self.fits = self.broadcasts or joint is not None or (dtypes == "free" and len(inputs) > 1)
        if face and doc and (self.broadcasts or batch == "pointwise"):
            doc = documented(doc, inputs, face.get("accepts", ""), example, returns)
        self.doc = doc
        self.heavy = heavy
        self.words = words
        self.rearranges = rearranges
        self.writes = frozenset(writes.split(", ")) if writes else WRITES_ALL
        assert self.writes <= WRITES.keys(), f"{name}: writes={writes!r}"
        self.singular = singular
        self.check = check
        self.number = number
        self.jvp = Rule(jvp) if jvp else None
        self.symmetric = symmetric  # the Jacobian is: the rule computes tangents, too
        self.reason = reason  # why it fits no simpler family, or needs a jvp
        self.batch: Batching | Callable[..., Any] | None = batch
        self.definition = definition
        self.fused = fused  # whether the rules take arrays only: see Composite
        self.random = random  # run by the innermost transform, whatever its arguments are
        # Whether it and its rules work element by element and return new memory.
        aligned = self.family in ("elementwise", "linear", "multilinear") and self.broadcasts
        drawn = random or batch == "random overwrite"
        by_family = self.family == "elementwise" if jvp else not adjoint
        by_dims = batch in ("dims", "pointwise")  # not all dimensions of operands are aligned
        self.of_elements = (
            aligned and by_family and not (view or drawn or callable(batch) or by_dims)
        )
        self.written: Operation | None = None  # the same with another node, for writing in place
        self.function: Callable[..., Any] | None = None  # supplied by the layer above
        self._at_level: Callable[..., Any] | None = None
        self._node_class: Any = None
        self._narrow_node_class: Any = None
        self.needed_by = self._who_needs_what()
        self.saves = tuple(self.needed_by)
        assert all(s.name in self.saves for s in singular), f"{name} does not save that"
        if name in TABLE:
            raise ValueError(f"there is an operation called {name} already")
        table[name] = self
        if Operation.bind is not None:  # declared in a module that was loaded later
            Operation.bind(self)
        if face:
            declare(self, name, is_operation=True, doc=doc, **face)

    def _who_needs_what(self) -> dict[str, tuple[int, ...]]:
        """For each value that some rule names, the inputs whose gradients it is needed for."""
        values = (*self.inputs, *self.output_names)
        if self.joint:
            everyone = tuple(range(len(self.inputs)))
            return {n: everyone for n in values if n in self.joint.names}
        needed: dict[str, tuple[int, ...]] = {}
        for value in values:
            users = [i for i, r in enumerate(self.rules) if r is not None and value in r.names]
            if users:
                needed[value] = tuple(users)
        return needed

    @property
    def at_level(self) -> Callable[..., Any] | None:
        """The function to call on Tensors of bare values under transforms, made when first needed.
        None if the operation cannot be called that way."""
        if self._at_level is None:
            if self.view or self.random or self.definition is not None:
                return None
            self._at_level = Operation.bind_at_level(self)
        return self._at_level

    @property
    def tangent_on_bare(self) -> bool:
        """Whether its tangents can be computed on bare values. A ``jvp`` may require Tensors."""
        return self.jvp is None or self.family == "elementwise"

    @property
    def tangent_by_family(self) -> bool:
        """Whether tangents follow from the family, without differentiating a rule."""
        families = ("elementwise", "linear", "multilinear", "reduction", "selecting")
        return self.tangent_on_bare and self.family in families and not self.adjoint

    @property
    def converts(self) -> bool:
        """Whether operands of several dtypes are converted to one."""
        return self.dtypes not in ("same", "free", "real")

    @property
    def moves_only(self) -> bool:
        """Whether it only moves values or asks for their dtype, and computes nothing with them."""
        overwrites = self.batch in ("overwrite", "random overwrite")
        return self.view or self.rearranges or overwrites or self.name in _BY_DTYPE

    def compute(self, args: Sequence[Any], options: dict[str, Any]) -> Any:
        """Run the forward on raw arrays of any dtype. bfloat16 is computed in float32."""
        for x in args:
            if isinstance(x, Lifted) and not x.level.number:  # kernels are for arrays
                x.refuse("the array")
        narrow = arrays.any_narrow(args) or (options and arrays.any_narrow(options.values()))
        if narrow and not self.moves_only:
            return arrays.narrow.call(self.name, self.forward, args, options)
        return self.forward(*args, **options)

    @property
    def node_name(self) -> str:
        """The name of its nodes: by default, that of the operation in PyTorch's spelling."""
        words = self.name.split("_")
        return self._node_name or f"{''.join([w.capitalize() for w in words])}Backward0"

    @property
    def node_class(self) -> Any:
        """The class of nodes that record this operation, made when first needed."""
        if self._node_class is None:
            self._node_class = Operation.make_node_class(self)
        return self._node_class

    @property
    def narrow_node_class(self) -> Any:
        """The same for operands of bfloat16."""
        if self._narrow_node_class is None:
            self._narrow_node_class = Operation.make_narrow_node_class(self)
        return self._narrow_node_class

    def __call__(operation, /, *args: Any, **options: Any) -> Any:  # noqa: N805 - options may be called self
        only_arrays = not options
        lifted = False
        for a in args:
            if type(a) in ARRAYS_AND_NUMBERS:
                continue
            if isinstance(a, TensorLike) or (type(a) in (list, tuple) and _any_tensor(a)):
                if type(args[0]) is Target:
                    return Planned(operation.written or operation, args, options)
                assert operation.function is not None, "the tensor layer is not loaded"
                return operation.function(*args, **options)
            only_arrays = False
            lifted = lifted or isinstance(a, Lifted) or type(a) is list
        if switch.active and not (only_arrays and not operation.random) and modes.levels:
            if operation.of_elements and not (options and any_arrays(options)):
                level = bare_level(args)
                if level is not None:
                    return level.run_elementwise(operation, args, options)
            innermost = modes.levels[-1] if operation.random else None
            level = innermost or highest_level((*args, *options.values()))
            if level is not None:
                return operation._at(level, args, options)
        if lifted:
            level = highest_level(args)
            if level is not None and not level.number:  # values on a device, or on ``meta``
                return operation._at(level, args, options)
        if operation.heavy and args[0].size > arrays.LARGE:
            return arrays.shared(operation.forward, args[0])
        return operation.forward(*args, **options)

    def _at(self, level: Level, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Run the operation at a level. If the last operand is a number and there is an operation
        of its own for that, run that one."""
        number = self.number
        if number is not None and type(args[-1]) in (bool, int, float, complex):
            return number(*args[:-1], **{**options, self.inputs[-1]: args[-1]})
        return level.run(self, args, options)

    def __repr__(self) -> str:
        return f"<{self.family} operation {self.name}>"


_BY_DTYPE = frozenset(("zero", "zeros_like", "nextafter", "normal_of_mean", "normal_of_std",
                       "normal_of_both"))  # fmt: skip


def _any_tensor(values: Any) -> bool:
    return any(isinstance(v, TensorLike) for v in values)


def any_arrays(options: dict[str, Any]) -> bool:
    """Whether some option is anything but a number, a string or a tuple of these."""
    for value in options.values():
        if type(value) not in NUMBERS and not (
            type(value) is tuple and all([type(v) in NUMBERS for v in value])
        ):
            return True
    return False


TABLE: dict[str, Operation] = {}
USERS: dict[str, Operation] = {}  # those that users have declared

WRITES = {
    "one value": "writes one value to every element, whatever else lies in the same memory",
    "some": "leaves some elements as they were",
    "a value read before": "reads one value, its last operand, before anything is written",
    "elements of others": "would read what it has written, if it took elements from its target",
}
WRITES_ALL: frozenset[str] = frozenset()  # every element, computed from those at the same index


class Elementwise(Operation):
    """Each element of the result depends on the elements at the same place of the inputs.

    A rule gives ``g`` times the partial derivative: its transpose is itself, so the same rule
    serves reverse mode and, with a tangent for ``g``, forward mode.
    """

    family = "elementwise"
    __slots__ = ()


class Linear(Operation):
    """Linear in its arrays, all together. The rules are the transpose; forward mode is the forward
    itself. Arrays without a rule, such as indices, are as good as options. An operation that also
    writes a number somewhere (padding, filling) names the option, ``offset``, that is the number:
    it is linear where that is zero."""

    family = "linear"
    __slots__ = ("offset",)

    def __init__(
        self, name: str, forward: Callable[..., Any], offset: str | None = None, **declared: Any
    ) -> None:
        self.offset = offset
        super().__init__(name, forward, **declared)


class Multilinear(Operation):
    """Linear in each array with the others fixed. The rules are the transposes in each; forward
    mode is the product rule over the forward."""

    family = "multilinear"
    __slots__ = ()


class Reduction(Operation):
    """Each element of the first result depends on elements of its own: those along the dimensions
    of the first input that the option ``dim`` names, or the declaration (``reduced``), or all of
    it. So the rule at a gradient of ones gives the derivatives of every result, and forward mode
    sums derivatives times tangents along the same dimensions."""

    family = "reduction"
    __slots__ = ("reduced",)

    def __init__(
        self, name: str, forward: Callable[..., Any], reduced: tuple[int, ...] | None = None,
        **declared: Any,
    ) -> None:  # fmt: skip
        self.reduced = reduced
        super().__init__(name, forward, **declared)


class Selection(Record):
    """How a kind of selecting operation knows where its elements came from. Both functions name
    what they need, as rules do, and are linear: each is the other's transpose."""

    gather: Callable[..., Any]  # from the tangent of the input, that of what was selected
    scatter: Callable[..., Any]  # from the gradient of what was selected, that of the input


class Selecting(Operation):
    """Each element of the first result is an element of the first input, or the mean of elements
    that are equal: a gather, known once computed. The rule scatters; forward mode gathers the
    tangent. A rule may be given where it is to do the same as that of the selection in another way.
    """

    family = "selecting"
    __slots__ = ("gather",)

    def __init__(
        self, name: str, forward: Callable[..., Any], selection: Selection,
        rule: Callable[..., Any] | None = None, inputs: tuple[str, ...] = ("self",),
        **declared: Any,
    ) -> None:  # fmt: skip
        self.gather = Rule(selection.gather)
        rules = {inputs[0]: rule or selection.scatter}
        super().__init__(name, forward, inputs=inputs, rules=rules, **declared)


class Constant(Operation):
    """Locally constant (comparisons, argmax, logic): there is no derivative. Results are not part
    of the graph. Rules are needed only where it overwrites, in place, a value that has a history;
    they say that nothing depends on that value any longer."""

    family = "constant"
    __slots__ = ()


class MatrixFunction(Operation):
    """A function of square matrices that commutes with transposing them, as inverses, powers and
    exponentials do: of the transposed matrix it is the transpose. Then so is its derivative, and
    the rule between two transpositions takes a tangent forward. Further results are constant."""

    family = "matrix function"
    __slots__ = ()


class Undifferentiable(Operation):
    """PyTorch has no derivative for it. As there, a result has a history, and differentiating it
    raises an error."""

    family = "undifferentiable"
    __slots__ = ()


class Composite(Operation):
    """An expression in other operations: its ``definition``, a function of the inputs and options
    that takes Tensors and values under transforms alike.

    The definition is what runs under a transform. On arrays the forward runs, which may be a fused
    kernel of the same meaning. Three things can be said about the derivative:

    - Nothing. Where a gradient is asked for, the definition is recorded, operation by operation.
    - Rules, written in operations as those of any other family are.
    - ``fused`` rules, which take arrays only. A pass that is itself recorded, or that carries
      values under a transform, differentiates the definition in place of calling them. So does
      any other if a joint rule returns NotImplemented.
    """

    family = "composite"
    __slots__ = ()


def elementwise(
    name: str, forward: Callable[..., Raw], rule: Callable[..., Any] | None = None,
    other: Callable[..., Any] | None = None, **declared: Any,
) -> Elementwise:  # fmt: skip
    """Declare ``name(self)``, or ``name(self, other)`` where there is a rule for ``other`` too."""
    inputs = declared.pop("inputs", ("self",) if other is None else ("self", "other"))
    rules = {n: r for n, r in (("self", rule), ("other", other)) if r is not None}
    return Elementwise(name, forward, inputs=inputs, rules=rules, **declared)


def linear(
    name: str, forward: Callable[..., Raw], transpose: Callable[..., Any], **declared: Any
) -> Linear:
    """Declare ``name(self, **options)`` by its forward and its transpose."""
    return Linear(name, forward, inputs=("self",), rules={"self": transpose}, **declared)


def multilinear(
    name: str,
    forward: Callable[..., Raw],
    transposes: dict[str, Callable[..., Any]],
    **declared: Any,
) -> Multilinear:
    """Declare an operation by its forward and its transpose in each of its arrays."""
    return Multilinear(name, forward, inputs=tuple(transposes), rules=transposes, **declared)


def reduction(
    name: str, forward: Callable[..., Raw], rule: Callable[..., Any], **declared: Any
) -> Reduction:
    """Declare ``name(self, **options)``, which reduces all of ``self``, or what lies along ``dim``.
    ``adjoint`` says that the result is real, whatever the input is."""
    return Reduction(name, forward, inputs=("self",), rules={"self": rule}, **declared)


def undifferentiable(
    name: str, forward: Callable[..., Any], error: Exception, inputs: tuple[str, ...] = ("self",),
    **declared: Any,
) -> Undifferentiable:  # fmt: skip
    """Declare an operation whose derivative is an error."""

    def rule(g: Any) -> Any:
        raise type(error)(*error.args)

    rules = dict.fromkeys(inputs, rule)
    return Undifferentiable(name, forward, inputs=inputs, rules=rules, **declared)


def composite(
    name: str, definition: Callable[..., Any], kernel: Callable[..., Any] | None = None,
    inputs: tuple[str, ...] = ("self",), **declared: Any,
) -> Composite:  # fmt: skip
    """Declare an operation by its definition in other operations, and perhaps a kernel that
    computes the same of arrays faster."""
    return Composite(name, kernel or definition, inputs=inputs, definition=definition, **declared)


def constant(
    name: str, forward: Callable[..., Raw], inputs: tuple[str, ...] = ("self",), **declared: Any
) -> Constant:
    """Declare an operation without derivative."""
    return Constant(name, forward, inputs=inputs, **declared)


def elementwise_constant(
    name: str, forward: Callable[..., Raw], inputs: tuple[str, ...] = ("self",), **declared: Any
) -> Constant:
    """Declare an elementwise operation without derivative: a predicate, or arithmetic on bits."""
    return Constant(name, forward, inputs=inputs, batch="pointwise", **declared)
