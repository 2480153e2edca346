"""The part of the client about machines, their agents, and who may talk to the hub."""

from ..ids import new_id
from ..protocol.access import Me, Offer, Paired
from ..protocol.audit import AuditKind, AuditLine
from ..protocol.phone import PhoneSetup, PhoneStatus, PhoneWay
from ..protocol.push import PushKey, PushTest, PushView
from ..protocol.request_bodies import Claim, Pairing, PushSubscription
from ..protocol.views import AgentView, CommandView, DeviceView, DirectoryView, NodeView
from .api_requests import ApiRequests


class NodesApi(ApiRequests):
    async def nodes(self) -> list[NodeView]:
        return await self.get("nodes", list[NodeView])

    async def node(self, id: str) -> NodeView:
        return await self.get(f"nodes/{id}", NodeView)

    async def remove_node(self, id: str) -> None:
        """Its key is worth nothing any more, and it is forgotten."""
        await self.change("DELETE", f"nodes/{id}", type(None))

    async def browse(self, node: str, path: str = "") -> DirectoryView:
        """The directories inside one; empty is the user's home."""
        return await self.get(f"nodes/{node}/browse", DirectoryView, path=path)

    async def refresh(self, node: str) -> list[AgentView] | CommandView:
        """Look again which agents are installed and signed in."""
        return await self.send_command("POST", f"nodes/{node}/refresh", list[AgentView])

    async def list_models(self, node: str, agent: str) -> AgentView | CommandView:
        """The agent with its models; it is started and asked, unless it told not long ago."""
        return await self.send_command("POST", f"nodes/{node}/agents/{agent}/models", AgentView)

    async def agents(self, node: str = "") -> list[AgentView]:
        return await self.get("agents", list[AgentView], node=node)


class AccessApi(ApiRequests):
    async def me(self) -> Me:
        return await self.get("me", Me)

    async def pairing(self, pairing: Pairing) -> Offer:
        """A single-use secret that lets another device in."""
        return await self.change("POST", "pairings", Offer, pairing)

    async def pair(self, claim: Claim) -> Paired:
        """Give a secret for a key of one's own. Needs no token."""
        return await self.change("POST", "pair", Paired, claim)

    async def login(self, claim: Claim) -> Me:
        """What a page does with its secret. For a client `pair` is the way."""
        return await self.change("POST", "login", Me, claim)

    async def logout(self) -> None:
        """This device's own key is worth nothing any more."""
        await self.change("POST", "logout", type(None))

    async def devices(self) -> list[DeviceView]:
        return await self.get("devices", list[DeviceView])

    async def revoke(self, device: str, *, let_in: bool = False) -> None:
        """It is out at once, also on open connections; with `let_in` all that it let in, too."""
        query = {"let_in": "true"} if let_in else {}
        await self._call("DELETE", f"devices/{device}", query=query, key=new_id())

    async def phone(self) -> PhoneStatus:
        """The way that phones reach the hub by, if one is set up."""
        return await self.get("phone", PhoneStatus)

    async def phone_ways(self) -> list[PhoneWay]:
        """All ways, whether the hub's machine has them, and what each means for safety."""
        return await self.get("phone/ways", list[PhoneWay])

    async def set_up_phone(self, wanted: PhoneSetup) -> PhoneStatus:
        """In place of the way before; with what was found when the hub called itself by it."""
        return await self.change("POST", "phone", PhoneStatus, wanted)

    async def turn_off_phone(self) -> None:
        await self.change("DELETE", "phone", type(None))

    async def audit(
        self, *, before: int = 0, since: float = 0.0, kind: AuditKind | None = None, limit: int = 100
    ) -> list[AuditLine]:
        """Who came in, decided, was refused: the newest first. `before`: the `seq` of the last one that was seen."""
        return await self.get("audit", list[AuditLine], before=before, since=since, kind=kind or "", limit=limit)

    async def health(self) -> dict[str, str]:
        """`status` and `version`. Needs no token."""
        return await self.get("/healthz", dict[str, str])

    async def metrics(self) -> str:
        """What Prometheus reads."""
        return (await self.get("/metrics", bytes)).decode()

    async def openapi(self) -> bytes:
        return await self.get("openapi.json", bytes)

    # --- push ------------------------------------------------------------------------------------------

    async def push_key(self) -> str:
        """What a browser subscribes with."""
        return (await self.get("push/key", PushKey)).key

    async def push_subscriptions(self) -> list[PushView]:
        """Those of this device."""
        return await self.get("push/subscriptions", list[PushView])

    async def subscribe_push(self, subscription: PushSubscription) -> PushView:
        return await self.change("POST", "push/subscriptions", PushView, subscription)

    async def unsubscribe_push(self, subscription: str) -> None:
        await self.change("DELETE", f"push/subscriptions/{subscription}", type(None))

    async def test_push(self) -> PushTest:
        """A test push to this device, now."""
        return await self.change("POST", "push/test", PushTest)
