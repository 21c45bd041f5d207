"""The wording of a turn, by the rules that capture goes by too: see `turnstile.addon.backends.wording`."""

from turnstile.addon.backends.wording import Conversation, reply_digest

__all__ = ["Conversation", "reply_digest"]
