from tests.support.images import picture, sha256, shown
from turnstile.compiler.images.image import Image
from turnstile.compiler.images.request_images import ImageStore
from turnstile.compiler.wording import Conversation

USER = {"role": "user", "content": "What is the weather?"}


def test_a_conversation_has_the_images_of_all_its_messages_in_order() -> None:
    red, blue = picture("red"), picture("blue")
    start, store = Conversation().extended([USER]), ImageStore()
    shown_both = start.extended([shown(red)], store).extended([USER, shown(blue)], store)
    assert (start.images, shown_both.has_other_media) == ((), False)
    assert [image.sha256 for image in shown_both.images if isinstance(image, Image)] == [
        sha256(red),
        sha256(blue),
    ]


def test_video_and_sound_are_seen_in_any_message() -> None:
    video = {"role": "user", "content": [{"type": "video_url", "video_url": {}}]}
    assert Conversation().extended([video]).extended([USER]).has_other_media
