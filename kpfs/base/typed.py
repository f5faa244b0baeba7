# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of typing for modules that a start loads, without the import of typing.

That takes 2.5 ms, and its NamedTuple compiles every annotation, which takes as long as
all the rest of such a class. A program that checks types finds typing's own names here.
At run time they are those below: they check nothing, a protocol is a plain class, and a
new type is the type that it is made of. A module with a NamedTuple of this kind needs
``from __future__ import annotations``. Names that stand in annotations alone are
imported from typing itself, if TYPE_CHECKING.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generic, NamedTuple, NewType, Protocol, TypeVar, cast
else:
    from collections import namedtuple

    Any = object

    class Generic:
        __slots__ = ()

        def __class_getitem__(cls, _parameters):
            return cls

    class Protocol(Generic):
        __slots__ = ()

    def TypeVar(name, **_options):  # noqa: N802 (typing's name)
        return name

    def NewType(_name, supertype):  # noqa: N802 (typing's name)
        return supertype

    def cast(_type, value):
        return value

    class _Maker(type):
        """Makes classes that name fields, and are named tuples with methods."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = body.pop("__annotations__")
            defaults = [body.pop(field) for field in fields if field in body]
            module = body.pop("__module__")
            made = namedtuple(name, fields, defaults=defaults, module=module)
            for key, value in body.items():
                setattr(made, key, value)
            return made

    class NamedTuple(metaclass=_Maker):
        pass


__all__ = [
    "TYPE_CHECKING",
    "Any",
    "Generic",
    "NamedTuple",
    "NewType",
    "Protocol",
    "TypeVar",
    "cast",
]
