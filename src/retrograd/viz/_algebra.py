"""Simplifying expressions for readers: squares for products of equal factors, and products for sums
of multiples."""

from __future__ import annotations

import ast
import copy


def simple(expression: ast.expr) -> ast.expr:
    """An expression with squares for products of equal factors, and products for sums of
    multiples."""

    class Simplifier(ast.NodeTransformer):
        def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
            self.generic_visit(node)
            minus = isinstance(node.op, ast.USub)
            operand = node.operand
            if minus and isinstance(operand, ast.UnaryOp) and isinstance(operand.op, ast.USub):
                return operand.operand
            if minus and isinstance(operand, ast.Constant) and operand.value == 0:
                return operand
            return node

        def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
            self.generic_visit(node)
            if isinstance(node.op, ast.Mult):
                return product_of(node.left, node.right)
            right = node.right
            negative = isinstance(right, ast.UnaryOp) and isinstance(right.op, ast.USub)
            if isinstance(node.op, ast.Sub) and negative:
                assert isinstance(right, ast.UnaryOp)
                node = ast.BinOp(node.left, ast.Add(), right.operand)
            if isinstance(node.op, (ast.Add, ast.Sub)):
                return sum_of(node)
            if isinstance(node.op, ast.Div):
                return ratio_of(node)
            return node

    result: ast.expr = Simplifier().visit(copy.deepcopy(expression))
    return result


def same(a: ast.expr, b: ast.expr) -> bool:
    return ast.dump(a) == ast.dump(b)


def factors(node: ast.expr) -> list[ast.expr]:
    """The factors of a product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return [*factors(node.left), *factors(node.right)]
    is_power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    if is_power and ast.unparse(node.right) in ("2", "3"):  # type: ignore[attr-defined]
        return [node.left] * int(ast.unparse(node.right))  # type: ignore[attr-defined]
    return [node]


def times(parts: list[ast.expr]) -> ast.expr:
    """The product of some factors, equal ones as powers, without ones."""
    parts = [x for x in parts if ast.unparse(x) not in ("1", "1.0")] or parts[:1]
    results: list[tuple[ast.expr, int]] = []
    for part in parts:
        at = next((i for i, (x, _) in enumerate(results) if same(x, part)), None)
        if at is None:
            results.append((part, 1))
        else:
            results[at] = (part, results[at][1] + 1)
    results.sort(key=lambda entry: not isinstance(entry[0], ast.Constant))  # numbers come first
    powers: list[ast.expr] = [
        x if n == 1 else ast.BinOp(x, ast.Pow(), ast.Constant(n)) for x, n in results
    ]
    result = powers[0]
    for power in powers[1:]:
        result = ast.BinOp(result, ast.Mult(), power)
    return result


def product_of(left: ast.expr, right: ast.expr) -> ast.expr:
    return times([*factors(left), *factors(right)])


def ratio_of(node: ast.BinOp) -> ast.expr:
    """``a / b / b`` as a / b²; anything else unchanged."""
    left = node.left
    if (
        isinstance(left, ast.BinOp)
        and isinstance(left.op, ast.Div)
        and same(left.right, node.right)
    ):
        return ast.BinOp(left.left, ast.Div(), product_of(left.right, node.right))
    return node


def sum_of(node: ast.BinOp) -> ast.expr:
    """``a ± a·b`` as a product; anything else as it is."""
    left, right = factors(node.left), factors(node.right)
    if isinstance(node.left, ast.Constant) or isinstance(node.right, ast.Constant):
        if isinstance(node.right, ast.Constant) and node.right.value == 0:
            return node.left
        if isinstance(node.left, ast.Constant) and node.left.value == 0:
            minus = isinstance(node.op, ast.Sub)
            return ast.UnaryOp(ast.USub(), node.right) if minus else node.right
        return node
    if isinstance(node.op, ast.Add) and same(node.left, node.right):
        return times([ast.Constant(2), *left])
    common = left[0]
    if not any(same(common, x) for x in right):
        return node
    rest = list(right)
    rest.remove(next(x for x in right if same(x, common)))
    one: list[ast.expr] = [ast.Constant(1)]
    inner = ast.BinOp(times(left[1:] or one), node.op, times(rest or one))
    return ast.BinOp(common, ast.Mult(), sum_of(inner))
