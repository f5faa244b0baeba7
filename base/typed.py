# SPDX-License-Identifier: GPL-2.0-or-later
"""Names of typing for modules that a start loads, without the import of typing.

That takes 2.5 ms, and its NamedTuple compiles every annotation, which takes as long as
all the rest of such a class; namedtuple() of collections compiles a function for each.
A program that checks types finds typing's own names here.
At run time they are those below: they check nothing, a protocol is a plain class, and a
new type is the type that it is made of. A module with a NamedTuple of this kind needs
``from __future__ import annotations``. Names that stand in annotations alone are
imported from typing itself, if TYPE_CHECKING.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Generic, NamedTuple, NewType, Protocol, TypeVar, cast
else:
    from collections import _tuplegetter
    from functools import cache
    from types import FunctionType

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

    @cache
    def _make_new(count):
        """Compile a __new__ for all named tuples with so many fields."""
        names = ", ".join([f"_{n}" for n in range(count)])
        text = f"lambda _cls, {names}: _tuple_new(_cls, ({names},))"
        return eval(text, {"_tuple_new": tuple.__new__})

    class _Tuple(tuple):
        """Methods that all named tuples have, without _make() and _field_defaults."""

        __slots__ = ()

        def __repr__(self):
            fields = [f"{name}={value!r}" for name, value in self._asdict().items()]
            return f"{type(self).__name__}({', '.join(fields)})"

        def __getnewargs__(self):
            return tuple(self)

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, /, **changed):
            return type(self)(**{**self._asdict(), **changed})

    class _Maker(type):
        """Makes classes that name fields, and are named tuples with methods."""

        def __new__(cls, name, bases, body):
            if not bases:
                return super().__new__(cls, name, bases, body)
            fields = tuple(body.pop("__annotations__"))
            defaults = tuple([body.pop(field) for field in fields if field in body])
            new = _make_new(len(fields))
            code = new.__code__.replace(co_varnames=("_cls", *fields))
            made = {
                "__slots__": (),
                "__new__": FunctionType(code, new.__globals__, "__new__", defaults),
                "__match_args__": fields,
                "_fields": fields,
            }
            for index, field in enumerate(fields):
                made[field] = _tuplegetter(index, None)
            return type(name, (_Tuple,), {**made, **body})

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
