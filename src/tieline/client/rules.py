"""The part of the client about rules for asks."""

from msgspec.structs import replace

from ..ids import new_id
from ..protocol.rules import NewRule, RuleChoice, RulePreview, RuleView
from .api_requests import ApiRequests


class RulesApi(ApiRequests):
    async def rules(self) -> list[RuleView]:
        """Those that hold, the newest first, then those that are over."""
        return await self.get("rules", list[RuleView])

    async def rule(self, id: str) -> RuleView:
        return await self.get(f"rules/{id}", RuleView)

    async def add_rule(self, new: NewRule) -> RuleView:
        if not new.id:
            new = replace(new, id=new_id())
        return await self.change("POST", "rules", RuleView, new, key=new.id)

    async def preview_rule(self, new: NewRule) -> RulePreview:
        """What it would have decided of what was asked before. Saves nothing."""
        return await self.change("POST", "rules/preview", RulePreview, new)

    async def revoke_rule(self, id: str) -> RuleView:
        return await self.change("DELETE", f"rules/{id}", RuleView)

    async def rule_choices(self, ask: str) -> list[RuleChoice]:
        """The rules that an ask could become, the narrowest first."""
        return await self.get(f"asks/{ask}/rule-choices", list[RuleChoice])
