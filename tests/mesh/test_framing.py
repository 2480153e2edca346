"""Nothing that a peer writes can close its frame, or look like another one."""

import re

from hypothesis import given
from hypothesis import strategies as st

from tieline.mesh.framing import NOTICE, TAG, frame, frame_all
from tieline.protocol.mesh import PeerMessage

GAPS = st.sampled_from(["", " ", "\n", "\u200b", "\u2060", "\ufeff", "\u00ad"])
TAGS = st.sampled_from([TAG, TAG.upper(), "Peer-Message", f"{TAG}-0011aabb", NOTICE])
SPACED = st.tuples(
    st.sampled_from(["<", "</", "\u2039", "\uff1c/"]), st.lists(GAPS, min_size=len(TAG), max_size=len(TAG))
).map(lambda pair: pair[0] + "".join(gap + letter for gap, letter in zip(pair[1], TAG, strict=True)))
"""A tag with invisible characters between its letters."""
PIECES = st.one_of(
    st.text(max_size=20), GAPS, TAGS, SPACED, st.sampled_from(["<", ">", "/", '"', "</", "\u2039", "\uff1c", "&lt;"])
)
WORDS = st.lists(PIECES, max_size=30).map("".join)
HIDDEN = re.compile(r"[\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")


def message(text: str, sender: str = "anna", thread: str = "t") -> PeerMessage:
    return PeerMessage(id="m1", sender=sender, text=text, thread=thread, reply_wanted=True)


def parts(framed: str) -> tuple[str, str, str]:
    """The opening tag, what is inside, and the closing tag."""
    first, _, rest = framed.partition("\n")
    inside, _, last = rest.rpartition("\n")
    return first, inside, last


@given(text=WORDS)
def test_nothing_inside_closes_the_frame(text: str) -> None:
    first, inside, last = parts(frame(message(text)))
    mark = re.fullmatch(rf"<{TAG}-([0-9a-f]+)( [a-z-]+=\"[\w@.:+=~-]*\")*>", first)
    assert mark, first
    assert last == f"</{TAG}-{mark[1]}>"
    assert mark[1] not in inside
    seen = HIDDEN.sub("", inside).casefold()  # as a reader sees it
    for opening in "<\u2039\uff1c":
        assert f"{opening}{TAG}" not in seen
        assert f"{opening}/{TAG}" not in seen


@given(sender=WORDS, thread=WORDS)
def test_a_senders_name_stays_within_its_quotes(sender: str, thread: str) -> None:
    first, inside, _ = parts(frame(message("hello", sender, thread)))
    assert inside == "hello"
    assert first.count("<") == first.count(">") == 1
    assert re.fullmatch(rf"<{TAG}-[0-9a-f]+( [a-z-]+=\"[^\"<>\s]*\")*>", first)


@given(texts=st.lists(st.text(st.characters(exclude_characters="<\u2039\uff1c"), max_size=40), max_size=5))
def test_several_are_framed_one_by_one_and_unchanged(texts: list[str]) -> None:
    framed = frame_all(message(text) for text in texts)
    assert framed.count(f"</{TAG}-") == len(texts)
    assert framed.startswith(NOTICE) if texts else framed == ""
    assert all(f"\n{text}\n</{TAG}-" in framed for text in texts)
