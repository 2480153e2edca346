"""A vote: a question, the members that are asked, and what came of it."""

from ..protocol.teams import VoteCall


class Vote:
    """Open until everybody who was asked has spoken, or will not speak any more."""

    def __init__(self, call: VoteCall, caller: str, message: int) -> None:
        self.call = call
        self.caller = caller
        self.message = message  # the number of the one that asks
        self.asked: list[str] = []
        self.waits_for: set[str] = set()  # of those
        self.ballots: dict[str, str] = {}  # voter → option; of two the last one counts

    def take(self, voter: str, ballot: str) -> bool:
        """Whether it is an option."""
        option = next((each for each in self.call.options if each.casefold() == ballot.strip().casefold()), "")
        if option:
            self.ballots[voter] = option
        return bool(option)

    def question(self) -> str:
        return (
            f"{self.caller} calls for a vote: {self.call.question}\nOptions: {' | '.join(self.call.options)}\n"
            "The last line of your message votes: [BALLOT: option]. Who gives none abstains."
        )

    def result(self) -> str:
        """Who voted what, and which option has won."""
        by_option = {
            option: [voter for voter, ballot in self.ballots.items() if ballot == option]
            for option in self.call.options
        }
        lines = [f"- {option}: {', '.join(voters) or 'nobody'}" for option, voters in by_option.items()]
        if abstained := [voter for voter in self.asked if voter not in self.ballots]:
            lines.append(f"- abstained: {', '.join(abstained)}")
        return "\n".join((f"The vote: {self.call.question}", *lines, self._outcome(by_option)))

    def _outcome(self, by_option: dict[str, list[str]]) -> str:
        most = max(map(len, by_option.values()))
        if not most:
            return "Nobody voted."
        first = [option for option, voters in by_option.items() if len(voters) == most]
        if len(first) > 1:
            return f"It is a tie between {', '.join(first)}."
        how = "the majority" if 2 * most > len(self.ballots) else "the most votes, but no majority"
        return f"{first[0]} has {how}: {most} of {len(self.ballots)}."
