"""What a turn of Claude Code costs, from its results and from the transcript that is resumed."""

import json
from pathlib import Path
from typing import Any

from tieline.drivers.claude_code.usage import ClaudeCodeUsageMeter, previous_usage


def model(input: int, output: int = 0, cost: float = 0.0) -> dict[str, Any]:
    return {"model": {"inputTokens": input, "outputTokens": output, "costUSD": cost}}


def test_a_resumed_conversation_is_counted_from_what_it_had_come_to(tmp_path: Path) -> None:
    """Four equal turns by resume were told as 10, 20, 30, 40."""
    transcript = tmp_path / ".claude" / "projects" / "-some-place" / "abc.jsonl"
    transcript.parent.mkdir(parents=True)
    env = {"HOME": str(tmp_path)}
    for turns in range(1, 5):
        meter = ClaudeCodeUsageMeter(previous_usage(env, "abc"))
        tokens = meter.turn_ended(model(10 * turns, turns, 0.5 * turns), {"input_tokens": 10}, broken=False)
        assert (tokens.input, tokens.output, tokens.cost_usd) == (10, 1, 0.5)
        state = {"type": "cost-state", "sessionId": "abc", "modelUsage": model(10 * turns, turns, 0.5 * turns)}
        message = {"type": "user", "message": 'it said {"type":"cost-state"}'}
        with transcript.open("a") as file:
            file.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in (message, state, message)))


def test_where_nothing_is_known_the_count_begins_at_nothing(tmp_path: Path) -> None:
    env = {"CLAUDE_CONFIG_DIR": str(tmp_path)}
    assert previous_usage(env, "") == previous_usage(env, "nobody") == {}
    broken = tmp_path / "projects" / "x" / "abc.jsonl"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"type":"cost-state","modelUsage":[1]}\n')
    assert previous_usage(env, "abc") == {}


def test_one_that_did_not_go_on_from_what_it_had_written_down() -> None:
    tokens = ClaudeCodeUsageMeter(model(1000, 10)).turn_ended(model(10, 1), {"input_tokens": 10}, broken=False)
    assert (tokens.input, tokens.output) == (10, 1)


def test_a_call_that_was_broken_off_counts() -> None:
    """No total of Claude Code has it."""
    meter = ClaudeCodeUsageMeter()
    meter.model_call_started({"input_tokens": 25, "output_tokens": 1})
    meter.model_call_ended({"output_tokens": 4})
    meter.model_call_started({"input_tokens": 25, "cache_read_input_tokens": 7, "output_tokens": 1})
    tokens = meter.turn_ended(model(25, 4), {"input_tokens": 25, "output_tokens": 4}, broken=True)
    assert (tokens.input, tokens.cache_read, tokens.output) == (50, 7, 4)
    meter.next_turn()
    tokens = meter.turn_ended(model(50, 8), {"input_tokens": 25, "output_tokens": 4}, broken=False)
    assert (tokens.input, tokens.output) == (25, 4), "and in its own turn alone"
