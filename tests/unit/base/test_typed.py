# SPDX-License-Identifier: GPL-2.0-or-later
"""kpfs.base.typed: typing's names as they are at run time."""

from __future__ import annotations

import pickle
from copy import deepcopy

import pytest

from kpfs.base.typed import Generic, NamedTuple, NewType, Protocol, TypeVar, cast

S = TypeVar("S", covariant=True)
T = TypeVar("T")
Number = NewType("Number", int)


class Point(NamedTuple):
    """A point."""

    x: int
    y: Number = Number(2)
    of: dict[str, bool] | None = None

    def shown(self) -> str:
        return f"{self.x}, {self.y}"

    @property
    def total(self) -> int:
        return self.x + self.y


class Shown(Protocol[S]):
    def shown(self) -> str: ...


class Box(Shown[T], Generic[T]):
    def shown(self) -> str:
        return "box"


def test_a_named_tuple():
    point = Point(1)
    assert tuple(point) == (1, 2, None)
    assert point == Point(x=1, y=Number(2))
    assert Point._fields == ("x", "y", "of")
    assert point._replace(y=Number(7)).total == 8
    assert (point.shown(), Point.__doc__) == ("1, 2", "A point.")
    assert repr(point) == "Point(x=1, y=2, of=None)"
    with pytest.raises(TypeError):
        Point()  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        point.x = 3  # type: ignore[misc]


def test_a_named_tuple_is_copied():
    assert pickle.loads(pickle.dumps(Point(1))) == Point(1)
    assert type(deepcopy(Point(1))) is Point
    assert (Point.__module__, Point.__qualname__) == (__name__, "Point")


def test_the_others():
    assert Box[int]().shown() == "box"

    assert cast("object", "text") == "text"
    assert type(Number(3)) is int
