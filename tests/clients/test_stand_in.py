"""The stand-in asks for the calls of its script and keeps their results, in each model's API."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any

import httpx
import pytest

from tests.tools.test_outputs import png

from . import scenario
from .reading import Answer, Call, Picture
from .stand_in import StandIn
from .wires import GenerateContent, Messages, Responses

PNG = png(4, 3)
PICTURE = Picture("image/png", 4, 3)
ANSWER = Answer(("seen", PICTURE))


def script() -> Generator[Call, Answer, None]:
    answer = yield Call("look", {"at": "a plot"})
    yield Call("say", {"word": answer.text})


def asked(stand_in: StandIn, path: str, body: dict[str, Any]) -> str:
    """The reply to a request; no proxy and no certificates are needed for it."""
    with httpx.Client(trust_env=False, verify=False) as http:
        response = http.post(f"{stand_in.url}{path}", json=body)
    assert response.status_code == 200
    return response.text


def ask_messages(stand_in: StandIn, answers: int) -> str:
    image = {"type": "image", "source": {"media_type": "image/png", "data": PNG}}
    result = [{"type": "text", "text": "seen"}, image]
    block = {"type": "tool_result", "tool_use_id": "1", "content": result}
    messages = [{"role": "user", "content": "go"}, {"role": "user", "content": [block] * answers}]
    tools = [{"name": "mcp__jupyter__look"}, {"name": "mcp__jupyter__say"}]
    return asked(
        stand_in, "/v1/messages?beta=true", {"messages": messages, "tools": tools, "stream": True}
    )


def ask_responses(stand_in: StandIn, answers: int) -> str:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    output = [{"type": "input_text", "text": "seen"}, image]
    items = [{"type": "function_call_output", "call_id": "1", "output": output}] * answers
    inner = [{"type": "function", "name": name} for name in ("look", "say")]
    tools = [{"type": "namespace", "name": "mcp__jupyter", "tools": inner}]
    return asked(stand_in, "/v1/responses", {"input": items, "tools": tools})


def ask_generate_content(stand_in: StandIn, answers: int) -> str:
    response = {"functionResponse": {"name": "look", "response": {"output": "seen"}}}
    image = {"inlineData": {"mimeType": "image/png", "data": PNG}}
    contents = [{"role": "user", "parts": [response, image]}] * answers
    names = ("mcp_jupyter_look", "mcp_jupyter_say")
    tools = [{"functionDeclarations": [{"name": name} for name in names]}]
    path = "/v1beta/models/any:streamGenerateContent?alt=sse"
    return asked(stand_in, path, {"contents": contents, "tools": tools})


@pytest.mark.parametrize(
    ("wire", "ask"),
    [
        (Messages, ask_messages),
        (Responses, ask_responses),
        (GenerateContent, ask_generate_content),
    ],
)
def test_the_stand_in_requests_each_call_and_keeps_the_answers(
    wire: Callable[[], Any], ask: Callable[[StandIn, int], str]
) -> None:
    with StandIn(wire(), script) as stand_in:
        first = ask(stand_in, 0)
        assert "look" in first
        assert "a plot" in first
        assert ask(stand_in, 0).count("look") == first.count("look")  # a client may ask again
        assert not stand_in.finished
        second = ask(stand_in, 1)
        assert "say" in second
        assert "seen" in second
        last = ask(stand_in, 2)
        assert "done" in last
        assert "look" not in last
        assert stand_in.finished
        calls = [str(exchange.call) for exchange in stand_in.exchanges]
        assert calls == ["look(at='a plot')", "say(word='seen')"]
        assert [exchange.answer for exchange in stand_in.exchanges] == [ANSWER, ANSWER]


def test_the_stand_in_searches_for_tools_that_codex_defers() -> None:
    with StandIn(Responses(), script) as stand_in:
        body: dict[str, Any] = {"tools": [{"type": "tool_search"}], "input": []}
        search = asked(stand_in, "/v1/responses", body)
        assert "tool_search_call" in search
        asking = {"type": "tool_search_call", "arguments": {"query": "look"}}
        nothing = asked(stand_in, "/v1/responses", {**body, "input": [asking]})
        assert "done" in nothing  # once is enough
        tools = [{"type": "namespace", "name": "mcp__j", "tools": [{"name": "look"}]}]
        found = {"type": "tool_search_output", "tools": tools}
        call = asked(stand_in, "/v1/responses", {**body, "input": [asking, found]})
        assert '"namespace": "mcp__j"' in call


def test_the_stand_in_writes_a_program_if_codex_calls_tools_from_programs() -> None:
    with StandIn(Responses(), script) as stand_in:
        functions = {"type": "namespace", "name": "functions", "tools": [{"name": "exec"}]}
        added = {"type": "additional_tools", "tools": [functions]}
        call = asked(stand_in, "/v1/responses", {"input": [added]})
        assert "custom_tool_call" in call
        assert "tools.mcp__jupyter__look(" in call
        output = [{"type": "input_text", "text": "seen"}]
        result = {"type": "custom_tool_call_output", "call_id": "1", "output": output}
        assert "say" in asked(stand_in, "/v1/responses", {"input": [added, result]})


def test_the_stand_in_searches_for_tools_that_claude_code_defers() -> None:
    with StandIn(Messages(), script) as stand_in:
        body: dict[str, Any] = {"tools": [{"name": "ToolSearch"}], "messages": []}
        search = json.loads(asked(stand_in, "/v1/messages", body))["content"][0]
        assert search["name"] == "ToolSearch"
        result = {"type": "tool_result", "tool_use_id": search["id"], "content": "Tool loaded."}
        messages = [
            {"role": "assistant", "content": [search]},
            {"role": "user", "content": [result]},
        ]
        tools = [*body["tools"], {"name": "mcp__jupyter__look"}]
        body = {"tools": tools, "messages": messages}
        call = json.loads(asked(stand_in, "/v1/messages", body))["content"][0]
        assert call["name"] == "mcp__jupyter__look"
        assert stand_in.exchanges == []


def test_the_stand_in_blocks_connections_to_other_hosts() -> None:
    with (
        StandIn(Messages(), script) as stand_in,
        httpx.Client(proxy=stand_in.url, verify=False) as http,
    ):
        with pytest.raises(httpx.ProxyError):
            http.get("https://elsewhere.example/")
        assert http.get("http://elsewhere.example/").status_code == 404
        assert stand_in.elsewhere == ["elsewhere.example:443", "http://elsewhere.example/"]


@pytest.mark.parametrize(
    "text",
    [
        "first",
        "first\nsecond",
        "Wall time: 0.1 seconds\nOutput:\nfirst\nsecond",
        "Script completed\nWall time 0.1 seconds\nOutput:\n\nfirst\nsecond",
        "<untrusted_context>\nfirst\nsecond\n</untrusted_context>",
    ],
)
def test_the_first_line_is_ours(text: str) -> None:
    assert Answer((text,)).first_line == "first"


def test_the_scenario_follows_the_page_hints_in_answers() -> None:
    running = scenario.script()
    call = next(running)
    while call.tool != "get_document":
        call = running.send(Answer(("nothing",)))
    further = Answer(("1 to 9 of 20, continue with start_line=10",))
    assert running.send(further).arguments["start_line"] == 10
    with pytest.raises(StopIteration):
        running.send(further)  # it would go on for ever
