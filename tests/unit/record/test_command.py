# SPDX-License-Identifier: GPL-2.0-or-later
"""``kpfs trace`` explains an event that a kernel refuses."""

import pytest

from kpfs.base.errors import SetupError
from kpfs.record.command import Recorder

README = (
    "Format: p[:[<group>/][<event>]] <place>\n\tf[:[<group>/][<event>]] <func-name>"
)
LIST = "cat /sys/kernel/tracing/available_events"


@pytest.fixture
def tree(tmp_path):
    """A kernel's files, of which those that take events cannot be written."""
    for name in ("set_event", "kprobe_events", "dynamic_events"):
        (tmp_path / "tracing" / name).mkdir(parents=True)
    (tmp_path / "tracing/README").write_text(README)
    (tmp_path / "tracing/error_log").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("event", "why"),
    [
        ("sched:no", f"no such event; kpfs run --kernel 'a b' --config=X=n -- {LIST}"),
        ("p:x", "a definition is p[:[GROUP/]EVENT] FUNCTION[+OFFSET] [ARGUMENT...]"),
        ("f:x", "a definition is f[:[GROUP/]EVENT] FUNCTION[%return] [ARGUMENT...]"),
        ("e:x a.b", "this kernel has no event probes"),
        ("t3 x", "this kernel has no tracepoint probes"),
    ],
)
def test_why_an_event_is_refused(tree, event, why):
    recorder = Recorder([event], ["--kernel", "a b", "--config=X=n"])
    with pytest.raises(SetupError) as caught:
        recorder.begin(str(tree))
    assert str(caught.value) == f"trace: {event}: refused ({why})"
