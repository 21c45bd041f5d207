"""Whether the same pictures stand behind the same placeholder tokens.

Placeholders of different pictures of one size are the same tokens, so tokens alone do not tell.
"""

from itertools import zip_longest

from turnstile.compiler.images.image import PromptImage

Images = tuple[PromptImage, ...]  # in prompt order


def images_agree(earlier: Images, later: Images, size: int) -> bool:
    """Whether the images in the first `size` tokens of `later` are those of `earlier`, which has no more."""
    return earlier == tuple(image for image in later if image.token_span[0] < size)


def agreed_size(one: Images, other: Images, size: int) -> int:
    """How many of the first `size` tokens, which are the same in both, have the same pictures too."""
    for mine, others in zip_longest(one, other):
        if mine != others:
            return min(size, *(image.token_span[0] for image in (mine, others) if image is not None))
    return size
