"""The ring against a plain list: whatever is appended and asked for."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tieline.hub.stream import ring_buffer as rings
from tieline.hub.stream.encoded_frames import EncodedFrame
from tieline.hub.stream.ring_buffer import RingBuffer


def packet(seq: int, size: int) -> EncodedFrame:
    return EncodedFrame(b"x" * size, seq=seq)


@given(some.lists(some.tuples(some.integers(1, 3), some.integers(0, 40)), max_size=200), some.integers(0, 600))
def test_it_has_everything_after_its_floor(steps: list[tuple[int, int]], cursor: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rings, "RING_EVENTS", 20)
        patch.setattr(rings, "RING_SIZE", 200)
        patch.setattr(rings, "SPARE", 3)
        patch.setattr(rings, "BATCH", 7)
        ring, seq, seqs = RingBuffer(0), 0, list[int]()
        for gap, size in steps:
            seq += gap  # cursors have gaps
            seqs.append(seq)
            ring.append(packet(seq, size))
        kept = [number for number in seqs if number > ring.floor]
        assert len(kept) <= 20
        assert len(kept) >= min(len(seqs), 1)
        if cursor < ring.floor:
            assert ring.after(cursor) is None
            return
        replayed: list[int] = []
        while more := ring.after(replayed[-1] if replayed else cursor):
            assert len(more) <= 7
            replayed += [frame.seq for frame in more]
        assert replayed == [number for number in seqs if number > cursor]
