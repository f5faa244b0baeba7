# SPDX-License-Identifier: GPL-2.0-or-later
"""Functions that were renamed, inlined or split between kernels made here."""

from typing import Any

import pytest

from kpfs.explain.successors import find_successor, in_words, inlined_in, renamed
from kpfs.linux.memory.functions import source_name


class Functions:
    """The interface of a FunctionIndex, from {name: names that it calls}."""

    def __init__(self, prototypes, **called):
        self.called = {name.replace("__", "."): each for name, each in called.items()}
        self.names = [*self.called]
        self.prototypes = prototypes

    def __contains__(self, name):
        return name in self.called

    def callees(self, name):
        return set(self.called.get(name, "").split())

    def callers(self, name):
        return {each for each in self.called if name in self.callees(each)}

    def prototype(self, name):
        return self.prototypes.get(source_name(name), "")

    def around(self, name, count):
        at = self.names.index(name)
        return self.names[max(at - count, 0) : at] + self.names[at + 1 : at + 1 + count]

    def made_of(self, name):
        return [each for each in self.names if each.startswith(f"{name}.")]


OLD: Any = Functions(
    {"do_open": "int (int)", "path_open": "int (char*)", "other": "int (int)"},
    sys_open="getname do_open",
    sys_close="other",
    getname="",
    do_open="path_open lock",
    path_open="",
    lock="",
    other="lock",
)


def test_a_renamed_function_is_found():
    new: Any = Functions(
        {**OLD.prototypes, "file_open": "int (int)", "stranger": "int (int)"},
        sys_open="getname file_open",
        sys_close="other stranger",
        getname="",
        file_open="path_open lock",
        path_open="",
        lock="",
        other="lock",
        stranger="lock",
    )
    found = find_successor("do_open", OLD, new)
    assert found is not None
    assert found.name == "file_open"
    assert found.is_sure
    assert {"prototype", "callers", "callees"} <= set(found.reasons)
    assert inlined_in("do_open", OLD, new) == []


def test_a_function_that_is_gone_has_no_successor():
    """A function that lies near and has the prototype does not suffice."""
    new: Any = Functions(
        {**OLD.prototypes, "stranger": "int (int)"},
        sys_open="getname path_open lock",
        sys_close="other",
        getname="",
        path_open="",
        stranger="",
        lock="",
        other="lock",
    )
    assert find_successor("do_open", OLD, new) is None
    assert inlined_in("do_open", OLD, new) == ["sys_open"]


@pytest.mark.parametrize(("made", "inlined"), [("part", ["sys_open"]), ("isra", [])])
def test_callers_of_what_a_compiler_made(made, inlined):
    """Callers of a part have the begin inlined; those of a clone call all of it."""
    new: Any = Functions(
        OLD.prototypes,
        sys_open=f"getname do_open.{made}.0",
        sys_close="other do_open",
        **{"getname": "", "do_open": "path_open", f"do_open__{made}__0": "path_open"},
        path_open="",
        lock="",
        other="lock",
    )
    assert inlined_in("do_open", OLD, new) == inlined


def test_what_no_kernel_tells_is_in_the_table():
    assert renamed()["_do_fork"].successor == "kernel_clone"
    for row in renamed().values():
        assert row.source.startswith("https://")
        assert row.name not in row.successor.split()


def test_names_in_a_sentence():
    assert in_words(["a", "b"]) == "a, b"
    assert in_words(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
