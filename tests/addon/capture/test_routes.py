import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.capture.routes import Route, RouteError, endpoint, find_route, plain_path

CHAT = "/v1/chat/completions"
ELSEWHERE = Route("uncaptured", "/openai/v1/chat/completions?x=1", "g", None)


@pytest.mark.parametrize(
    ("target", "route"),
    [
        (CHAT, Route("chat", CHAT, "default", None)),
        (f"{CHAT}?a=1&b=/x?y", Route("chat", f"{CHAT}?a=1&b=/x?y", "default", None)),
        (f"/group/g-1{CHAT}", Route("chat", CHAT, "g-1", None)),
        (f"/group/g-1/rollout/r:2{CHAT}?q=%20", Route("chat", f"{CHAT}?q=%20", "g-1", "r:2")),
        (f"/group/a%3Ab{CHAT}", Route("chat", CHAT, "a:b", None)),
        (f"/group/rollout/rollout/rollout{CHAT}", Route("chat", CHAT, "rollout", "rollout")),
        ("/group/g/generate", Route("uncaptured", "/generate", "g", None)),
        ("/generate", Route("uncaptured", "/generate", "default", None)),
        ("/group/g/v1/completions", Route("uncaptured", "/v1/completions", "g", None)),
        ("/v1/messages", Route("uncaptured", "/v1/messages", "default", None)),
        ("/v1/responses", Route("uncaptured", "/v1/responses", "default", None)),
        ("/api/chat?x=1", Route("uncaptured", "/api/chat?x=1", "default", None)),
        ("/group/g//invocations/", Route("uncaptured", "/invocations", "g", None)),
        ("/vertex_generate", Route("uncaptured", "/vertex_generate", "default", None)),
        ("/group/g/openai/v1/chat/completions?x=1", ELSEWHERE),
        ("/chat/completions", Route("uncaptured", "/chat/completions", "default", None)),
        ("/v1/chat/completions/more", Route("other", "/v1/chat/completions/more", "default", None)),
        ("/v1/mychat/completions", Route("other", "/v1/mychat/completions", "default", None)),
        ("/v1/messages/count_tokens", Route("other", "/v1/messages/count_tokens", "default", None)),
        ("/group/g/v1/models?x=1", Route("other", "/v1/models?x=1", "g", None)),
        ("/v1/models/a%2Fb/", Route("other", "/v1/models/a%2Fb/", "default", None)),
        ("/groups/g/v1/models", Route("other", "/groups/g/v1/models", "default", None)),
        ("/", Route("other", "/", "default", None)),
        ("*", Route("other", "*", "default", None)),
        ("/turnstile/health?x=1", Route("control", "/turnstile/health", "default", None)),
        ("/turnstile/", Route("control", "/turnstile", "default", None)),
        ("/turnstiles", Route("other", "/turnstiles", "default", None)),
        ("/group/g/turnstile/health", Route("other", "/turnstile/health", "g", None)),
    ],
)
def test_a_url_names_group_rollout_and_where_on_the_backend_it_goes(target: str, route: Route) -> None:
    assert find_route("POST", target) == route


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("/group/g/v1/messages/?x=1", "/v1/messages"),
        ("/openai/v1/chat/completions?key=1", "*/chat/completions"),
        ("/deployments/a%2Fb//ch%61t/completions/", "*/chat/completions"),
    ],
)
def test_what_generates_uncaptured_is_counted_under_few_names(target: str, named: str) -> None:
    assert endpoint(find_route("POST", target)) == named


def test_an_uncaptured_chat_completion_is_forwarded_in_its_own_spelling() -> None:
    target = "/deployments/a%2Fb//ch%61t/completions/?x=1"
    assert find_route("POST", target) == Route("uncaptured", target, "default", None)


@pytest.mark.parametrize(
    "target",
    [
        "//v1//chat/completions",
        "/v1/chat/completions/",
        "/v1/ch%61t/completions",
        "/v1/chat%2Fcompletions",
        "/v1/./chat/x/../completions",
        "//group/g/v1/chat/completions",
        "/v1/chat/completions#x",
        "/%67roup/g/v1/chat/completions",
        "/group/g//v1/chat//completions//",
    ],
)
def test_every_spelling_of_the_chat_endpoint_is_captured_and_forwarded_plainly(target: str) -> None:
    route = find_route("POST", target)
    assert (route.kind, route.target) == ("chat", CHAT)


@given(st.data())
def test_no_quoting_of_the_chat_endpoint_goes_by_uncaptured(data: st.DataObject) -> None:
    spelled = "".join(
        data.draw(st.sampled_from([letter, f"%{ord(letter):02x}", f"%{ord(letter):02X}"]))
        for letter in CHAT[1:]
    )
    slashes = data.draw(st.sampled_from(["/", "//", "/./", "/x/../"]))
    route = find_route("POST", slashes + spelled)
    assert (route.kind, route.target) == ("chat", CHAT)


@given(st.text(alphabet="/.%2FfEeabv1?"))
def test_any_path_has_a_route_or_a_bad_id(target: str) -> None:
    try:
        route = find_route("POST", "/" + target)
    except RouteError:
        return
    assert route.target.startswith("/")


@pytest.mark.parametrize("method", ["GET", "PUT", "OPTIONS"])
def test_only_posts_are_captured(method: str) -> None:
    assert find_route(method, f"/group/g/{CHAT}/") == Route("other", f"{CHAT}/", "g", None)


def test_sglang_generates_for_a_put_too() -> None:
    assert find_route("PUT", "/generate").kind == "uncaptured"
    assert find_route("GET", "/generate").kind == "other"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("/group/a%2Fb/v1/models", "bad group id 'a/b': expected 1 to 128 of A-Z a-z 0-9 . _ : -"),
        (f"/group/ü{CHAT}", "bad group id 'ü'"),
        (f"/group/{'x' * 129}{CHAT}", f"bad group id '{'x' * 40}... (129 characters)'"),
        (f"/group/g/rollout/r%20{CHAT}", "bad rollout id 'r '"),
        (f"/group/g%0A{CHAT}", r"bad group id 'g\n'"),
        (f"/group/%2e%2e{CHAT}", "bad group id '..'"),
        (f"/group/g/rollout/.{CHAT}", "bad rollout id '.'"),
        ("/group", "no group id after /group/"),
        ("/group/", "no group id after /group/"),
        ("/group//v1/chat/completions", "no group id after /group/"),
        ("/group/a/rollout//v1/chat/completions", "no rollout id after /rollout/"),
        ("/group/g/rollout", "no rollout id after /rollout/"),
    ],
)
def test_a_bad_id_is_refused_by_name(target: str, message: str) -> None:
    with pytest.raises(RouteError) as caught:
        find_route("POST", target)
    assert str(caught.value).startswith(message)


def test_the_longest_id_is_128_characters() -> None:
    assert find_route("POST", f"/group/{'x' * 128}{CHAT}").group_id == "x" * 128


def test_headers_name_what_the_url_leaves_open() -> None:
    headers = {"group_header": "h-g", "rollout_header": "h-r"}
    assert find_route("POST", CHAT, **headers) == Route("chat", CHAT, "h-g", "h-r")
    assert find_route("POST", f"/group/u-g{CHAT}", **headers) == Route("chat", CHAT, "u-g", "h-r")
    assert find_route("POST", f"/group/g/rollout/r{CHAT}", **headers) == Route("chat", CHAT, "g", "r")


@pytest.mark.parametrize("header", ["", "a b", "a, b", "a%41"])
def test_a_bad_id_in_a_header_is_refused(header: str) -> None:
    with pytest.raises(RouteError, match="bad group id"):
        find_route("POST", CHAT, group_header=header)
    with pytest.raises(RouteError, match="bad rollout id"):
        find_route("POST", CHAT, rollout_header=header)


def test_a_plain_path_is_what_a_server_looks_up() -> None:
    assert plain_path("//a/%2e/b/../c%20d/") == "/a/c d"
    assert plain_path("/../..") == "/"
