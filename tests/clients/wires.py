"""How clients talk to models over HTTP: what is read from a request, and the reply that asks for a
tool or ends the turn. One class for each API."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .reading import Answer, Call, Picture

Body = Mapping[str, Any]

_DONE = "done"

#: With which Claude Code lets its model look for tools.
_TOOL_SEARCH = "ToolSearch"

#: With which Codex lets its newer models call tools from programs that they write.
_EXEC = "exec"


@dataclass(frozen=True)
class ToolName:
    """A tool as a client offers it to its model."""

    name: str
    namespace: str | None = None
    """Set where tools come in groups."""

    def names(self, tool: str) -> bool:
        """Whether it is this tool of ours, whatever the client has put before its name."""
        return self.name == tool or self.name.endswith(f"_{tool}")


@dataclass(frozen=True)
class Reply:
    """The body of a response."""

    content: bytes
    kind: str = "application/json"

    @classmethod
    def json(cls, value: Any) -> Reply:
        return cls(json.dumps(value).encode())

    @classmethod
    def events(cls, events: Iterable[tuple[str | None, Any]]) -> Reply:
        """Server-sent events: their names, if they have some, and their data."""
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(data)}\n\n"
            for name, data in events
        ]
        return cls("".join(lines).encode(), "text/event-stream")


class Wire(Protocol):
    """One API of models."""

    def serves(self, path: str) -> bool:
        """Whether a request to this path asks the model for its next turn."""
        ...

    def tools(self, body: Body) -> list[ToolName]:
        """What the model may call."""
        ...

    def answers(self, body: Body) -> list[Answer]:
        """The results of all calls so far."""
        ...

    def reply(self, body: Body, call: Call | None) -> Reply:
        """Ask for a call, or end the turn if there is none or its tool is not offered."""
        ...


class Messages:
    """Anthropic's Messages, as Claude Code uses it."""

    def serves(self, path: str) -> bool:
        return path.endswith("/messages")

    def tools(self, body: Body) -> list[ToolName]:
        return [ToolName(tool.get("name", "")) for tool in body.get("tools") or ()]

    def answers(self, body: Body) -> list[Answer]:
        return [
            Answer(tuple(self._parts(block.get("content") or "")))
            for block in _blocks(body, "tool_result")
            if block["tool_use_id"] not in self._searches(body)
        ]

    def _searches(self, body: Body) -> dict[str, str]:
        """What the model has searched for, by the id of the search."""
        return {
            block["id"]: block["input"]["query"]
            for block in _blocks(body, "tool_use")
            if block["name"] == _TOOL_SEARCH
        }

    def _parts(self, content: str | list[dict[str, Any]]) -> Iterator[str | Picture]:
        if isinstance(content, str):
            yield content
            return
        for block in content:
            if block["type"] == "image":
                yield Picture.of(block["source"]["media_type"], block["source"]["data"])
            else:
                yield block["text"] if block["type"] == "text" else json.dumps(block)

    def tokens(self, body: Body) -> int:
        """For a client that asks for the size of something before it shows it to the model.

        Two bytes a token is more than a model would count: what fits here fits there.
        """
        texts = [answer.text for answer in self.answers(body)]
        texts += [block.get("text", "") for block in _blocks(body, "text")]
        return sum(len(text.encode()) for text in texts) // 2 + 1

    def reply(self, body: Body, call: Call | None) -> Reply:
        asked = self._asked(body, call)
        if asked is not None:
            name, arguments = asked
            stop = "tool_use"
            whole = {"type": "tool_use", "id": _made_up("toolu_"), "name": name, "input": arguments}
            begun = {**whole, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        else:
            stop = "end_turn"
            whole, begun = {"type": "text", "text": _DONE}, {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": _DONE}
        message = {
            "id": _made_up("msg_"),
            "type": "message",
            "role": "assistant",
            "model": body.get("model", "stand-in"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        if not body.get("stream"):
            return Reply.json({**message, "content": [whole], "stop_reason": stop})
        ending = {"stop_reason": stop, "stop_sequence": None}
        events: list[tuple[str, dict[str, Any]]] = [
            ("message_start", {"message": message}),
            ("content_block_start", {"index": 0, "content_block": begun}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": ending, "usage": {"output_tokens": 1}}),
            ("message_stop", {}),
        ]
        return Reply.events((name, {"type": name, **data}) for name, data in events)

    def _asked(self, body: Body, call: Call | None) -> tuple[str, dict[str, Any]] | None:
        """The tool to ask for, with its arguments.

        Claude Code gives its model the names of MCP tools, and offers those that it searched for.
        """
        tools = self.tools(body)
        if call is None:
            return None
        if tool := _offered(tools, call):
            return tool.name, call.arguments
        query = f"select:mcp__jupyter__{call.tool}"
        if ToolName(_TOOL_SEARCH) not in tools or query in self._searches(body).values():
            return None
        return _TOOL_SEARCH, {"query": query, "max_results": 5}


class Responses:
    """OpenAI's Responses, as Codex uses it."""

    def serves(self, path: str) -> bool:
        return path.endswith("/responses")

    def tools(self, body: Body) -> list[ToolName]:
        found: list[ToolName] = []
        for tool in self._offers(body):
            if tool["type"] == "namespace":
                found += [ToolName(inner["name"], tool["name"]) for inner in tool["tools"]]
            else:
                found.append(ToolName(tool.get("name", "")))
        return found

    def answers(self, body: Body) -> list[Answer]:
        return [
            Answer(tuple(self._parts(item["output"])))
            for item in body.get("input", ())
            if item.get("type") in ("function_call_output", "custom_tool_call_output")
        ]

    def _offers(self, body: Body) -> Iterator[dict[str, Any]]:
        yield from body.get("tools") or ()
        for item in body.get("input", ()):
            # Codex offers the tools of MCP servers only to a model that has searched for them.
            if item.get("type") in ("additional_tools", "tool_search_output"):
                yield from item["tools"]

    def _parts(self, output: str | list[dict[str, Any]]) -> Iterator[str | Picture]:
        if isinstance(output, str):
            yield output
            return
        for item in output:
            if item["type"] == "input_image":
                head, _, data = item["image_url"].partition(";base64,")
                yield Picture.of(head.removeprefix("data:"), data)
            else:
                yield item["text"] if item["type"] == "input_text" else json.dumps(item)

    def reply(self, body: Body, call: Call | None) -> Reply:
        item = self._item(body, call)
        response = {"id": _made_up("resp_")}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        completed = {**response, "output": [item], "usage": usage}
        events: list[tuple[str, dict[str, Any]]] = [
            ("response.created", {"response": response}),
            ("response.output_item.done", {"output_index": 0, "item": item}),
            ("response.completed", {"response": completed}),
        ]
        return Reply.events((name, {"type": name, **data}) for name, data in events)

    def _item(self, body: Body, call: Call | None) -> dict[str, Any]:
        tool = _offered(self.tools(body), call)
        if tool is not None and call is not None:
            item = {
                "type": "function_call",
                "id": _made_up("fc_"),
                "call_id": _made_up("call_"),
                "name": tool.name,
                "arguments": json.dumps(call.arguments),
            }
            return {**item, "namespace": tool.namespace} if tool.namespace else item
        if call is not None and ToolName(_EXEC, "functions") in self.tools(body):
            return {
                "type": "custom_tool_call",
                "id": _made_up("ctc_"),
                "call_id": _made_up("call_"),
                "name": _EXEC,
                "namespace": "functions",
                "input": _program(call),
            }
        if call is not None and self._can_search(body, call):
            return {
                "type": "tool_search_call",
                "call_id": _made_up("call_"),
                "execution": "client",
                "arguments": {"query": call.tool},
            }
        return {
            "type": "message",
            "id": _made_up("msg_"),
            "role": "assistant",
            "content": [{"type": "output_text", "text": _DONE, "annotations": []}],
        }

    def _can_search(self, body: Body, call: Call) -> bool:
        """Whether tools can be searched for, and this one has not been yet."""
        searches = [
            item["arguments"].get("query")
            for item in body.get("input", ())
            if item.get("type") == "tool_search_call"
        ]
        kinds = [tool["type"] for tool in self._offers(body)]
        return "tool_search" in kinds and call.tool not in searches


class GenerateContent:
    """Google's generateContent, as Gemini CLI uses it."""

    def serves(self, path: str) -> bool:
        return path.endswith(":streamGenerateContent")

    def tools(self, body: Body) -> list[ToolName]:
        return [
            ToolName(declared["name"])
            for tool in body.get("tools") or ()
            for declared in tool.get("functionDeclarations", ())
        ]

    def answers(self, body: Body) -> list[Answer]:
        found: list[list[str | Picture]] = []
        for content in body.get("contents", ()):
            # Pictures follow the response that they belong to, or are inside it.
            answering = False
            for part in content.get("parts", ()):
                if response := part.get("functionResponse"):
                    answering = True
                    found.append([*self._parts(response)])
                elif answering:
                    found[-1] += self._part(part)
        return [Answer(tuple(parts)) for parts in found]

    def _parts(self, response: dict[str, Any]) -> Iterator[str | Picture]:
        for value in response.get("response", {}).values():
            yield value if isinstance(value, str) else json.dumps(value)
        for part in response.get("parts", ()):
            yield from self._part(part)

    def _part(self, part: dict[str, Any]) -> Iterator[str | Picture]:
        if data := part.get("inlineData"):
            yield Picture.of(data["mimeType"], data["data"])
        else:
            yield part.get("text") or json.dumps(part)

    def reply(self, body: Body, call: Call | None) -> Reply:
        tool = _offered(self.tools(body), call)
        part: dict[str, Any] = {"text": _DONE}
        if tool is not None and call is not None:
            part = {"functionCall": {"name": tool.name, "args": call.arguments}}
        candidate = {
            "content": {"role": "model", "parts": [part]},
            "finishReason": "STOP",
            "index": 0,
        }
        usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
        return Reply.events([(None, {"candidates": [candidate], "usageMetadata": usage})])


def _blocks(body: Body, kind: str) -> Iterator[dict[str, Any]]:
    """The blocks of this kind in all messages."""
    for message in body.get("messages", ()):
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        yield from (block for block in blocks if block["type"] == kind)


def _offered(tools: Iterable[ToolName], call: Call | None) -> ToolName | None:
    return next((tool for tool in tools if call and tool.names(call.tool)), None)


def _program(call: Call) -> str:
    """The JavaScript with which a careful model makes a call and looks at all of its result."""
    return f"""
        const result = await tools.mcp__jupyter__{call.tool}({json.dumps(call.arguments)});
        for (const part of result.content) {{
            if (part.type === "image") image(part);
            else text(part.type === "text" ? part.text : part);
        }}
    """


def _made_up(prefix: str) -> str:
    return prefix + uuid.uuid4().hex
