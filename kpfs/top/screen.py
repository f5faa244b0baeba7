# SPDX-License-Identifier: GPL-2.0-or-later
"""The screen of ``kpfs top``: a table of probes, and a text below it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import DataTable, Footer, Header, Static

from kpfs.base.errors import SetupError
from kpfs.base.shown import shown
from kpfs.top.costs import Sort, cost_of, measure, sorts_of
from kpfs.top.samples import (
    COLUMNS,
    NUMBERS,
    Rate,
    Sampler,
    TopProbe,
    cells,
    is_guest_kernel,
    lost,
    read,
    sparkline,
)

COLOURS = {"ftrace": "cyan", "jump": "green", "breakpoint": "yellow"}


class Screen(App[None]):
    """The screen with the probes of a mount, sampled again and again."""

    TITLE = "kpfs top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #table { height: 1fr; }
    #lost { height: auto; max-height: 25%; color: $warning; display: none; }
    #lost.shown { display: block; }
    #below { height: 40%; border-top: solid $primary; display: none; }
    #below.shown { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "disassemble", "disassemble"),
        Binding("e", "explain", "explain"),
        Binding("space", "switch", "disarm or arm all", priority=True),
        Binding("s", "sort", "sort"),
        Binding("escape", "close", "close"),
        Binding("q", "quit", "quit"),
    ]

    def __init__(self, place: Path, interval: float) -> None:
        super().__init__()
        self.place = place
        self.interval = interval
        self.sampler = Sampler()
        self.rates: list[Rate] = []
        self.shown: list[Rate] = []  # in the order of the table
        self.asked: set[Sort] = set()  # those with a cost, known or being measured
        self.costs: dict[Sort, float] = {}
        self.by_rate = False  # else in the order of kprobes/list

    def compose(self) -> ComposeResult:
        """Lay out the screen."""
        yield Header()
        table: DataTable[Text] = DataTable(id="table", cursor_type="row")
        table.add_columns(*COLUMNS, "hits over time", "owner")
        yield table
        yield Static(id="lost", markup=False)
        with VerticalScroll(id="below"):
            yield Static(id="words", markup=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to sample."""
        self.sample()
        self.set_interval(self.interval, self.sample)

    def sample(self) -> None:
        """Read the files and show the rates; leave if the mount is gone."""
        try:
            probes = read(self.place)
            guest_kernel = is_guest_kernel(self.place)
            lines = [f"lost: {line}" for line in lost(self.place)]
            armed = (self.place / "kprobes/enabled").read_text().strip() == "1"
        except OSError as error:
            self.exit(message=f"kpfs: {self.place}: {error.strerror}", return_code=2)
            return
        self.rates = self.sampler.add(probes)
        self.sub_title = f"{self.place}{'' if armed else ', all disarmed'}"
        below = self.query_one("#lost", Static)
        below.update(shown("\n".join(lines)))
        below.set_class(bool(lines), "shown")
        self.show_rates()
        if guest_kernel and (new := sorts_of(probes) - self.asked):
            self.asked |= new
            self.run_worker(self.weigh(new))

    async def weigh(self, sorts: set[Sort]) -> None:
        """Measure the cost of hits in another thread, and show it."""
        self.costs |= await asyncio.to_thread(measure, sorts)
        self.show_rates()

    def show_rates(self) -> None:
        """Fill the table; the cursor stays at its row."""
        rates = self.rates
        if self.by_rate:
            rates = sorted(rates, key=lambda rate: -rate.hits)
        table = self.query_one("#table", DataTable)
        cursor = table.cursor_row
        table.clear()
        for rate in rates:
            row = [
                Text(
                    shown(cell),
                    justify="right" if number in NUMBERS else "left",
                    style=COLOURS.get(cell, ""),
                )
                for number, cell in enumerate(
                    cells(rate, cost_of(rate.probe, self.costs))
                )
            ]
            table.add_row(
                *row, Text(sparkline(rate.history)), Text(shown(rate.probe.owner))
            )
        table.move_cursor(row=min(cursor, max(len(rates) - 1, 0)))
        self.shown = rates

    def chosen(self) -> TopProbe | None:
        """Return the probe at the cursor."""
        table = self.query_one("#table", DataTable)
        if not self.shown:
            return None
        return self.shown[table.cursor_row].probe

    def show_words(self, words: str) -> None:
        """Show a text below the table."""
        self.query_one("#words", Static).update(shown(words))
        self.query_one("#below").add_class("shown")

    def action_close(self) -> None:
        """Show the table alone."""
        self.query_one("#below").remove_class("shown")

    def action_disassemble(self) -> None:
        """Show the function's text as it stands, with breakpoints and jumps."""
        if probe := self.chosen():
            symbol = probe.place.partition("+")[0]
            path = self.place / "machine/text" / symbol
            try:
                self.show_words(path.read_text())
            except OSError as error:
                self.show_words(f"{path}: {error.strerror}")

    def action_explain(self) -> None:
        """Show why the probe is armed as it is."""
        if probe := self.chosen():
            from kpfs.explain.command import guest_explainer
            from kpfs.explain.kernels import linux_explainer, made_of_release

            try:
                if is_guest_kernel(self.place):
                    context = guest_explainer()
                else:
                    release = (self.place / "sys/kernel/osrelease").read_text()
                    context = linux_explainer(made_of_release(release.strip()))
                with context as explainer:
                    self.show_words(explainer.explain(probe.place.partition(":")[0])[1])
            except SetupError as error:
                self.show_words(str(error))
            except OSError as error:
                self.show_words(f"{self.place}: {error.strerror}")

    def action_switch(self) -> None:
        """Disarm all probes, or arm them again."""
        switch = self.place / "kprobes/enabled"
        try:
            switch.write_text("0" if switch.read_text().strip() == "1" else "1")
        except OSError as error:
            self.show_words(f"{switch}: {error.strerror}")
        self.sample()

    def action_sort(self) -> None:
        """Sort by hits a second, or no longer."""
        self.by_rate = not self.by_rate
        self.show_rates()

    def on_data_table_header_selected(self, _event: DataTable.HeaderSelected) -> None:
        """Sort, after a click on the head of the table."""
        self.action_sort()

    def on_data_table_row_selected(self, _event: DataTable.RowSelected) -> None:
        """Disassemble, after a second click on a row, or Enter."""
        self.action_disassemble()
