# SPDX-License-Identifier: GPL-2.0-or-later
"""Rooms import only rooms below them, and each module is tested: read off the sources.

Every import counts, wherever it stands: at the top of a module, in a function, or under
TYPE_CHECKING.  A "room" is a folder of modules.
"""

import ast
import os
import re
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import kpfs
from kpfs.base import elf
from kpfs.emulator import libunicorn
from tests.harness import ROOT

EM_HOST = {"x86_64": 62, "aarch64": 183}[os.uname().machine]
OURS = {"kpfs", "bench", "tests"}
# the others stand beside kpfs/, and are links in it
FOLDERS = {
    "kpfs": ROOT / "kpfs",
    "kpfs.base": ROOT / "base",
    "kpfs.emulator": ROOT / "emulator",
    "kpfs.engine": ROOT / "engine",
    "kpfs.guest": ROOT / "guest",
    "kpfs.linux": ROOT / "linux",
    "bench": ROOT / "bench",
}
TESTS = ROOT / "tests"
# package -> prefixes of our modules it may import; the longest name decides
MAY_IMPORT = {
    "kpfs": ("kpfs",),
    "bench": ("bench", "kpfs"),
    "kpfs.base": ("kpfs.base",),
    "kpfs.engine": ("kpfs.engine", "kpfs.base"),
    "kpfs.emulator": ("kpfs.emulator", "kpfs.base"),
    "kpfs.guest": ("kpfs.guest", "kpfs.emulator", "kpfs.base", "kpfs.engine.machine"),
    "kpfs.linux": ("kpfs.linux", "kpfs.emulator", "kpfs.base"),
}


def _below(package, names):
    return tuple(f"{package}.{name}" for name in names.split())


COMMANDS = _below("kpfs", "__main__ cli commands api")
# folder -> what it may not import.  F.* are the modules directly in F, F.** are those
# in the folders below it as well.
MAY_NOT_IMPORT = {
    "kpfs.host.**": (*_below("kpfs", "engine guest fs mirror backends"), *COMMANDS),
    "kpfs.engine.*": _below("kpfs.engine", "arch runtime trace"),
    "kpfs.engine.runtime.**": _below("kpfs.engine", "arch trace"),
    "kpfs.engine.arch.**": _below("kpfs.engine", "trace"),
    "kpfs.guest.emu.**": _below("kpfs.guest", "loader running machine"),
    "kpfs.guest.loader.**": _below("kpfs.guest", "running machine"),
    "kpfs.guest.running.**": _below("kpfs.guest", "machine"),
    "kpfs.linux.arch.**": _below(
        "kpfs.linux",
        "package distribution memory board store running make inside search",
    ),
    "kpfs.linux.package.**": _below(
        "kpfs.linux", "distribution memory board store running make inside search"
    ),
    "kpfs.linux.distribution.**": _below(
        "kpfs.linux", "memory board store running make inside search"
    ),
    "kpfs.linux.board.**": _below(
        "kpfs.linux", "memory store running make inside search"
    ),
    "kpfs.linux.memory.**": _below("kpfs.linux", "store running make inside search"),
    "kpfs.linux.store.**": _below("kpfs.linux", "memory running make inside"),
    "kpfs.linux.running.**": _below("kpfs.linux", "make inside"),
    "kpfs.linux.make.**": _below("kpfs.linux", "inside"),
    "kpfs.linux.inside.**": _below("kpfs.linux", "make search"),
    "kpfs.backends.guest.root.**": _below("kpfs", "host fs mirror"),
    "kpfs.fs.*": (*_below("kpfs", "host mirror backends fs.fuse"), *COMMANDS),
    "kpfs.backends.guest.files.**": _below("kpfs", "host mirror"),
    "kpfs.fs.fuse.**": ("kpfs.mirror", *COMMANDS),
    "kpfs.mirror.**": (*_below("kpfs", "fs.fuse backends"), *COMMANDS),
    "kpfs.backends.**": ("kpfs.fs.fuse", *COMMANDS),
    "kpfs.session.**": (*_below("kpfs", "backends fs host mirror"), *COMMANDS),
    "kpfs.record.**": ("kpfs.api",),
    "kpfs.explain.**": ("kpfs.api",),
    "kpfs.coverage.**": (*_below("kpfs", "backends fs host mirror"), *COMMANDS),
    "kpfs.gdb.**": (*_below("kpfs", "engine linux fs mirror"), *COMMANDS),
    "kpfs.backends.*": (*_below("kpfs.backends", "guest linux"), *COMMANDS),
    "kpfs.backends.guest.**": (*_below("kpfs", "linux backends.linux"), *COMMANDS),
    "kpfs.backends.linux.**": (*_below("kpfs", "backends.guest"), *COMMANDS),
}
# third-party package -> the modules that may import it; there may be no others
KEEPERS = {
    "anyio": ("kpfs.commands.mcp",),
    "mcp": ("kpfs.commands.mcp",),
    "fuse": ("kpfs.fs.fuse.libfuse",),
    "mfusepy": ("kpfs.fs.fuse.libfuse",),
    "unicorn": ("kpfs.guest.emu.cpu", "bench.guestcode"),
    "capstone": ("kpfs.engine.listing", "kpfs.engine.arch.x86.insn"),
    "distributed": ("kpfs.hunt.cluster",),
    "drgn": ("kpfs.api.drgn_program",),
    "pytest": ("kpfs.api.pytest_plugin",),
    "rich": ("kpfs.top.screen",),
    "starlette": ("kpfs.web.server",),
    "textual": ("kpfs.top.screen",),
    "uvicorn": ("kpfs.web.server",),
    "zstandard": ("kpfs.linux.package.compression",),
}
# modules that load a library with ctypes; others use the C library of the process
LOADERS = {
    *("kpfs.emulator.libunicorn", "kpfs.linux.board.board", "kpfs.mirror.library"),
    *("kpfs.fs.fuse.libfuse", "kpfs.guest.emu.watchdog"),
}
# top folder -> those that its C includes
MAY_INCLUDE = {
    "emulator": {"emulator"},
    "engine": {"engine"},
    "guest": {"guest", "emulator"},
    "linux": {"linux", "emulator"},
    "kpfs": {"kpfs", "guest"},  # what the guest and the mirror agree on
}
# module -> the files that test it, for those that tests/unit has no file of
ELSEWHERE = TESTS / "tested_elsewhere.tsv"
# fixtures that boot a guest or run the command: not for unit tests
BOOTING = {"kernel", "kpfs", "mount", "session_mount"}


def modules():
    """Dotted name -> path of every module of ours."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            below = path.relative_to(folder).with_suffix("").parts
            if ".".join((package, below[0])) in FOLDERS:
                continue  # a link
            name = ".".join((package, *below))
            found[name.removesuffix(".__init__")] = path
    return found


MODULES = modules()
SOURCES = {name: path for name, path in MODULES.items() if path.stem != "__init__"}
PRODUCT = {name for name in SOURCES if not name.startswith("bench.")}


@cache
def syntax(path):
    return ast.parse(path.read_text())


@cache
def _nodes_by_kind(path):
    found = defaultdict(list)
    for node in ast.walk(syntax(path)):
        found[type(node)].append(node)
    return found


def nodes(path, kind):
    """All nodes of a kind in a file, wherever they stand."""
    return _nodes_by_kind(path)[kind]


@cache
def imports(path):
    """The dotted names that a file imports, of whatever form and wherever."""
    found = {each.name for node in nodes(path, ast.Import) for each in node.names}
    for node in nodes(path, ast.ImportFrom):
        assert node.level == 0, f"{path}: relative import"
        for alias in node.names:
            assert alias.name != "*", f"{path}: star import"
            assert node.module is not None
            whole = f"{node.module}.{alias.name}"
            found.add(whole if whole in MODULES else node.module)
    return found


def ours(name):
    """Return the modules of ours that a module imports, without itself."""
    found = {m for m in imports(MODULES[name]) if m.split(".")[0] in OURS}
    return found - {name}


def room(name):
    return name.rpartition(".")[0]


def within(module, prefixes):
    return any(module == p or module.startswith(p + ".") for p in prefixes)


def covers(pattern, name):
    folder, _, stars = pattern.rpartition(".")
    return room(name) == folder if stars == "*" else within(name, [folder])


# ---- circles
def circles(graph):
    """The sets of nodes that lead to one another."""
    while leaves := [n for n, nodes in graph.items() if not nodes & graph.keys()]:
        graph = {node: nodes for node, nodes in graph.items() if node not in leaves}

    def reached(start):
        found: set[str] = set()
        ahead = [start]
        while ahead:
            new = graph.get(ahead.pop(), set()) - found
            found |= new
            ahead += new
        return found

    lead = {node: reached(node) for node in graph}
    joined = {
        frozenset(other for other in lead[node] if node in lead.get(other, ()))
        for node in graph
    }
    return sorted(sorted(circle) for circle in joined if circle)


def told(graph, why=lambda a, b: ""):
    """The circles, each with the imports that make it, for the message."""
    return "\n".join(
        "\n    ".join(
            [
                f"circle of {', '.join(circle)}",
                *(
                    f"{a} -> {b}{why(a, b)}"
                    for a in circle
                    for b in sorted(graph[a] & set(circle))
                ),
            ]
        )
        for circle in circles(graph)
    )


def between_modules():
    return {name: ours(name) & set(SOURCES) for name in SOURCES}


TYPED = "kpfs.base.typed"  # stands for typing


def between_rooms():
    """(room, room) -> the imports between the two.

    A module that imports nothing of ours, but TYPED, can be imported by all: it is a
    leaf, which belongs to no room.
    """
    graph = between_modules()
    found = defaultdict(set)
    for name, imported in graph.items():
        for other in imported:
            if graph[other] - {TYPED} and room(other) != room(name):
                found[room(name), room(other)].add(f"{name} -> {other}")
    return found


def test_circles_are_found():
    graph = {"a": {"b", "c"}, "b": {"d"}, "c": set(), "d": {"a"}, "e": {"a", "f"}}
    assert circles(graph) == [["a", "b", "d"]]
    assert circles({**graph, "f": {"e"}}) == [["a", "b", "d"], ["e", "f"]]
    assert circles({**graph, "d": {"c"}}) == []


def test_no_circle_of_modules():
    found = told(between_modules())
    assert not found, found


def test_no_circle_of_rooms():
    edges = between_rooms()
    graph = defaultdict(set)
    for a, b in edges:
        graph[a].add(b)
    found = told(graph, lambda a, b: f" ({', '.join(sorted(edges[a, b]))})")
    assert not found, found


# ---- directions
def wrong_imports(is_right, names=SOURCES):
    """The imports of our own for which is_right(importer, imported) is False."""
    return [
        f"{name} -> {m}"
        for name in sorted(names)
        for m in sorted(ours(name))
        if not is_right(name, m)
    ]


def test_direction():
    def may(name, imported):
        package = max((p for p in MAY_IMPORT if within(name, [p])), key=len)
        return within(imported, MAY_IMPORT[package])

    assert wrong_imports(may) == []


def test_forbidden_imports():
    for folder, forbidden in MAY_NOT_IMPORT.items():
        covered = [name for name in SOURCES if covers(folder, name)]
        assert covered, f"{folder}: there is no such folder"
        wrong = wrong_imports(lambda _, m, no=forbidden: not within(m, no), covered)
        assert wrong == []


def test_imports_name_modules_that_exist():
    assert wrong_imports(lambda _, imported: imported in MODULES) == []


def test_third_party_is_kept_in_its_module():
    wrong = []
    for name in sorted(SOURCES):
        packages = {m.split(".")[0] for m in imports(MODULES[name])}
        theirs = packages - OURS - sys.stdlib_module_names
        wrong += [f"{name}: {p}" for p in theirs if name not in KEEPERS.get(p, ())]
    assert wrong == []


def loads_a_library(node):
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr in ("CDLL", "PyDLL")
        and not (isinstance(node.args[0], ast.Constant) and node.args[0].value is None)
    )


def test_libraries_are_loaded_by_their_modules():
    loaders = {
        name
        for name in PRODUCT
        if any(map(loads_a_library, nodes(MODULES[name], ast.Call)))
    }
    assert loaders == LOADERS


def exported_names():
    """Return the names of libunicorn's inside, with architectures and without."""
    file = elf.ElfFile(Path(libunicorn.find_library()).read_bytes(), machine=EM_HOST)
    strings = file.section(".dynstr")
    assert strings
    names = set(file.contents(strings).decode("latin-1").split("\0"))
    inner = re.compile("(.*)_(x86_64|aarch64|riscv64|s390x|ppc64|mips64el)")
    bare = {found[1] for found in map(inner.fullmatch, names) if found}
    return {
        name
        for name in names | bare
        if f"uc_{name}" not in names and (name in bare or inner.fullmatch(name))
    }


def test_one_room_knows_the_inside_of_libunicorn():
    exported = exported_names()
    assert "tb_gen_code" in exported
    wrong = [
        f"{name}: {node.value!r}"
        for name in sorted(PRODUCT)
        if room(name) != "kpfs.emulator"
        for node in nodes(MODULES[name], ast.Constant)
        if node.value in exported
    ]
    assert wrong == []


def test_what_c_includes():
    wrong = []
    for top, allowed in MAY_INCLUDE.items():
        for path in sorted((ROOT / top).rglob("*.[chS]")):
            for name in re.findall('^#include "([^"]+)"', path.read_text(), re.M):
                found = (path.parent / name).resolve()
                if found.is_relative_to(ROOT):
                    other = found.relative_to(ROOT).parts[0]
                    wrong += [] if other in allowed else [f"{path}: {name}"]
    assert wrong == []


def test_only_arches_names_an_architecture():
    users = {
        name
        for name in PRODUCT
        if not within(name, ["kpfs.engine.arch.x86"])
        and any(within(m, ["kpfs.engine.arch.x86"]) for m in ours(name))
    }
    assert users == {"kpfs.engine.arch.arches"}


# ---- where modules are tested
def unit_test(name):
    """The file of tests/unit that tests a module, if there is one."""
    *folders, last = name.removeprefix("kpfs.").split(".")
    return TESTS.joinpath("unit", *folders, f"test_{last}.py")


def elsewhere():
    """Module -> files, of the table of those that have no file in tests/unit."""
    lines = ELSEWHERE.read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert rows == sorted(rows), f"{ELSEWHERE.name} is not in order"
    return {module: files.split() for module, files in rows}


def tells_of(path, module):
    """Return True if a file imports a module, or has its whole name in its text."""
    if path.suffix == ".py" and module in imports(path):
        return True
    return bool(re.search(rf"\b{re.escape(module)}(?!\.?\w)", path.read_text()))


def test_each_module_is_tested():
    """A module has a file of its own in tests/unit, or a line in the table."""
    listed = elsewhere()
    own = {name for name in PRODUCT if unit_test(name).exists()}
    wrong = {
        "neither a file nor a line": sorted(PRODUCT - own - listed.keys()),
        "a file, and a line that nobody needs": sorted(own & listed.keys()),
    }
    assert not any(wrong.values()), wrong


def test_no_stale_line_says_where_modules_are_tested():
    stale = [
        f"{module}: {file}"
        for module, files in elsewhere().items()
        for file in files or ["no file"]
        if module not in PRODUCT
        or not (TESTS / file).is_file()
        or not tells_of(TESTS / file, module)
    ]
    assert stale == []


def test_unit_tests_are_named_like_modules():
    known = {unit_test(name) for name in SOURCES}
    assert set((TESTS / "unit").rglob("test_*.py")) - known == set()


def test_unit_tests_boot_no_guest():
    for path in sorted((TESTS / "unit").rglob("*.py")):
        functions = nodes(path, ast.FunctionDef)
        asked_for = {arg.arg for function in functions for arg in function.args.args}
        own = {function.name for function in functions}
        classes = {
            alias.name
            for node in nodes(path, ast.ImportFrom)
            if f"{node.module}".startswith("kpfs.")
            for alias in node.names
        }
        assert BOOTING & (asked_for - own) == set(), path
        assert classes & {"Kernel", "Guest"} == set(), path


# ---- what stands in a module
def test_inits_are_empty():
    inits = set(MODULES) - set(SOURCES) - {"kpfs"}
    assert [name for name in sorted(inits) if MODULES[name].read_text()] == []


def test_the_package_names_its_interface_and_loads_nothing():
    body = syntax(MODULES["kpfs"]).body
    assert not [n for n in body if isinstance(n, ast.Import | ast.ImportFrom)]
    assert [n for n in kpfs.__all__ if not hasattr(kpfs, n)] == []


def test_no_import_for_its_side_effect():
    wrong = []
    for name in sorted(SOURCES):
        used = {node.id for node in nodes(MODULES[name], ast.Name)}
        wrong += [
            f"{name}: {alias.name}"
            for node in nodes(MODULES[name], ast.Import)
            for alias in node.names
            if (alias.asname or alias.name.split(".")[0]) not in used
        ]
    assert wrong == []


MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def mutable_names(tree):
    """The names to which a module assigns something that can be changed."""
    for node in tree.body:
        targets = getattr(node, "targets", None) or [getattr(node, "target", None)]
        if isinstance(getattr(node, "value", None), MUTABLE):
            yield from (t.id for t in targets if isinstance(t, ast.Name))


def test_no_module_level_mutable_state():
    """Module-level tables are constants: named so, and never changed in the module."""
    for name in sorted(SOURCES):
        for table in mutable_names(syntax(MODULES[name])):
            assert table.isupper() or table.startswith("__"), f"{name}.{table}"
        assert nodes(MODULES[name], ast.Global) == [], name


def test_licence():
    first = "# SPDX-License-Identifier: GPL-2.0-or-later"
    assert [
        name
        for name, path in sorted(MODULES.items())
        if name in SOURCES and path.read_text().split("\n", 1)[0] != first
    ] == []
