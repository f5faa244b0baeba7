# SPDX-License-Identifier: GPL-2.0-or-later
"""What may import what, read off the sources."""

import ast

import pytest

from tests.harness import ROOT

OURS = "kpfs"
# engine/ and guest/ stand beside kpfs/, and are links in it
FOLDERS = {"kpfs.engine": ROOT / "engine", "kpfs.guest": ROOT / "guest"}
# package -> prefixes of our modules it may import; what is not named may import all
MAY_IMPORT = {
    "kpfs.engine": ("kpfs.engine",),
    "kpfs.guest": (
        "kpfs.guest",
        "kpfs.abi",
        "kpfs.engine.errors",
        "kpfs.engine.ktypes",
        "kpfs.engine.machine",
    ),
}
# third-party package -> who alone may import it
KEEPERS = {
    "fuse": ("kpfs.fs.fuse.ops",),
    "unicorn": ("kpfs.guest.emu.cpu",),
    "capstone": ("kpfs.engine.arch.x86.insn",),
}


def modules():
    """Dotted name -> path of every module of ours."""
    found = {}
    for package, folder in {OURS: ROOT / "kpfs", **FOLDERS}.items():
        for path in sorted(folder.rglob("*.py")):
            below = path.relative_to(folder).with_suffix("").parts
            if package == OURS and (below[0] in ("engine", "guest")):
                continue
            name = ".".join((package, *below))
            found[name.removesuffix(".__init__")] = path
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
    return {m for m in imports(name, **which) if m.split(".")[0] == OURS}


def within(module, prefixes):
    return any(module == p or module.startswith(p + ".") for p in prefixes)


@pytest.mark.parametrize("name", sorted(SOURCES))
def test_direction(name):
    package = ".".join(name.split(".")[:2])
    wrong = {m for m in ours(name) if not within(m, MAY_IMPORT.get(package, (OURS,)))}
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
        if not name.startswith("kpfs.engine.arch.x86.")
        and any(
            m.startswith("kpfs.engine.arch.x86") for m in ours(name, at_run_time=True)
        )
    }
    assert users <= {"kpfs.engine.arch.arches"}


def test_the_core_does_not_know_of_events():
    users = {
        name
        for name in SOURCES
        if name.startswith("kpfs.engine.")
        and not name.startswith("kpfs.engine.trace.")
        and any(within(m, ["kpfs.engine.trace"]) for m in ours(name))
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
def test_licence(name):
    lines = MODULES[name].read_text().splitlines()
    assert lines[0] == "# SPDX-License-Identifier: GPL-2.0-or-later"
