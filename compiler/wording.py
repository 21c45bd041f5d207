"""What a request says: its wording, and the images and other media that are taken out on the way.

The wording goes by the rules that capture goes by too: see `turnstile.addon.backends.wording`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from turnstile.addon.backends.wording import Conversation as Messages
from turnstile.addon.backends.wording import Wording, reply_digest
from turnstile.compiler.images.image import Image, Unreadable
from turnstile.compiler.images.request_images import ImageStore, other_media_of

__all__ = ["Conversation", "reply_digest"]


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages of a request."""

    images: tuple[Image | Unreadable, ...] = ()  # of all messages in order
    other_media: tuple[bytes, ...] = ()  # digests of the parts that are neither text nor image, in order
    messages: Messages = field(default_factory=Messages)

    @property
    def answers(self) -> tuple[Wording, ...]:
        """For every assistant message the wording of the turn whose answer it would be."""
        return self.messages.answers

    @property
    def digest(self) -> bytes:
        """Of all messages in order."""
        return self.messages.digest

    def extended(self, messages: Sequence[Any], store: ImageStore | None = None) -> "Conversation":
        """The conversation with more messages at its end; `store` has the images of its group."""
        store = ImageStore() if store is None else store
        objects = [message for message in messages if isinstance(message, dict)]
        return Conversation(
            (*self.images, *(image for message in objects for image in store.images_of(message))),
            (*self.other_media, *(digest for message in objects for digest in other_media_of(message))),
            self.messages.extended(messages),
        )
