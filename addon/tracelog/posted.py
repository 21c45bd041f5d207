"""Groups and rewards as users write them, JSON objects, checked field by field.

What passes can be written into a log, read from it and exported again without a change: numbers are finite
and integers of at most 64 bits, text is Unicode, nothing is nested deeper than MAX_DEPTH.
"""

import json
import math
import secrets
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from turnstile.addon.tracelog.ids import EXPECTED, is_id, is_sequence_id, shown
from turnstile.addon.tracelog.records import Group, Reward

MAX_DEPTH = 64  # of objects and lists in one another
_GROUP_FIELDS = ("group_id", "max_trajectory_tokens", "metadata")
_REWARD_FIELDS = ("group_id", "rollout_id", "sequence_id", "reward", "metadata")


class PostedError(ValueError):
    """Something cannot be meant; the message says which field, found against expected."""

    def __init__(self, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.param = param  # the field


def posted_object(text: bytes) -> dict[str, Any]:
    """The JSON object that is all of `text`. Raises PostedError when it is none."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except PostedError:
        raise
    except UnicodeDecodeError as error:
        raise PostedError(f"it is no JSON: it is not UTF-8 ({error.reason})") from error
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise PostedError(f"it is no JSON: {reason}") from error
    if not isinstance(value, dict):
        raise PostedError(f"it is a JSON {_kind(value)}, expected an object")
    return value


def posted_group(fields: Mapping[str, Any], *, at: float) -> Group:
    """The group that these fields make; its id is drawn where they name none. Raises PostedError."""
    _refuse_unknown(fields, _GROUP_FIELDS)
    limit = fields.get("max_trajectory_tokens")
    if limit is not None and (type(limit) is not int or not 1 <= limit < 1 << 53):
        raise PostedError(
            f"max_trajectory_tokens is {_found(limit)}, expected a whole number of at least 1",
            "max_trajectory_tokens",
        )
    group_id = _id(fields, "group_id")
    return Group(
        group_id=f"group-{secrets.token_hex(8)}" if group_id is None else group_id,
        max_trajectory_tokens=limit,
        at=at,
        metadata=_metadata(fields),
    )


def posted_reward(fields: Mapping[str, Any], *, at: float) -> Reward:
    """The reward that these fields give, its group among them. Raises PostedError."""
    _refuse_unknown(fields, _REWARD_FIELDS)
    group_id = _id(fields, "group_id")
    if group_id is None:
        raise PostedError("there is no group_id", "group_id")
    return Reward(
        group_id=group_id,
        rollout_id=_id(fields, "rollout_id"),
        sequence_id=_id(fields, "sequence_id"),
        reward=_reward(fields),
        at=at,
        metadata=_metadata(fields),
    )


def _reward(fields: Mapping[str, Any]) -> float:
    value = fields.get("reward")
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    found = _found(value) if "reward" in fields else "missing"
    raise PostedError(f"reward is {found}, expected a finite number", "reward")


def _id(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None:
        return None
    if name == "sequence_id":
        fits, expected = is_sequence_id, "the sequence_id of a training sequence"
    else:
        fits, expected = is_id, EXPECTED
    if not isinstance(value, str) or not fits(value):
        raise PostedError(f"{name} is {_found(value)}, expected {expected}", name)
    return value


def _metadata(fields: Mapping[str, Any]) -> dict[str, Any]:
    value = fields.get("metadata")
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise PostedError(f"metadata is {_found(value)}, expected an object", "metadata")
    if fault := _fault(value, MAX_DEPTH):
        raise PostedError(f"metadata {fault}", "metadata")
    return value


def _fault(value: Any, depth: int) -> str:
    """What keeps a value from being stored; "" for nothing."""
    if isinstance(value, dict | list):
        if not depth:
            return f"is nested more than {MAX_DEPTH} deep"
        inner = [*value, *value.values()] if isinstance(value, dict) else value
        return next((fault for each in inner if (fault := _fault(each, depth - 1))), "")
    if isinstance(value, str):
        return "" if _is_unicode(value) else "holds text that is no Unicode (half of a surrogate pair)"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "holds a number too large for a float"
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        return "holds an integer of more than 64 bits"
    return ""


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _refuse_unknown(fields: Mapping[str, Any], known: Collection[str]) -> None:
    for name in fields:
        if name not in known:
            raise PostedError(f"there is no field {shown(name)}; there are {', '.join(known)}", name[:40])


def _refuse_constant(name: str) -> NoReturn:
    raise PostedError(f"it is no JSON: {name} is no JSON number")


def _found(value: Any) -> str:
    """A value for a message, without repeating much of it."""
    if isinstance(value, str):
        return shown(value)
    if isinstance(value, dict | list):
        return f"a JSON {_kind(value)}"
    return shown(json.dumps(value)).strip("'")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]
