"""People's rules for asks, as `tieline run` without a hub obeys them: those that are saved when it begins.

They are read once, before the agent has heard a word. An agent that writes to the file in the state directory, or that
starts a hub of its own, so gives itself no rule in the turn that it works on.
"""

from collections.abc import Callable

import msgspec

from ...bus import read_saved_tables
from ...config import Config
from ...errors import BusError
from ...node.node_identity import identify
from ...policy import CAPABILITIES, Policy
from ...sessions.ask_rules import AskOrigin
from ...sessions.rule_book import JOINED_RULES, RULES, SavedRules, decode_rules


def saved_rules(config: Config, policy: Policy, agent: str, cwd: str, warn: Callable[[str], None]) -> SavedRules | None:
    """None where no rule can decide anything; why they cannot be obeyed is told by `warn`."""
    if all(policy.level(capability) != "ask" for capability in CAPABILITIES):
        return None
    try:
        rules = decode_rules(read_saved_tables(config.bus_url(), RULES, JOINED_RULES))
    except BusError as error:
        warn(f"tieline: your rules for asks do not hold here: {error.message}")
        return None
    except msgspec.DecodeError as error:
        warn(f"tieline: your rules for asks do not hold here: one is not understood ({error})")
        return None
    return SavedRules(rules, AskOrigin(agent, identify(config.environ).id, cwd)) if rules else None
