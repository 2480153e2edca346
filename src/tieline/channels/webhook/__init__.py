"""The webhook channel: signed HTTP requests in and out, by the Standard Webhooks specification.

In: `POST /hooks/in/<id>` on the hub, signed by one of `secrets`, goes to `to`. Out: what is sent to
`relay.webhook.<id>` is posted to `url`, and to no other address ever.
"""

from msgspec import Struct

from ..base import Channel, ChannelContext
from .settings import WebhookConfig

NAME = "Webhook"
CONFIG = WebhookConfig


def create(id: str, config: Struct, context: ChannelContext) -> Channel:
    from .channel import Webhook

    assert isinstance(config, WebhookConfig)
    return Webhook(id, config)
