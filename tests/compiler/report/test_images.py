from dataclasses import replace

from tests.support.sequences import WITH_IMAGES
from turnstile.compiler.report.images import shown_images


def test_pictures_are_shown_and_documents_are_not() -> None:
    picture, other = WITH_IMAGES.images
    document = replace(picture, mime="image/svg+xml")
    assert shown_images(replace(WITH_IMAGES, images=(document, picture, other))) == [picture, other]
