"""Trace logs of the acceptance recordings and cases, made without a proxy: one group for each.

A recording has the request that the server got and its answer, as they were. A case has the harness's request
and the answer with every field that it could have.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter

CHAT_PATH = "/v1/chat/completions"
# What the cases with images are told of their model.
_VISION = {"model_type": "qwen3_vl", "image_token_id": 151655, "vision_start_token_id": 151652}
_STREAM = (("content-type", "text/event-stream"),)
_JSON = (("content-type", "application/json"),)


def write_logs(shared: Path, folder: Path) -> None:
    """One log for each kind of server, and one for the cases."""
    golden = shared / "golden"
    recordings = sorted(path for path in golden.glob("*_*.jsonl") if path.name.startswith(("d", "m", "v")))
    by_server: dict[str, list[tuple[str, Mapping[str, Any]]]] = {}
    for path in recordings:
        for line in path.read_text(encoding="utf-8").split("\n"):
            if line.strip():
                call = json.loads(line)
                by_server.setdefault(call["server"], []).append((path.stem, call))
    for server, calls in by_server.items():
        facts = _facts(json.loads((golden / f"server_{server}.json").read_text()))
        _write(folder / server, facts, (_recorded(*call) for call in calls if _is_chat(call[1])))
    cases = sorted((shared / "cases" / "open").glob("*.json"))
    facts = {"kind": "sglang", "model_config": _VISION}
    _write(folder / "cases", facts, (each for path in cases for each in _case(path)))


def _write(folder: Path, facts: Mapping[str, Any], exchanges: Iterator[dict[str, Any]]) -> None:
    writer = LogWriter(folder, program="shared")
    writer.set_backend(facts)
    for number, fields in enumerate(exchanges):
        usual: dict[str, Any] = {
            "exchange_id": f"{writer.log_id}-{number:06d}",
            "rollout_id": None,
            "started_at": 1000.0 + number,
            "duration_s": 0.5,
            "method": "POST",
            "path": CHAT_PATH,
            "outcome": "complete",
            "status": 200,
            "request_headers": _JSON,
            "splices": (),
        }
        writer.write([Exchange(**usual | fields)])
    writer.close()


def _is_chat(call: Mapping[str, Any]) -> bool:
    return call["path"] == CHAT_PATH and call["harness"] is not None and call["status"] == 200


def _facts(server: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kind": "sglang",
        "version": [0, 5, 23],
        "server_info": server["server_info"],
        "model_info": server["model_info"],
        "model_config": server.get("config"),
    }


def _recorded(name: str, call: Mapping[str, Any]) -> dict[str, Any]:
    stream = base64.b64decode(call["sse"]) if "sse" in call else None
    return {
        "group_id": name,
        "request": json.dumps(call["request"]).encode(),
        "reply": stream or json.dumps(call["response"]).encode(),
        "reply_headers": _STREAM if stream else _JSON,
    }


def _case(path: Path) -> Iterator[dict[str, Any]]:
    case = json.loads(path.read_text())
    for run in case["runs"]:
        group = ".".join(filter(None, (case["id"], run.get("name"))))
        for call in run.get("calls", ()):
            if (reply := _reply(call)) is not None:
                headers = _STREAM if "wire" in call else _JSON
                yield {
                    **({"started_at": 500.0 + call["start"]} if "start" in call else {}),
                    "group_id": group,
                    "request": json.dumps(call["request"]).encode(),
                    "reply": reply,
                    "reply_headers": headers,
                    "status": call.get("status", 200),
                    "delivered": not str(call.get("client", "")).startswith("leaves"),
                }


def _reply(call: Mapping[str, Any]) -> bytes | None:
    if "wire" in call:
        return (
            base64.b64decode(call["plain"])
            if call.get("plain")
            else b"".join(map(base64.b64decode, call["wire"]))
        )
    return json.dumps(call["response"]).encode() if "response" in call else None
