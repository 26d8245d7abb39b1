"""One error id, one exit code: scripts that branch on either must not be told two things."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import harnessctl
from harnessctl.domain import errors

SOURCES = sorted(Path(harnessctl.__file__).parent.rglob("*.py"))


def classes(trees: dict[Path, ast.Module]) -> dict[str, str]:
    """Every class of the package -> its first base."""
    return {
        node.name: base.id
        for tree in trees.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for base in node.bases[:1]
        if isinstance(base, ast.Name)
    }


def raised(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """(error id, class, line) of what is made with a constant id; ``super().__init__``: the class around."""
    around = {
        inner: node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Call)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for key in node.keywords:
                if (
                    key.arg == "id"
                    and isinstance(key.value, ast.Constant)
                    and isinstance(key.value.value, str)
                ):
                    name = node.func.id if isinstance(node.func, ast.Name) else around.get(node, "")
                    yield key.value.value, name, node.lineno


def exit_code(name: str, bases: dict[str, str]) -> int | None:
    """The exit code of an error class, None for what is no error."""
    while name in bases and not hasattr(errors, name):
        name = bases[name]
    found = getattr(errors, name, None)
    return (
        int(found.exit_code) if isinstance(found, type) and issubclass(found, errors.HarnessError) else None
    )


def test_every_id_has_one_exit_code() -> None:
    trees = {path: ast.parse(path.read_text()) for path in SOURCES}
    bases = classes(trees)
    found: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path, tree in trees.items():
        for error, name, line in raised(tree):
            code = exit_code(name, bases)
            if code is not None:
                found[error][code].append(f"{path.name}:{line}")
    assert len(found) > 80
    assert {error: dict(codes) for error, codes in found.items() if len(codes) > 1} == {}


def test_the_search_sees_a_second_code() -> None:
    own = "class Own(UsageError):\n  def __init__(self): super().__init__('x', id='one')\n"
    source = own + "RefusedError('y', id='one')\n"
    tree = ast.parse(source)
    bases = classes({Path("x"): tree})
    assert sorted((i, exit_code(name, bases)) for i, name, _ in raised(tree)) == [("one", 2), ("one", 6)]
