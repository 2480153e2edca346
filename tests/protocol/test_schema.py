"""The protocol's JSON Schema: all that crosses a wire to a client, with nothing left open."""

import json
import re
import subprocess
import sys

import msgspec

from tieline.protocol.schema import schema
from tieline.protocol.stream_frames import AnyClientFrame, AnyHubFrame, Ready
from tieline.protocol.views import Snapshot


def refs(text: bytes) -> set[str]:
    return set(re.findall(r'"\$ref":"#/\$defs/([^"]+)"', text.decode()))


def test_it_names_every_frame_and_refers_to_nothing_else() -> None:
    definitions = schema()["$defs"]
    for kind in (*AnyClientFrame.__args__, *AnyHubFrame.__args__):
        assert kind.__name__ in definitions
    assert refs(msgspec.json.encode(definitions)) <= set(definitions)


def test_what_is_always_written_is_required() -> None:
    definitions = schema()["$defs"]
    frame = Ready(state="ok", epoch="e", cursor=0, snapshot=Snapshot())
    assert set(json.loads(msgspec.json.encode(frame))) == set(definitions["Ready"]["required"])
    assert set(definitions["SessionRecord"]["required"]) == set(definitions["SessionRecord"]["properties"])
    assert "reason" not in definitions["Decision"].get("required", ())


def test_it_can_be_printed() -> None:
    command = [sys.executable, "-m", "tieline.protocol.schema"]
    printed = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout
    assert json.loads(printed) == json.loads(msgspec.json.encode(schema()))
