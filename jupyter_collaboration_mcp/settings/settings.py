"""Every setting, declared once: for the extension, the command, both, or the Hub service.

From the fields of `Settings` are made the traits of the extension (`app.py`), the options of the
command (`standalone/options.py`), the environment variables (`environment.py`) and
docs/configuration.md. To add a setting, add a field.

The command imports this before anything else: it must stay light.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from ..documents.foreign_text import did_you_mean
from ..errors import InvalidArgument
from ..tools import toolset_names
from .declaration import Door, Setting, setting
from .levels import Levels


def _toolsets(text: str) -> str:
    try:
        toolset_names(text)
    except InvalidArgument as error:
        raise ValueError(f"{error.happened} {error.next_step}") from None
    return text


def _glob(text: str) -> str:
    # A command line makes one glob of `["a/*"]`, which would match nothing.
    if re.fullmatch(r"""\[\s*["'].*["']\s*\]""", text):
        raise ValueError(
            f"{text} is a list, where a glob is wanted. On a command line, give the option once "
            "for each glob."
        )
    return text


def _url_path(text: str) -> str:
    path = text.strip("/")
    if not re.fullmatch(r"(?!\.\.?(/|$))[\w.~-]+(/(?!\.\.?(/|$))[\w.~-]+)*", path, re.ASCII):
        raise ValueError(
            f"{text!r} is no path of letters, digits, '-', '.', '_' and '~', such as "
            "'collaboration-mcp' or 'agents/mcp'."
        )
    return path


def _hub(text: str) -> str:
    found = re.fullmatch(r"(https?://[^/?#\s]+(?:/[^?#\s]*?)?)/*(?:hub/(?:home/?)?)?", text)
    if found is None:
        raise ValueError(f"{text!r} is not the URL of a JupyterHub, such as https://hub.example/")
    return found[1].rstrip("/") + "/"


def _folder(text: str) -> str:
    parts = text.strip("/").split("/")
    if any(not part or part.startswith(".") or "\\" in part for part in parts):
        raise ValueError(
            f"{text!r} is not a folder that people can open: give a path relative to the server's "
            "root, in which no name begins with a dot."
        )
    return "/".join(parts)


def _pattern(text: str) -> str:
    try:
        found = re.compile(text).match("")
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    if found is not None:
        raise ValueError(f"{text!r} matches an empty text, so it would match everywhere")
    return text


def _workaround(name: str) -> str:
    from ..backends.upstream.registry import OPTIONAL_NAMES  # takes its time

    if name not in OPTIONAL_NAMES:
        guess = did_you_mean(name, OPTIONAL_NAMES)
        raise ValueError(f"There is no workaround {name!r}. {guess}".strip())
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the person who runs the extension or the command decides."""

    url_path: str = setting(
        "mcp",
        "Endpoint path below the server's base URL; change it if something else serves /mcp.",
        only="extension",
        check=_url_path,
    )
    toolsets: str = setting(
        "default",
        "Toolsets to offer, comma-separated: default, all, core, notebook, document, files, "
        "kernel, awareness, in the command server, and the dialects rtc and connect.",
        check=_toolsets,
    )
    permission: Levels = setting(  # noqa: RUF009
        Levels(),
        "The most that any agent may do: read, write, execute or admin. In the command, "
        "ALIAS=LEVEL sets it for one server.",
        metavar="[ALIAS=]LEVEL",
    )
    allowed_paths: tuple[str, ...] = setting(
        (), "Globs of paths that agents may touch; empty means all.", metavar="GLOB", check=_glob
    )
    denied_paths: tuple[str, ...] = setting(
        (),
        "Globs of paths that agents may not touch, whatever is allowed.",
        metavar="GLOB",
        check=_glob,
    )
    protect_cells: bool = setting(
        True,
        "Whether agents leave cells alone that are marked in their metadata: editable: false, "
        "deletable: false, or the tag agent-protected.",
    )
    busy_cells: str = setting(
        "warn",
        "What happens if an agent changes a cell, or a line of an ASCII text file, that a person's "
        "caret is in: allow, warn (the answer says whose) or refuse.",
        choices=("allow", "warn", "refuse"),
    )
    mode: str = setting(
        "edit",
        "Whether agents edit documents, or propose edits in forks that a person merges. A "
        "connection can choose the latter with ?mode=propose.",
        choices=("edit", "propose"),
    )
    structured: bool = setting(
        False,
        "Whether answers also have structuredContent. Many clients show a model that JSON instead "
        "of the text and the pictures. A connection can ask for it with ?structured=true.",
    )
    agent_name: str | None = setting(
        None, "The agents' name if the connection gives none.", metavar="NAME"
    )
    idle_timeout: float = setting(
        300.0,
        "Seconds after which an agent that does nothing leaves a document.",
        metavar="SECONDS",
    )
    redact_secrets: bool = setting(
        False,
        "Mask, before an agent sees them, the values of this process's environment variables whose "
        "names look like secrets: TOKEN, PASSWORD, SECRET, API_KEY and the like.",
    )
    redact_patterns: tuple[str, ...] = setting(
        (),
        "Regular expressions for other text to mask. If one has a group, only the group is masked.",
        metavar="PATTERN",
        check=_pattern,
    )
    allow_without_token: bool = setting(
        False,
        "Serve agents without any credential where Jupyter has neither token nor password and "
        "listens beyond this machine. Whoever reaches the server can then run code in it.",
        only="extension",
    )
    template_dir: str | None = setting(
        None,
        "Directory with templates of your own for new notebooks: .ipynb files, or .py files with "
        "# %% between cells. One with the name of a built-in template replaces it.",
        metavar="PATH",
    )
    ephemeral_dir: str = setting(
        "ephemeral",
        "Folder for ephemeral notebooks, relative to the server's root.",
        metavar="PATH",
        check=_folder,
    )
    ephemeral_timeout: float = setting(
        1800.0,
        "Seconds without use after which an ephemeral notebook is deleted with its kernel.",
        metavar="SECONDS",
        positive=True,
    )
    count_activity: bool = setting(
        True,
        "Whether calls and runs of agents count as activity of the Jupyter server, so that neither "
        "JupyterHub nor Jupyter itself takes it for idle.",
    )
    max_cells_per_call: int = setting(
        1000, "Cells that one call may change, and elements of any list in it.", metavar="COUNT"
    )
    max_source_length: int = setting(
        4_000_000, "Characters of source in one call.", metavar="CHARACTERS"
    )
    max_open_documents: int = setting(
        200, "Documents that one agent may have open at once; 0: any number.", metavar="COUNT"
    )
    max_notebook_cells: int = setting(
        20_000,
        "Cells up to which agents may insert more into a notebook; 0: any number.",
        metavar="COUNT",
    )
    rate_limit: int = setting(
        3_000,
        "Calls of one agent in a minute, of tools, resources and prompts; ten times as many HTTP "
        "requests of one credential. 0: any number.",
        metavar="CALLS",
    )
    execution_rate_limit: int = setting(
        1_000,
        "Runs of code that one agent may start in a minute; 0: any number.",
        metavar="RUNS",
    )
    write_rate_limit: int = setting(
        100_000_000,
        "Bytes that calls of one agent may bring in a minute to write them; 0: any number.",
        metavar="BYTES",
    )
    max_stream_size: int = setting(
        1_000_000,
        "Characters printed by a run that a notebook keeps; the rest is stored separately.",
        metavar="CHARACTERS",
    )
    max_display_size: int = setting(
        5_000_000, "Bytes of a run's results and displays that a notebook keeps.", metavar="BYTES"
    )
    aside_limit: int = setting(
        200_000_000,
        "Bytes of one run's output that are stored separately, outside the notebook.",
        metavar="BYTES",
    )
    aside_total: int = setting(
        1_000_000_000,
        "Bytes of all separately stored output; the oldest is deleted first.",
        metavar="BYTES",
    )
    aside_age: float = setting(
        24 * 3600.0, "Seconds for which separately stored output is kept.", metavar="SECONDS"
    )
    max_image_width: int = setting(
        700,
        "Images in answers are scaled down to this many pixels; 0: no images.",
        metavar="PIXELS",
    )
    max_image_height: int = setting(
        700,
        "Images in answers are scaled down to this many pixels; 0: no images.",
        metavar="PIXELS",
    )
    input_timeout: float = setting(
        300.0,
        "Seconds that code which called input() waits for an agent's answer.",
        metavar="SECONDS",
    )
    event_store_size: int = setting(
        16_000_000,
        "Over HTTP: bytes of messages that are kept for clients of protocol 2025-11-25 and older, "
        "which get what they missed when they lost their connection; 0: nothing is kept.",
        metavar="BYTES",
    )
    activity_limit: int = setting(
        20_000,
        "Activities of people and agents that the log keeps; 0: nothing is recorded.",
        metavar="COUNT",
    )
    panel: bool = setting(
        True,
        "Whether people see agents, review their changes, pause and stop them, in JupyterLab's "
        "panel and over its REST API.",
        only="extension",
    )
    review_limit: int = setting(
        500,
        "Calls of agents beyond the latest 500 that stay in the panel because nobody has reviewed "
        "them.",
        only="extension",
        metavar="COUNT",
    )
    audit_log: str | None = setting(
        None,
        "File to which a line of JSON is appended for each call of an agent: who, what, which "
        "document and cells, how it ended; never contents. Default: none.",
        metavar="PATH",
    )
    audit_log_size: int = setting(
        10_000_000,
        "Bytes after which that file is renamed to .1 and another one begun; five are kept.",
        metavar="BYTES",
        positive=True,
    )
    journal_dir: str | None = setting(
        None,
        "Directory in which unsaved edits are kept, in a folder for each root directory; "
        "default: collaboration-mcp in Jupyter's data directory.",
        only="extension",
    )
    journal_limit: int = setting(
        64_000_000,
        "Bytes of unsaved edits of one document in the journal before it compacts them.",
        only="extension",
    )
    history_days: int = setting(
        0,
        "Days for which the whole history of documents is kept; of the time before, only versions "
        "that have a name or precede a restore, a merge or an agent's work. 0: all is kept.",
        only="extension",
    )
    disabled_workarounds: tuple[str, ...] = setting(
        (),
        "Names of workarounds for other packages to switch off; docs/upstream.md lists them.",
        only="extension",
        check=_workaround,
    )
    preload: bool = setting(
        True,
        "Whether to load the MCP library once Jupyter is idle, so that the first request does "
        "not wait for it (about 1 s, 45 MB).",
        only="extension",
    )
    require_hub_scopes: bool = setting(
        False,
        "On JupyterHub: whether agents need a token with one of the custom scopes "
        "custom:jupyter-collaboration-mcp:LEVEL. A token that has one is limited to its level in "
        "any case.",
        only="extension",
    )
    server: tuple[str, ...] = setting(
        (),
        "A Jupyter server to join; may be repeated. Without one, the command joins the servers "
        "running on this machine.",
        only="command",
        metavar="[ALIAS=]URL",
    )
    hub: str | None = setting(
        None,
        "A JupyterHub: join the servers that the token's owner has there. The token is that of "
        "--token or JUPYTERHUB_API_TOKEN.",
        only="command",
        metavar="URL",
        check=_hub,
    )
    start_servers: bool = setting(
        False,
        "With --hub: whether a server that does not run is started when an agent needs it.",
        only="command",
    )
    token: str | None = setting(
        None,
        "The token of the servers that --server names. Without one, JUPYTER_TOKEN, or the token in "
        "Jupyter's own files.",
        only="command",
    )
    root: str = setting(
        ".", "Directory in which to look for servers and start one.", only="command", metavar="PATH"
    )
    embedded: bool = setting(
        True, "Whether to start a Jupyter server if none is running.", only="command"
    )
    transport: str = setting(
        "stdio", "How clients connect: stdio or http.", only="command", choices=("stdio", "http")
    )
    host: str = setting("127.0.0.1", "For http: the address to listen on.", only="command")
    port: int = setting(0, "For http: the port to listen on; 0: a free one.", only="command")
    allowed_host: tuple[str, ...] = setting(
        (),
        "For http: a name or address that clients use for the command; may be repeated.",
        only="command",
        metavar="NAME",
    )
    bearer_token: str | None = setting(
        None,
        "For http: the token that clients must send. Without one, one is generated and printed.",
        only="command",
        metavar="TOKEN",
    )
    insecure: bool = setting(False, "Whether to accept any certificate.", only="command")
    answer_timeout: float = setting(
        60.0,
        "Seconds for a whole answer of a Jupyter server.",
        only="command",
        metavar="SECONDS",
        positive=True,
    )
    max_answer_size: int = setting(
        256_000_000,
        "Bytes of an answer of a Jupyter server, decompressed, or of one WebSocket message.",
        only="command",
        metavar="BYTES",
        positive=True,
    )
    verbose: bool = setting(False, "Whether to log more to stderr; never a token.", only="command")
    hub_proxy: str = setting(
        "http://127.0.0.1:8000/",
        "Where the service reaches the proxy of the Hub, with the Hub's base URL; calls go through "
        "it to the servers of users.",
        only="service",
        metavar="URL",
        check=_hub,
    )
    hub_endpoint: str = setting(
        "mcp",
        "Endpoint path below a user's server: the url_path of the extension there.",
        only="service",
        metavar="PATH",
        check=_url_path,
    )
    hub_token_age: float = setting(
        1.0,
        "Seconds for which the Hub's answer about a token counts, so long does a scope that was "
        "removed still count; 0: each request asks the Hub.",
        only="service",
        metavar="SECONDS",
    )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Settings:
        """Settings with these values, by name; the others are at their defaults."""
        return cls(**values)


def _declarations() -> tuple[Setting, ...]:
    kinds, defaults = get_type_hints(Settings), Settings()
    return tuple(
        Setting(
            name=each.name,
            kind=kinds[each.name],
            default=getattr(defaults, each.name),
            **each.metadata,
        )
        for each in fields(Settings)
    )


#: All settings, in the order in which they are documented.
SETTINGS = _declarations()


def settings_of(door: Door) -> tuple[Setting, ...]:
    """The settings that apply to a front door."""
    return tuple(each for each in SETTINGS if door in each.doors)
