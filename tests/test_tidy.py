# SPDX-License-Identifier: GPL-2.0-or-later
"""The house is tidy: names in texts exist, and each thing has one name and one home.

All of it is read off the sources, texts by regular expressions: a second for it all.
"""

import ast
import re
import subprocess
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from tests.harness import ROOT
from tests.test_layers import MODULES, PRODUCT, nodes, syntax

# pages about the code; others speak of users' files, or of what there was
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "docs/design.md", *ROOT.glob("*/README.md")]
PATHS = sorted({*MODULES.values(), *(ROOT / "tests").rglob("*.py")})
PRODUCT_MODULES = sorted(PRODUCT - {"kpfs.base.abi"})  # the names in abi are of C
FOLDERS = "base|bench|docs|emulator|engine|examples|guest|kpfs|linux|scripts|tests"
# paths below such folders that are no files of ours: of Linux, and of an OCI image
OTHERS = {"scripts/kallsyms.c", "linux/arm64"}
# comments, and docstrings: these follow a colon, or the line about the licence
TEXT = re.compile(r'#[^\n]*|(?:(?<=:\n)|(?<=later\n)) *"""(?:[^"\\]|\\.|"(?!""))*"""')
CLASS = re.compile(r"^ *class (\w+)(?:\(([^)]*)\))?:", re.M)


@cache
def text_of(path):
    return path.read_text()


@cache
def words_of(path):
    return set(re.findall(r"\w+", TEXT.sub("", text_of(path))))


@cache
def committed():
    """Return all files and folders of the checkout."""
    listing = ["git", "ls-files"]
    try:
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("git is missing")
    if done.returncode:
        pytest.skip("not a checkout of git")
    return [ROOT / path for path in done.stdout.splitlines()]


def wrong(is_right, pattern, paths):
    """The matches of a pattern in texts for which is_right(match, path) is False."""
    found = []
    for path in paths:
        text = text_of(path)
        whole = [(0, text)] if path.suffix == ".md" else None
        for start, part in whole or (
            (m.start(), m.group()) for m in TEXT.finditer(text)
        ):
            for match in re.finditer(pattern, part):
                if not is_right(match, path):
                    line = text.count("\n", 0, start + match.start()) + 1
                    where = f"{path.relative_to(ROOT)}:{line}"
                    found.append(f"{where}: {match.group()}")
    return found


# ---- names in texts
def test_paths_in_texts_exist():
    names = set(OTHERS)
    for path in committed():
        parts = path.relative_to(ROOT).parts
        names |= {
            "/".join(parts[start:end])
            for start in range(len(parts))
            for end in range(start + 1, len(parts) + 1)
        }

    def exists(match, _):
        name = match.group().rstrip(".:")
        return bool({name, name + ".py"} & names) or bool(
            re.search("[A-Z]{3}", name)
        )  # for any NAME

    below = rf"(?<![\w./-])(?:{FOLDERS})/[\w./-]*\w(?![\w*{{])"
    assert wrong(exists, below, [*PAGES, *PATHS]) == []
    assert wrong(exists, r"(?<![\w./*-])[\w/]+\.py\b", [*PAGES, *PATHS]) == []


def test_dotted_names_in_texts_exist():
    rooms = {name.rpartition(".")[0] for name in MODULES}

    def exists(match, _):
        name = match.group()
        while name not in MODULES and name not in rooms:
            name = name.rpartition(".")[0]
        after = match.group()[len(name) :].split(".")[1:]
        known = words_of(MODULES[name]) if name in MODULES else ()
        return not after or after[0] in known

    pattern = r"(?<![\w./-])kpfs(?:\.[a-z_]\w*)+(?:\.[A-Z]\w*)?(?!\w)"
    assert wrong(exists, pattern, PATHS) == []


def test_members_in_texts_exist():
    """Names behind the name of a class, and names behind the name of a file."""
    homes: dict[str, set[Path]] = defaultdict(set)
    bases: dict[str, set[str]] = defaultdict(set)
    for path in PATHS:
        for name, named in CLASS.findall(text_of(path)):
            homes[name].add(path)
            bases[name] |= set(re.findall(r"\w+", named))

    def has(name, member, seen=frozenset()):
        return any(member in words_of(path) for path in homes[name]) or any(
            has(base, member, seen | {name}) for base in bases[name] - seen
        )

    def is_member(match, _):
        return match[1] not in homes or has(match[1], match[2])

    pattern = r"(?<![\w./:-])([A-Z][a-z]\w*)\.([a-z_]\w*)"
    assert wrong(is_member, pattern, [*PAGES, *PATHS]) == []

    def is_there(match, _):
        files = [path for path in PATHS if f"/{path}".endswith(f"/{match[1]}")]
        return any(match[2] in words_of(path) for path in files)

    assert wrong(is_there, r"([\w/]+\.py):([A-Za-z_]\w*)", [*PAGES, *PATHS]) == []


# ---- one name, one thing
def is_one_role(modules, nodes):
    """Return True if classes of one name are kinds of one thing.

    They are if one of them is the protocol of all others, or their base, or if they are
    in modules of one name in sibling rooms, as in backends/guest and backends/linux.
    """
    bases = [{ast.unparse(base).split(".")[-1] for base in n.bases} for n in nodes]
    siblings = {(m.split(".")[:-2][-1], m.split(".")[-1]) for m in modules}
    derived = sum(node.name in of for node, of in zip(nodes, bases, strict=True))
    protocols = sum("Protocol" in of for of in bases)
    return len(siblings) == 1 or protocols == 1 or derived == len(nodes) - 1


def test_no_two_classes_have_one_name():
    found = defaultdict(list)
    for module in PRODUCT_MODULES:
        for node in syntax(MODULES[module]).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append((module, node))
    assert [
        f"{name}: {', '.join(module for module, _ in places)}"
        for name, places in sorted(found.items())
        if len(places) > 1 and not is_one_role(*zip(*places, strict=True))
    ] == []


# ---- one constant, one home
# bounds and times that are alike by chance, and formats
BY_CHANCE = set(
    "CHUNK_SIZE FDS FEW GRACE HEAD LOOK MAX_FILE MAX_NUMBER MEMBERS_MAX PADDING"
    " PLACES_MAX POLLFD RAM RBP RSP SIZE STEP T VMLINUX".split()
)
# scripts that import nothing of ours, and what is said before anything can be imported
ALONE = {"kpfs", "kpfs.__main__", "kpfs.base.typed", "kpfs.commands.guest_tools"}


def constants(module):
    """Name, value as text and (module, whether others may import it) of constants."""
    for node in syntax(MODULES[module]).body:
        if isinstance(node, ast.Assign):
            names, values = node.targets, [node.value]
            if isinstance(names[0], ast.Tuple) and isinstance(values[0], ast.Tuple):
                names, values = names[0].elts, values[0].elts
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and name.id.isupper():
                    place = module, name.id[0] != "_"
                    yield name.id.lstrip("_"), ast.unparse(value), place


def test_constants_have_one_home():
    """Nobody repeats a constant that can be imported, of the same name and value."""
    found = defaultdict(list)
    for module in PRODUCT_MODULES:
        if module not in ALONE:
            for name, value, place in constants(module):
                found[name, value].append(place)
    assert [
        f"{name} = {value}: {', '.join(module for module, _ in places)}"
        for (name, value), places in sorted(found.items())
        if len(places) > 1
        and any(public for _, public in places)
        and name not in BY_CHANCE
        and "__file__" not in value
    ] == []


# ---- callables are handed to constructors
# those that are left, by attribute: it is assigned from outside in these modules
OVERWRITTEN = {
    "on_begin": "gdb.history",
    "on_end": "gdb.history inside.machine",
    "on_stop": "gdb.history gdb.server inside.machine",
    "on_turn": "linux.inside.command linux.inside.mounted",
}
# attributes that elsewhere are numbers: fields of C
NUMBERS = {"begin", "commit", "data", "entry", "look", "parts"}


def assigned(module):
    """The targets of assignments in a module."""
    for node in nodes(MODULES[module], ast.Assign):
        for target in node.targets:
            yield from target.elts if isinstance(target, ast.Tuple) else [target]


def is_of_another(target):
    owner = getattr(target, "value", None)
    own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
    return isinstance(target, ast.Attribute) and not own


def test_callables_of_others_stay():
    """The constructor of an object is given what the object calls."""
    found = defaultdict(set)
    fields = {
        getattr(node.target, "attr", getattr(node.target, "id", ""))
        for module in PRODUCT_MODULES
        for node in nodes(MODULES[module], ast.AnnAssign)
        if "Callable" in ast.unparse(node.annotation)
    }
    for module in PRODUCT_MODULES:
        for target in assigned(module):
            if is_of_another(target) and target.attr in fields - NUMBERS:
                found[target.attr].add(module.removeprefix("kpfs."))
    assert {
        name: modules - set(OVERWRITTEN.get(name, "").split())
        for name, modules in found.items()
        if modules - set(OVERWRITTEN.get(name, "").split())
    } == {}


# ---- files
LARGEST = 1_400_000  # bytes


def test_no_file_is_large():
    """The largest are images with debug information, which are packed."""
    large = [str(path) for path in committed() if path.lstat().st_size > LARGEST]
    assert large == []


def test_recorded_cases_can_be_read():
    """The .out are what a kernel printed, in whatever lines."""
    assert [
        path.name
        for path in (ROOT / "tests/conformance").rglob("*.sh")
        if max(map(len, text_of(path).split("\n"))) > 240
    ] == []


# ---- phrases
# Words that begin no docstring: pronouns whose noun is elsewhere, and words that go on
# where the name of a function ends
PHRASES = (
    "Also And As But By Else Even It Its Nor Not Of Only Or Otherwise So That They"
    " Those Though Unless Until What Whatever Where Whether Which Who With Without"
).split()


def test_comments_behind_code_name_what_they_are_of():
    assert [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in PATHS
        for line in re.findall(r"^.*\S {2}# of .*$", text_of(path), re.M)
    ] == []


def test_docstrings_begin_with_a_verb_or_a_noun():
    pattern = rf'^ *"""(?:{"|".join(PHRASES)})\b.*'
    assert wrong(lambda *_: False, pattern, PATHS) == []


# ---- byte order
def test_linux_kernels_may_have_either_byte_order():
    """Code in linux/ packs and unpacks by a DataModel, mostly the kernel's."""
    order = re.compile(r"""["'](?:[<>=@!][0-9a-zA-Z?]+["']|little["'])""")
    assert [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in (ROOT / "linux").rglob("*.py")
        for found in order.finditer(TEXT.sub("", text_of(path)))
    ] == []
