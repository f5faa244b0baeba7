# SPDX-License-Identifier: GPL-2.0-or-later
"""What may import what, read off the sources."""

import ast

import pytest

from tests.harness import ROOT

OURS = ("kpfs", "engine", "guest")
# package -> prefixes of our modules it may import
MAY_IMPORT = {
    "engine": ("engine",),
    "guest": ("guest", "engine.errors", "engine.ktypes", "engine.machine"),
    "kpfs": ("kpfs", "engine", "guest"),
}
# third-party package -> who alone may import it
KEEPERS = {
    "fuse": ("kpfs.fuse_ops",),
    "unicorn": ("guest.cpu",),
    "capstone": ("engine.arch.x86.insn",),
}
MAX_LINES = 500


def modules():
    """Dotted name -> path of every module of ours."""
    found = {}
    for package in OURS:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = path
    return found


MODULES = modules()
SOURCES = {name: path for name, path in MODULES.items() if path.stem != "__init__"}


def syntax(name):
    return ast.parse(MODULES[name].read_text())


def for_types_only(tree):
    """The statements under ``if TYPE_CHECKING``."""
    return {
        id(statement)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for branch in node.body
        for statement in ast.walk(branch)
    }


def imports(name, *, at_run_time=False, at_load_time=False):
    """The dotted names that a module imports."""
    tree = syntax(name)
    skipped = for_types_only(tree) if at_run_time or at_load_time else set()
    statements = tree.body if at_load_time else ast.walk(tree)
    for node in statements:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name}: relative import"
            for alias in node.names:
                assert alias.name != "*", f"{name}: star import"
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES else node.module


def ours(name, **which):
    return {m for m in imports(name, **which) if m.split(".")[0] in OURS}


def within(module, prefixes):
    return any(module == p or module.startswith(p + ".") for p in prefixes)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_direction(name):
    package = name.split(".")[0]
    wrong = {m for m in ours(name) if not within(m, MAY_IMPORT[package])}
    assert wrong == set()


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_imports_name_modules_that_exist(name):
    assert {m for m in ours(name) if m not in MODULES} == set()


@pytest.mark.parametrize("package", sorted(KEEPERS))
def test_third_party_is_kept_in_its_module(package):
    users = {n for n in SOURCES if package in {m.split(".")[0] for m in imports(n)}}
    assert users <= set(KEEPERS[package])


def test_only_arches_names_an_architecture():
    users = {
        name
        for name in SOURCES
        if not name.startswith("engine.arch.")
        and any(m.startswith("engine.arch.x86") for m in ours(name, at_run_time=True))
    }
    assert users <= {"engine.arches"}


def test_the_core_does_not_know_of_events():
    users = {
        name
        for name in SOURCES
        if name.startswith("engine.")
        and not name.startswith("engine.trace.")
        and any(within(m, ["engine.trace"]) for m in ours(name))
    }
    assert users == set()


def test_no_import_cycles():
    graph = {name: ours(name, at_load_time=True) & set(SOURCES) for name in SOURCES}
    done, path = set(), []

    def visit(name):
        if name in path:
            cycle = [*path[path.index(name) :], name]
            pytest.fail(" -> ".join(cycle))
        if name in done:
            return
        path.append(name)
        for imported in sorted(graph[name]):
            visit(imported)
        done.add(path.pop())

    for name in sorted(graph):
        visit(name)


@pytest.mark.parametrize("name", sorted(set(MODULES) - set(SOURCES)))
def test_init_is_empty(name):
    assert MODULES[name].read_text() == ""


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_import_for_its_side_effect(name):
    tree = syntax(name)
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                bound = alias.asname or alias.name.split(".")[0]
                assert bound in used, f"{bound} is imported, but not used"


MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_no_module_level_mutable_state(name):
    """Module-level tables are constants: named so, and never changed in the module."""
    tree = syntax(name)
    for node in tree.body:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if isinstance(getattr(node, "value", None), MUTABLE):
            for target in targets:
                if isinstance(target, ast.Name):
                    assert target.id.isupper() or target.id.startswith("__"), target.id
    assert not [n for n in ast.walk(tree) if isinstance(n, ast.Global)]


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_size_and_licence(name):
    lines = MODULES[name].read_text().splitlines()
    assert lines[0] == "# SPDX-License-Identifier: GPL-2.0-or-later"
    assert len(lines) <= MAX_LINES
