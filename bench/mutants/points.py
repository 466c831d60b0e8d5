"""Where a module can be broken in a small way, and the text of the module broken there.

A change replaces one expression or statement in the source text, so that everything else, line numbers included, stays
as it was. Words for people (messages, hints, docstrings), annotations and assertions are left alone.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.Div: ("/", "*"),
}
SPOKEN = {"hint", "message", "details"}
"""Keyword arguments that hold words for people."""


@dataclass(frozen=True)
class Mutant:
    """One small fault: the span of the source it replaces, and what stands there instead."""

    module: str
    function: str
    line: int
    start: int
    end: int
    before: str
    after: str
    number: int = 1
    """Which of those it is that read the same in its function."""

    @property
    def key(self) -> str:
        """What names it while the lines around it move."""
        again = f" [{self.number}]" if self.number > 1 else ""
        return f"{self.module} {self.function}: {_squeezed(self.before)} -> {_squeezed(self.after)}{again}"

    def apply(self, source: bytes) -> bytes:
        """The module with this fault in it."""
        return source[: self.start] + self.after.encode() + source[self.end :]


def find_mutants(path: Path, name: str) -> list[Mutant]:
    """Every fault this module can be given, in the order of its text."""
    source = path.read_bytes()
    finder = _Finder(source, name)
    finder.visit(ast.parse(source))
    return _numbered(sorted(finder.found, key=lambda mutant: (mutant.start, mutant.end, mutant.after)))


def _numbered(mutants: list[Mutant]) -> list[Mutant]:
    """Those that read the same in one function are told apart by a number."""
    seen: Counter[str] = Counter()
    numbered = []
    for mutant in mutants:
        seen[mutant.key] += 1
        numbered.append(replace(mutant, number=seen[mutant.key]))
    return numbered


def compiles(mutant: Mutant, path: Path) -> bool:
    """Whether the module with this fault is still Python: a fault that any start shows proves nothing."""
    try:
        compile(mutant.apply(path.read_bytes()), "mutant", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


def _squeezed(text: str) -> str:
    return " ".join(text.split())


class _Finder(ast.NodeVisitor):
    def __init__(self, source: bytes, module: str) -> None:
        self.found: list[Mutant] = []
        self._source, self._module = source, module
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scope: list[str] = []

    def generic_visit(self, node: ast.AST) -> None:
        method = getattr(self, f"fault_{type(node).__name__}", None)
        if method is not None:
            for before, after in method(node):
                self._add(before, after)
        super().generic_visit(node)

    def _add(self, node: ast.AST, after: str) -> None:
        start, end = self._span(node)
        before = self._source[start:end].decode()
        scope = ".".join(self._scope) or "<module>"
        self.found.append(Mutant(self._module, scope, node.lineno, start, end, before, after))

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._starts[node.lineno - 1] + node.col_offset,
            self._starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    # What is not looked into.

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scoped(node.name, [*node.body])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
        self._scoped(node.name, [*defaults, *node.body])

    visit_AsyncFunctionDef = visit_FunctionDef

    def _scoped(self, name: str, children: list[ast.AST]) -> None:
        self._scope.append(name)
        for child in children:
            self.visit(child)
        self._scope.pop()

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        is_alias = isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias"
        if node.value is not None and not is_alias:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(target, ast.Name) and target.id == "__slots__" for target in node.targets):
            self.generic_visit(node)  # a fault in the slots of a class shows at any start

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not (isinstance(node.value, ast.Name) and node.value.id in ("Literal", "tuple")):  # a type
            self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None: ...

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...

    def visit_Import(self, node: ast.Import) -> None: ...

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg not in SPOKEN:
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        if node.exc is not None:
            self._add(node, "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        self._add(node, "pass")
        self.generic_visit(node)

    # Small faults.

    def fault_Compare(self, node: ast.Compare) -> Iterator[tuple[ast.AST, str]]:
        if len(node.ops) > 1:
            return
        sign, other = COMPARISONS[type(node.ops[0])]
        left, right = self._text(node.left), self._text(node.comparators[0])
        if not (sign in ("is", "is not") and right not in ("None", "True", "False")):
            yield node, f"({left} {other} {right})"
        elif sign == "is":
            yield node, f"({left} is not {right})"

    def fault_BoolOp(self, node: ast.BoolOp) -> Iterator[tuple[ast.AST, str]]:
        word = " or " if isinstance(node.op, ast.And) else " and "
        yield node, "(" + word.join(f"({self._text(value)})" for value in node.values) + ")"
        for left_out in range(len(node.values)):
            kept = [f"({self._text(value)})" for place, value in enumerate(node.values) if place != left_out]
            yield node, "(" + (" and " if isinstance(node.op, ast.And) else " or ").join(kept) + ")"

    def fault_UnaryOp(self, node: ast.UnaryOp) -> Iterator[tuple[ast.AST, str]]:
        if isinstance(node.op, ast.Not):
            yield node, f"bool({self._text(node.operand)})"

    def fault_BinOp(self, node: ast.BinOp) -> Iterator[tuple[ast.AST, str]]:
        signs = ARITHMETIC.get(type(node.op))
        if signs is not None and not isinstance(node.left, ast.JoinedStr | ast.List | ast.Tuple):
            yield node, f"({self._text(node.left)} {signs[1]} {self._text(node.right)})"

    def fault_AugAssign(self, node: ast.AugAssign) -> Iterator[tuple[ast.AST, str]]:
        signs = ARITHMETIC.get(type(node.op))
        if signs is not None:
            yield node, f"{self._text(node.target)} {signs[1]}= {self._text(node.value)}"

    def fault_If(self, node: ast.If | ast.IfExp) -> Iterator[tuple[ast.AST, str]]:
        if not isinstance(node.test, ast.Compare | ast.UnaryOp):  # those are turned round where they stand
            yield node.test, f"(not ({self._text(node.test)}))"

    fault_IfExp = fault_If

    def fault_comprehension(self, node: ast.comprehension) -> Iterator[tuple[ast.AST, str]]:
        for test in node.ifs:
            yield test, "True"

    def fault_Return(self, node: ast.Return) -> Iterator[tuple[ast.AST, str]]:
        if node.value is not None and not isinstance(node.value, ast.Constant):
            yield node, "return None"

    def fault_Constant(self, node: ast.Constant) -> Iterator[tuple[ast.AST, str]]:
        if isinstance(node.value, bool):
            yield node, repr(not node.value)
        elif isinstance(node.value, int | float):
            yield node, repr(node.value + 1)

    def fault_Set(self, node: ast.Set) -> Iterator[tuple[ast.AST, str]]:
        yield from self._each_left_out(node, node.elts, "{", "}")

    def fault_Tuple(self, node: ast.Tuple) -> Iterator[tuple[ast.AST, str]]:
        if isinstance(node.ctx, ast.Load) and len(node.elts) > 2:
            for place in range(len(node.elts)):
                parts = [self._text(item) if other != place else "None" for other, item in enumerate(node.elts)]
                if self._text(node.elts[place]) != "None":
                    yield node, "(" + ", ".join(parts) + ",)"

    def _each_left_out(self, node: ast.AST, items: list[ast.expr], opening: str, closing: str) -> Iterator:
        for place in range(len(items) if len(items) > 1 else 0):
            kept = [self._text(item) for other, item in enumerate(items) if other != place]
            yield node, opening + ", ".join(kept) + closing
