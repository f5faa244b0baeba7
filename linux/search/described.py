# SPDX-License-Identifier: GPL-2.0-or-later
"""The plan of a search's run, and how far the run has come, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpfs.linux.search.reports import task_of, verb

if TYPE_CHECKING:
    from kpfs.linux.search.hold import HeldAccess, Holds
    from kpfs.linux.search.plan import Order, RunPlan
    from kpfs.linux.search.texts import Texts

_MOST_ORDERS = 16  # that are told
_MS = 1_000_000


def described(
    plan: RunPlan, holds: Holds, texts: Texts, now: int | None
) -> Iterator[str]:
    """Yield lines about a run.

    now: ns of the kernel's clock; None: the run has not come to where runs begin.
    """
    yield f"plan: {plan.how}"
    if plan.each_ns:
        yield f"  each access waits {_ms(plan.each_ns)}"
    orders = holds.orders if now is not None else plan.orders
    for number, order in enumerate(orders[:_MOST_ORDERS]):
        past = now is not None and holds.is_past(number)
        state = "reached" if past else "to come"
        yield f"  {number + 1}. {_order(order, texts)}: {state}"
    if len(orders) > _MOST_ORDERS:
        yield f"  and {len(orders) - _MOST_ORDERS} more"
    if now is None:
        yield "the run has not come to where runs begin"
        return
    done = holds.done()
    yield (
        f"so far: {done.accesses} accesses, {done.calls} calls that can fail, "
        f"{done.held} waits"
    )
    waiting = [_held(each, texts, now) for each in holds.held()]
    yield from waiting or ["no processor waits"]


def _order(order: Order, texts: Texts) -> str:
    where = f"access {order.number}"
    if order.at:
        where = f"{_place(order.at, texts)}, time {order.number}"
    does = []
    if order.until:
        place = _place(order.until, texts)
        then = f", which then waits {_ms(order.then)}" if order.then else ""
        does = [f"wait for another task at {place}{then}, at most {_ms(order.ns)}"]
    elif order.ns:
        does = [f"wait {_ms(order.ns)}"]
    if order.timer:
        does.append("let the next timer come")
    return f"before {where}: {', '.join(does)}"


def _held(each: HeldAccess, texts: Texts, now: int) -> str:
    line = f"CPU {each.cpu} waits before {_place(each.at, texts)}"
    if each.bytes:
        size = f"{each.bytes} byte{'s' * (each.bytes != 1)}"
        line += f", which {verb(each.flags)} {size} at {each.addr:#x}"
    if each.until:
        line += f", for another task at {_place(each.until, texts)}"
    left = f"at most {_ms(max(each.end - now, 0))} more"
    return f"{line}, {left}: {task_of(each.party.pid, each.party.comm)}"


def _place(address: int, texts: Texts) -> str:
    return texts.place(address) or f"{address:#x}"


def _ms(ns: int) -> str:
    return f"{ns / _MS:g} ms"
