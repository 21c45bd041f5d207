from mitmproxy.options import Options

from turnstile.addon.capture.defaults import set_better_defaults


def options() -> Options:
    made = Options()  # tcp_timeout among them
    made.add_option("connection_strategy", str, "eager", "", choices=("eager", "lazy"))
    return made


def test_a_backend_that_is_down_is_answered_for_and_a_long_generation_not_cut_off() -> None:
    made = options()
    set_better_defaults(made)
    assert (made.connection_strategy, made.tcp_timeout) == ("lazy", 86_400)


def test_what_the_user_chose_stays_even_where_it_is_the_default() -> None:
    made = options()
    made.set("connection_strategy=eager", "tcp_timeout=600")
    set_better_defaults(made)
    assert (made.connection_strategy, made.tcp_timeout) == ("eager", 600)


def test_one_choice_of_the_user_leaves_the_other_default_to_be_bettered() -> None:
    made = options()
    made.set("tcp_timeout=5")
    set_better_defaults(made)
    assert (made.connection_strategy, made.tcp_timeout) == ("lazy", 5)
