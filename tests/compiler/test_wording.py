from tests.support.images import picture, sha256, shown
from turnstile.compiler.images.image import Image
from turnstile.compiler.images.request_images import ImageStore
from turnstile.compiler.wording import Conversation

USER = {"role": "user", "content": "What is the weather?"}


def test_a_conversation_has_the_images_of_all_its_messages_in_order() -> None:
    red, blue = picture("red"), picture("blue")
    start, store = Conversation().extended([USER]), ImageStore()
    shown_both = start.extended([shown(red)], store).extended([USER, shown(blue)], store)
    assert (start.images, shown_both.other_media) == ((), ())
    assert [image.sha256 for image in shown_both.images if isinstance(image, Image)] == [
        sha256(red),
        sha256(blue),
    ]


def test_video_and_sound_of_all_messages_are_seen_in_order() -> None:
    video = {"role": "user", "content": [{"type": "video_url", "video_url": {}}]}
    sound = {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AA=="}}]}
    one, other = (Conversation().extended([each]).other_media for each in (video, sound))
    assert Conversation().extended([video, USER]).extended([sound]).other_media == (*one, *other)
