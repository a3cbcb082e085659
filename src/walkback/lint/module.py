"""A parsed file as the rules see it: what names mean, what encloses what, and what a variable was set to."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

Scope = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.Module | ast.ClassDef
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

_SHARED = (ast.expr_context, ast.operator, ast.cmpop, ast.boolop, ast.unaryop)

CONVENTIONAL = {
    "torch": "torch", "th": "torch", "nn": "torch.nn", "F": "torch.nn.functional", "np": "numpy", "numpy": "numpy",
    "jnp": "jax.numpy", "warnings": "warnings", "math": "math", "statistics": "statistics",
}  # fmt: skip
"""What a name means where the file neither imports nor sets it, as after a star import."""


class Module:
    """One file's syntax tree, with the look-ups that rules share, each made once."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node, from the top of the file down; operators and contexts, which Python shares, left out."""
        return [node for node in ast.walk(self.tree) if not isinstance(node, _SHARED)]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """What each node stands in."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    @property
    def calls(self) -> Iterator[ast.Call]:
        """Every call."""
        return (node for node in self.nodes if isinstance(node, ast.Call))

    @cached_property
    def classes(self) -> dict[str, ast.ClassDef]:
        """Every class of the file by its name."""
        return {node.name: node for node in self.nodes if isinstance(node, ast.ClassDef)}

    @cached_property
    def imports(self) -> dict[str, str]:
        """The dotted name behind each imported one."""
        found: dict[str, str] = {}
        for node in self.nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    found[alias.asname or top] = alias.name if alias.asname else top
            elif isinstance(node, ast.ImportFrom):
                start = "." * node.level + (node.module or "")
                found |= {alias.asname or alias.name: f"{start}.{alias.name}" for alias in node.names}
        return found

    @cached_property
    def _set_somewhere(self) -> set[str]:
        stored = {n.id for n in self.nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
        arguments = {n.arg for n in self.nodes if isinstance(n, ast.arg)}
        defined = {n.name for n in self.nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        return stored | arguments | defined

    def dotted(self, node: ast.AST) -> str:
        """The full dotted name of an expression such as `F.cosine_similarity`; empty where it has none."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        start = self.imports.get(node.id)
        if start is None:
            start = node.id if node.id in self._set_somewhere else CONVENTIONAL.get(node.id, node.id)
        return ".".join([start, *reversed(parts)])

    def is_module(self, node: ast.AST) -> bool:
        """Whether an expression names a library's module, and not a tensor."""
        top = self.dotted(node).partition(".")[0]
        return top in LIBRARIES

    def scope_of(self, node: ast.AST) -> Scope:
        """The function, class or file that a node stands in."""
        while not isinstance(node := self.parents[node], Scope):
            pass
        return node

    def enclosing_class(self, node: ast.AST) -> ast.ClassDef | None:
        """The innermost class around a node."""
        while not isinstance(node, ast.Module):
            node = self.parents[node]
            if isinstance(node, ast.ClassDef):
                return node
        return None

    def enclosing_names(self, node: ast.AST) -> list[str]:
        """The names of the functions and classes around a node, from the innermost out."""
        names = []
        while not isinstance(node, ast.Module):
            node = self.parents[node]
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.append(node.name)
        return names

    def own_nodes(self, scope: Scope) -> list[ast.AST]:
        """The nodes of a scope without those of functions and classes inside it."""
        return self._by_scope.get(scope, [])

    @cached_property
    def _by_scope(self) -> dict[ast.AST, list[ast.AST]]:
        # From the top down, so that a parent's scope is known before its children's.
        scopes: dict[ast.AST, ast.AST] = {}
        grouped: dict[ast.AST, list[ast.AST]] = {}
        for node in self.nodes[1:]:
            parent = self.parents[node]
            scope = parent if isinstance(parent, Scope) else scopes[parent]
            scopes[node] = scope
            grouped.setdefault(scope, []).append(node)
        return grouped

    def value_of(self, name: ast.Name) -> ast.expr | None:
        """What a variable holds, where its scope sets it exactly once by a plain assignment."""
        return self._single_values(self.scope_of(name)).get(name.id)

    def _single_values(self, scope: Scope) -> dict[str, ast.expr]:
        if scope not in self._values:
            self._values[scope] = self._read_values(scope)
        return self._values[scope]

    @cached_property
    def _values(self) -> dict[Scope, dict[str, ast.expr]]:
        return {}

    def _read_values(self, scope: Scope) -> dict[str, ast.expr]:
        times: dict[str, int] = {}
        values: dict[str, ast.expr] = {}
        for node in self.own_nodes(scope):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                times[node.id] = times.get(node.id, 0) + 1
            elif isinstance(node, ast.arg):
                times[node.arg] = times.get(node.arg, 0) + 1
            elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                values[node.targets[0].id] = node.value
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
                values[node.target.id] = node.value
        return {name: value for name, value in values.items() if times.get(name) == 1}


LIBRARIES = {"torch", "numpy", "jax", "scipy", "cupy", "tensorflow", "math", "statistics"}


def keyword(call: ast.Call, *names: str) -> ast.expr | None:
    """The value of a keyword argument, by any of its names."""
    return next((k.value for k in call.keywords if k.arg in names), None)


def has_unpacking(call: ast.Call) -> bool:
    """Whether arguments come from `*args` or `**kwargs`, so that nobody can say what is passed."""
    return any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords)


def last_name(node: ast.AST) -> str:
    """The last part of a dotted expression: `norm` of `x.flatten().norm`."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def text(node: ast.AST, longest: int = 60) -> str:
    """An expression as source on one line, cut in its middle where it is long."""
    line = " ".join(ast.unparse(node).split())
    return line if len(line) <= longest else f"{line[: longest // 2 - 1]}…{line[-(longest // 2) :]}"
