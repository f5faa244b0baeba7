# SPDX-License-Identifier: GPL-2.0-or-later
"""Framing of packets, for every stream of bytes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kpfs.gdb.packets import (
    MAX_RAW,
    Mark,
    NotGdbError,
    PacketReader,
    checksum,
    decode,
    encode,
)

BODIES = st.binary(max_size=300) | st.builds(
    lambda pieces: b"".join(bytes((byte,)) * count for byte, count in pieces),
    st.lists(st.tuples(st.sampled_from(b"\0#$}*+-x"), st.integers(1, 220))),
)


def feed(*pieces):
    reader = PacketReader()
    return [found for piece in pieces for found in reader.feed(piece)]


@given(st.lists(BODIES, max_size=4), st.lists(st.integers(0, 2000), max_size=8))
def test_what_was_packed_comes_out_wherever_the_stream_is_cut(bodies, cuts):
    data = b"+".join(map(encode, bodies))
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(places)]
    assert feed(*pieces) == bodies


@given(st.binary(max_size=600))
def test_damage_within_packets_is_survived_and_the_next_packet_is_found(data):
    reader = PacketReader()
    found = list(reader.feed(b"$" + data.replace(b"#", b"") + b"#00"))
    assert all(isinstance(each, bytes | Mark) for each in found)
    assert list(reader.feed(encode(b"m0,4")))[-1] == b"m0,4"


@given(st.binary(max_size=600), st.integers(0, 255))
def test_whatever_stands_between_packets_is_an_error(data, byte):
    reader = PacketReader()
    first = bytes((byte,))
    if first in (b"$", b"+", b"-", b"\3"):
        assert list(reader.feed(first)) is not None
        return
    with pytest.raises(NotGdbError):
        list(reader.feed(encode(b"g") + first + data))


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n" + encode(b"QStartNoAckMode"),
        b"\x16\x03\x01\x02\x00\x01",  # TLS
        b"SSH-2.0-x\r\n",
        b"\n" + encode(b"g"),
        b"\0",
    ],
)
def test_other_protocols_are_no_packets(data):
    with pytest.raises(NotGdbError):
        feed(data)


@given(BODIES)
def test_packets_have_no_byte_that_means_something_else(body):
    packed = encode(body)
    assert packed[:1] == b"$"
    assert packed[-3:] == b"#%02x" % checksum(packed[1:-3])
    assert not set(packed[1:-3]) & set(b"#$*")
    assert decode(packed[1:-3]) == body


def test_a_wrong_checksum_is_damage():
    assert feed(b"$m0,4#00") == [Mark.DAMAGED]
    assert feed(b"$m0,4#zz") == [Mark.DAMAGED]
    assert feed(b"$ab}#40") == [Mark.DAMAGED]


def test_a_cut_packet_is_followed_by_the_next():
    assert feed(b"$m0," + encode(b"g")) == [Mark.DAMAGED, b"g"]


def test_marks_stand_between_packets():
    assert feed(b"+\x03-", encode(b"?")) == [Mark.INTERRUPT, Mark.AGAIN, b"?"]


@pytest.mark.parametrize("end", [b"", b"#00"])
def test_a_packet_of_a_megabyte_is_refused(end):
    with pytest.raises(NotGdbError):
        feed(b"$" + b"x" * (1 << 20) + end)
    assert MAX_RAW < 1 << 20
