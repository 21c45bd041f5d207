"""The URLs below /turnstile/groups: groups are made, looked at and rewarded."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from mitmproxy.http import Request

from turnstile.addon.capture.answers import Answer, invalid_request, refusal
from turnstile.addon.capture.session import Session
from turnstile.addon.tracelog.errors import LogWriteError
from turnstile.addon.tracelog.ids import EXPECTED, is_id, shown
from turnstile.addon.tracelog.posted import PostedError, posted_group, posted_object, posted_reward
from turnstile.addon.tracelog.records import Group, Reward

BODY_LIMIT_BYTES = 64 * 1024


async def make_group(session: Session, request: Request) -> Answer:
    """Makes the group that the body describes.

    The same once more changes nothing; a group that has only been used so far is made from now on. One that
    was made otherwise is refused with 409. While one is being written, what else names it waits: it may fail.
    """
    group = _posted(request, posted_group)
    if isinstance(group, Answer):
        return group
    state = session.groups.used(group.group_id)
    async with state.making:
        before = state.made
        if before is not None:
            return _made(group) if _same(before, group) else _exists(before, group)
        try:
            await session.recorder.record_entry(group)
        except LogWriteError as error:
            return _not_recorded(error)
        state.made = group
    return _made(group)


async def show_group(session: Session, group_id: str) -> Answer:
    """What is known of a group; 404 for one that this proxy does not remember."""
    state = session.groups.find(group_id) if is_id(group_id) else None
    if state is None:
        message = f"this proxy knows no group {shown(group_id)}: it was neither made nor used here of late"
        return invalid_request(404, message, code="group_not_found")
    return Answer(200, state.as_json())


async def reward_group(session: Session, request: Request, group_id: str) -> Answer:
    """Records a reward; a group that this proxy does not know may be in an earlier log."""
    if not is_id(group_id):
        return invalid_request(400, f"bad group id {shown(group_id)}: expected {EXPECTED}", code="invalid_id")

    def posted(fields: Mapping[str, Any], *, at: float) -> Reward:
        if "group_id" in fields:
            raise PostedError("group_id stands in the URL and not in the body", "group_id")
        return posted_reward({"group_id": group_id, **fields}, at=at)

    reward = _posted(request, posted)
    if isinstance(reward, Answer):
        return reward
    try:
        await session.recorder.record_entry(reward)
    except LogWriteError as error:
        return _not_recorded(error)
    session.groups.used(group_id).rewards += 1
    return Answer(200, {"group_id": group_id, "recorded": True})


def _posted[T](request: Request, read: Callable[..., T]) -> T | Answer:
    """What `read` makes of the request's JSON object."""
    encoding = request.headers.get("content-encoding", "identity")
    if encoding.lower() != "identity":
        message = f"the body has content-encoding {shown(encoding)}: send it plain"
        return invalid_request(415, message, code="unsupported_encoding")
    body = request.raw_content or b""
    if len(body) > BODY_LIMIT_BYTES:
        message = f"the body has {len(body)} bytes, expected at most {BODY_LIMIT_BYTES}"
        return invalid_request(413, message, code="body_too_large")
    try:
        return read(posted_object(body), at=time.time())
    except PostedError as error:
        return invalid_request(400, f"bad body: {error}", code="invalid_body", param=error.param)


def _same(one: Group, other: Group) -> bool:
    return (one.max_trajectory_tokens, one.metadata) == (other.max_trajectory_tokens, other.metadata)


def _made(group: Group) -> Answer:
    return Answer(200, {"group_id": group.group_id})


def _exists(before: Group, group: Group) -> Answer:
    differs = "metadata"
    if before.max_trajectory_tokens != group.max_trajectory_tokens:
        found, wanted = before.max_trajectory_tokens, group.max_trajectory_tokens
        differs = f"max_trajectory_tokens {_number(found)} and not {_number(wanted)}"
    message = f"group {group.group_id} exists already, with other settings ({differs}); choose another id"
    return invalid_request(409, message, code="group_exists", param="group_id")


def _number(limit: int | None) -> str:
    return "unset" if limit is None else str(limit)


def _not_recorded(error: LogWriteError) -> Answer:
    message = f"It could not be written to the log: {error}. Mend that and send it again."
    return refusal(507, message, type="server_error", code="capture_failed")
