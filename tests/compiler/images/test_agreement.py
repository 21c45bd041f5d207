from tests.support.images import prompt_image
from turnstile.compiler.images.agreement import agreed_size, images_agree

RED, BLUE, GREEN = prompt_image("red", 2, 4), prompt_image("blue", 2, 4), prompt_image("green", 12, 4)


def test_images_behind_the_shared_tokens_agree_whatever_comes_after() -> None:
    assert images_agree((), (), 10)
    assert images_agree((RED,), (RED, GREEN), 10)
    assert images_agree((), (GREEN,), 10)


def test_other_bytes_another_place_or_another_number_do_not_agree() -> None:
    assert not images_agree((RED,), (BLUE,), 10)
    assert not images_agree((RED,), (prompt_image("red", 3, 4),), 10)
    assert not images_agree((RED,), (), 10)
    assert not images_agree((), (RED,), 10)


def test_sequences_share_tokens_up_to_the_first_image_that_differs() -> None:
    assert agreed_size((RED, GREEN), (RED, GREEN), 20) == 20
    assert agreed_size((RED, GREEN), (BLUE, GREEN), 20) == 2
    assert agreed_size((RED, GREEN), (RED,), 20) == 12
    assert agreed_size((RED,), (RED, GREEN), 10) == 10
