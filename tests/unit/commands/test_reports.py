# SPDX-License-Identifier: GPL-2.0-or-later
"""Reports for CI are XML whatever a command has printed."""

from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from kpfs.base.errors import SetupError
from kpfs.commands import search
from kpfs.commands.reports import for_xml, write_report
from kpfs.commands.search_page import Shown
from tests.there import stand_in

RAW = "\x1b[31mno\x00 \ud800 é"


def test_what_xml_does_not_allow_is_replaced():
    assert for_xml(RAW) == "?[31mno? ? é"


def test_a_search_that_has_found_control_characters():
    """The last line of a command is in the title of a finding."""
    row = Shown("schedule", f"wrong result: {RAW}", [RAW], "s1", "one wait", f"x {RAW}")
    arguments = SimpleNamespace(argv=[RAW], kinds=["schedule"], kernel="6.12")
    tried = SimpleNamespace(left_out={"race": RAW}, seconds=1.0)
    suite = ElementTree.fromstring(
        search._junit(stand_in(arguments), stand_in(tried), [row], [RAW])
    )
    (failure,) = suite.iter("failure")
    assert failure.get("message") == f"wrong result: {for_xml(RAW)}"


def test_a_report_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(SetupError, match="No such file"):
        write_report(str(tmp_path / "none/report.xml"), b"")
