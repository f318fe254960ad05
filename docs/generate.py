"""Makes the generated parts of the documentation from the code: `python -m docs.generate`.

It writes docs/tools.md, docs/configuration.md and docs/upstream.md, and the two tables in
README.md. A test compares them with what stands there. No server is needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jupyter_collaboration_mcp import errors
from jupyter_collaboration_mcp.backends.upstream.registry import WORKAROUNDS
from jupyter_collaboration_mcp.backends.upstream.workaround import Workaround
from jupyter_collaboration_mcp.settings.declaration import Door, Value
from jupyter_collaboration_mcp.settings.levels import Levels
from jupyter_collaboration_mcp.settings.settings import SETTINGS
from jupyter_collaboration_mcp.tools import TOOLSETS
from jupyter_collaboration_mcp.tools.parts import Parts, Standalone
from jupyter_collaboration_mcp.tools.registry import Declaration, RegisteredTool, all_tools
from jupyter_collaboration_mcp.workspace.sites import Site, Sites

REPOSITORY = Path(__file__).resolve().parents[1]

_GENERATED = (
    "<!-- Made by `python -m docs.generate`. Edit docs/generate.py or the code instead. -->"
)

_RULES = """\
## Rules for all tools

**Naming a cell.** Answers name a cell by its *handle*: index, the beginning of its id (at least
eight characters, and as many as no other cell has) and its revision, `[3] 8f2c41d0@9ab1c2`.
Wherever a cell id goes in, `8f2c41d0@9ab1c2` goes too, and then the call is guarded: nothing
happens if the cell has another revision by now. An id alone, the beginning of one, or an index
works without a guard, and so does a text that only one cell has: `text:df.plot(`. Ids
stay when cells move; indexes shift while others work. Reading never minds an old handle. Where an
answer only reports what others changed, cells are named without a revision, because the agent has
not read them.

**Ranges** are half-open, as in Python: `start_index` is in, `end_index` is out. Negative indexes
count from the end. When reading, a missing end means "to the end", and a range that reaches over
the end is cut. When changing, a missing end means that one cell (for an update: as many cells as
there are updates), and a range must lie inside the notebook.

**Positions** say where to insert: before the cell that is there now. 0 is the top, -1 the end.

**Revision.** Six hexadecimal characters for a cell's type and source. It changes when they
change, and only then: running a cell does not change it.

**Text files** have one revision for the whole text, and their handle is `path@revision`:
`notes.md@9ab1c2` works wherever a path does, and guards whatever changes, renames, copies or
deletes the file. A file whose own name ends like that is still found by it. Positions and lengths
are characters (code points), whatever the file contains.

**Version.** A number for the whole document that grows with every change by anybody. It has no
meaning but its order. `undo_agent_changes(since=...)` takes one.

**Guard.** A handle says which revision you have read, and so does `if_revision`. If the cell has
another one by now, nothing in the whole call is applied. The error shows the current source and
revision, and a diff if the older text is still known. A call that is repeated because its answer
was lost is stopped by the same guard instead of being applied twice.
`batch_insert_notebook_cells` without the handle of a cell, and `undo_agent_changes`, are not
guarded: read before you repeat one of them.

**All or nothing.** A call is checked whole before anything changes, then applied in one
transaction. Indexes and positions in a call mean the notebook as it was before the call.

**Replacing text.** `old_text` is literal and must be in the cell, or the text, exactly once.
Several replacements in one cell, in one call, are made in order. The edit that reaches the room is
minimal whichever way you write it: people's carets and the text they type at that moment stay.

**Paths** are relative to the server's root, as `list_documents` shows them. A symbolic link that
leads out of the root is refused inside Jupyter; one within it leads to the live document of its
file. Where the standalone
command is joined to several servers, `alias:path` names one of them; without an alias the first is
meant. Nothing is made or looked for under an alias that no server has; a name that has a colon
itself is written `./a:b.md`.

**Who you are.** An agent is one credential under one name. Two names with one token are two
agents, each with its own steps to undo.

**Joining.** Every tool joins the document's room by itself. An agent that does nothing for
`idle_timeout` seconds leaves it; the next call joins again. Others no longer see an agent
whose client has ended, as far as that is known: over stdio, or by the end of its session. Over
HTTP, one that has called nothing and run nothing for 45 seconds is not shown either.

**Running.** Code runs in the notebook's own kernel: the one of its Jupyter session, which is
looked up at each call, started if there is none, and never doubled. People see the star, the
output as it comes, and the count, as if one of them had pressed Shift-Enter. `exec` runs the code
cells that a call touched, in order, after the edit, and stops at the first error; it asks for the
execute level. `timeout` is how long the call waits, in seconds.

**Files on disk.** Before a call runs code, or restarts or changes a kernel, the text files and
notebooks that this agent changed are saved if they are not on disk yet: code may import or read
them. That waits up to 5 seconds. If a file cannot be saved, the code runs all the same and the
answer names the file. A file whose people have switched autosave off is not saved, and named too.

**A run** has an id and a life of its own: `queued`, `working`, `input_required`, `completed`,
`failed` or `cancelled`. A call that has waited long enough returns what there is, and the run goes
on, also if its client goes away. `get_run` waits further. The runs of all agents in a kernel are
made one after another. A cell that is asked for again while it runs, unchanged, is not run twice:
the answer is about the run that is under way. Code that fails is an answer, not an error of the
call: the run is `failed` and its error is among the outputs. It is an error of the call if the
code could not be run to its end, because the kernel died, say. What threads and tasks put out
after the end is added to the run and its cell, until the cell is run again, cleared or deleted;
the state stays as it is.

**Hints.** A tool that can run code, be it through an argument such as `exec`, is destructive and
open world: a client that asks a person before such calls asks before any code runs. A tool that is
read-only changes nothing, and one that only adds leaves what is there as it is.

**Outputs** come as a summary: printed text with its beginning and end, errors with the lines of
the user's own code, pictures as images that are scaled down. Tables of up to 20 rows come whole,
of longer ones the first rows; of wide ones as many columns as can be read. Nothing is left out
where that would save less than it takes to say so. Whatever is left out can be read page by page:
with `get_run(run_id=..., output=...)`, which the text names, or as the resource
`notebook://runs/RUN/N` of the link beside it. A data frame in full is its plain text.

**Sizes.** An answer has less than 40,000 bytes, because clients show a model no more, and never
more than 48,000 even if `max_content_length` asks for it. Where something is left out, the
*first* line says what is shown of how much and which argument goes on: `start_index`,
`start_line`, `start_position`, `offset`.

**Many runs.** Of up to eight runs an answer tells each; of more it gives the counts, what did not
complete in full, and which cells were slow, wrote to stderr, or have output or pictures.

**What you could not know.** If others changed a text since you read it, the answer to an edit of
a part of it has a diff. After a failure the answer names the variables on the line that failed, if
the kernel is idle.

**Arguments.** Their spelling may differ in case and underscores: `new_path` is `newPath`. Unknown
ones are refused, not ignored, and the error says which one was probably meant and which there are.
A list has at most 1,000 elements (`max_cells_per_call`), and no call changes more cells than that;
a path, an id or a query has at most 1,000 characters, a path at most 50 folders, and all metadata
of a call at most 1,000,000 characters. An error repeats at most 200 characters of an argument.
"""

_NOTES: Mapping[str, str] = {
    "list_notebooks": (
        "`path_prefix` is a folder or the beginning of a path. The search goes through the "
        "folders breadth first and by name; hidden files stay hidden. The first line says "
        "so if there are more."
    ),
    "get_notebook": (
        "Without a range, ids or a query, all cells. What does not fit is left out by whole cells; "
        "a single cell that is too long is read in pieces, with `start_position`. In an outline, "
        "a cell is code unless another type is named, `In[4]` has run, `6L` has six lines, and "
        "`->` lists the kinds of its outputs. Outputs come as short summaries; of up to five cells "
        "their pictures come as images. `full` leaves out metadata in which programs keep how a "
        "cell is shown and when it ran, unless `include_metadata` is set. With "
        "`query`, the matching lines of the matching cells come back, and `format` does not "
        "matter; the search ignores case. In `source` and `full`, text from the notebook stands "
        "between fences that it cannot forge."
    ),
    "create_notebook_session": (
        "Useful to show people that the agent is there before its first edit, or to learn the "
        "room id."
    ),
    "batch_update_notebook_cells": (
        "Each update names its cell with `cell_id` or `index`, or the call names all of them with "
        "`cell_ids` or a range, one update for each. What an update does not mention stays: "
        "outputs, metadata, attachments. A new `cell_type` drops what the type cannot hold, such "
        "as the outputs of a code cell that becomes Markdown. `metadata` sets the given keys; "
        "null removes one. If `old_text` is not in the cell but in exactly one other, the error "
        "names that one."
    ),
    "batch_insert_notebook_cells": (
        "Give one of `start_position`, `positions` and `after_cell_id`, or none for the end. "
        "Cells with the same position keep the order in which they are given. In a notebook "
        "with nothing but the empty cell that Jupyter made, the first one fills that cell."
    ),
    "batch_delete_notebook_cells": (
        "With `if_revision`, one revision for each cell, in the same order. With `exec`, the code "
        "cells are run first, and nothing is deleted unless all of them ran to their end within "
        "30 seconds."
    ),
    "list_documents": (
        "Without `path_filter` and `file_type`, one folder with the folders in it. With one of "
        "them, all files below the folder that fit: `path_filter` is a part of the path, in upper "
        "or lower case, or a glob (`*.md`, `reports/*`); `file_type` is `notebook`, `file`, "
        "`text`, `markdown`, `python`, `directory` and the like, or an ending. The search is "
        "breadth first and by name. Hidden and checkpoint folders are left out."
    ),
    "get_document": (
        "What does not fit in `max_content_length` is cut after a whole line where that is "
        "possible, and `next_position` says where to go on. Lines are counted from 1 and "
        "`end_line` is included, as editors have it. A file that is not UTF-8 text, or has more "
        "than 10 MB, is refused with its size and type. The live text has `\\n` as its line end "
        "whatever the file has."
    ),
    "create_document_session": (
        "Useful to show people that the agent is there before its first edit, or to learn the "
        "room id. `file_type` is found out; it is there for the sake of callers that give it."
    ),
    "batch_update_document": (
        "An operation is either `old_text` and `new_text`, or `content` with a `position` and a "
        "`length`. Positions count characters (code points) of the text before the call, and so "
        "does a match of `old_text`. Operations that overlap, or are out of range, refuse the "
        "whole call. Several insertions at one position keep their order. The answer says where "
        "each operation stands now."
    ),
    "batch_insert_text": "The same as `batch_update_document` with `content` and `position`.",
    "batch_delete_text": (
        "The same as `batch_update_document` with an empty `content` and a `length`."
    ),
    "create_document": (
        "A notebook gets the ending `.ipynb` and the server's default kernel, or `kernel`. Its "
        "`content` is a notebook as JSON, or code in which a line `# %%` begins a cell, and "
        "`# %% [markdown]` one of text, commented out or not. `template` is the path of "
        "a document that is there; of a notebook the outputs are left out. Folders on the way are "
        "made and named in the answer. With `overwrite`, a text file that is open is changed in "
        "its room, so that people see it and the agent can undo it."
    ),
    "get_document_info": (
        "The `content` of a text is its live text, of a notebook an outline, of a folder the names "
        "in it; cut to `max_content_length`, and left out for what is not text. `format` is "
        "`text`, `json` or `base64`, as Jupyter has it."
    ),
    "delete_document": (
        "A folder that is not empty needs `recursive=true`, and one that holds files which agents "
        "may not see is refused. Through the extension, people who have the document open are told "
        "in a dialog."
    ),
    "rename_document": (
        "The room stays: its people, what they type and what is unsaved are in the document with "
        "the new path, and a notebook keeps its kernel. What is at `newPath` is never overwritten. "
        "A notebook that becomes a text by its new ending, or the reverse, leaves its room; while "
        "people are in it, that is refused with `in_use`."
    ),
    "copy_document": (
        "What is open is saved first. Large and binary files are copied by the server, not read. "
        "`notices` says what a copy of a folder on a server elsewhere may lack."
    ),
    "document_exists": "A path that agents may not see is refused, not answered.",
    "execute_notebook_cell": (
        "A cell without code is refused with `not_code`. With `if_revision`, the cell runs only if "
        "it still says what the agent has read."
    ),
    "batch_execute_notebook_cells": (
        "In a range, cells without code are passed over; a cell that is named must be a code cell. "
        "After an error the rest is `cancelled` and keeps the outputs it had, unless "
        "`stop_on_error` is false."
    ),
    "get_notebook_status": (
        "A kernel can be busy for a person: then `busy_for` is `somebody else`, and the cells with "
        "a star are named. `last_modified` is the file's."
    ),
    "restart_notebook_kernel": (
        "Runs that are under way end with `kernel_lost`. With `clear_outputs`, the outputs of all "
        "cells are cleared; with `exec`, all code cells are run afterwards."
    ),
    "interrupt_notebook_kernel": (
        "What a person started is left alone unless `force` is set. Code that goes on all the same "
        "is reported as `interrupt_ignored`; only a restart ends it."
    ),
    "list_kernels": "Kernels of documents that agents may not see are left out.",
    "change_notebook_kernel": "The notebook's metadata name the new kernel, as JupyterLab does it.",
    "clear_notebook_outputs": (
        "Cells that are running are passed over, or refused if they are named. It can be taken "
        "back with `undo_agent_changes`, as long as the cells have not been run again."
    ),
    "run_code": (
        "It runs in the people's kernel and can change their variables. It leaves no count and no "
        "history. Its full output is kept with the run."
    ),
    "get_run": (
        "The last 100 runs are remembered, until the server restarts. With `output`, the answer is "
        "a page of that output; `offset` in the answer says where the next one begins."
    ),
    "reply_to_input": (
        "A question for a password is never passed on to an agent: the run ends with "
        "`secret_refused`. A question that nobody answers ends after `input_timeout` seconds."
    ),
    "inspect_variables": (
        "Python kernels only. It binds no name, bumps no counter and calls nothing of the user's: "
        "objects of unknown classes are named, not printed. Data comes first, functions and "
        "classes after it."
    ),
    "list_servers": (
        "Only in the standalone command; inside Jupyter there is one server, its own. Each server "
        "is asked, and `state` is `ok` or the code of what is wrong with it. `root` is the "
        "directory that a server of this machine serves, if it was found or started."
    ),
    "connect_server": (
        "The alias must be free, and the server not connected yet under any address. A server "
        "that cannot be reached, refuses the token or is no Jupyter is refused with an error that "
        "says so. Which token is sent and what may be done there: "
        "[security](security.md#the-standalone-command)."
    ),
    "disconnect_server": "Runs go on in their kernels, but are not followed any more.",
    "move_notebook_cells": (
        "The cells come to stand together, in the order given. Give `to_index` or "
        "`after_cell_id`. A moved cell keeps its id, outputs and metadata."
    ),
    "undo_agent_changes": (
        "One step is one call of this agent that changed this document; the last 200 are kept. "
        "With `since`, all steps after that version, and `steps` does not matter. Where others "
        "wrote inside the agent's text, or edited a cell that it inserted, the call is refused "
        "with the diff. `force=true` goes on: every character of the others stays, an inserted "
        "cell that they edited stays whole, and the rest is taken back. An undo cannot be undone, "
        "and the steps are gone after a restart of the server."
    ),
}

_ANSWERS = """\
## Answers

An answer is a text made for a model, with images and links as blocks of their own. A connection
that asks for it (`?structured=true`, the setting `structured`, `--structured`) also gets the same
facts as `structuredContent`. Others do not: the clients that people use most show a model that
JSON *instead of* the text and the pictures. Neither repeats what the caller sent. Facts about a
notebook or a text file are:

| fact | meaning |
| --- | --- |
| `path`, `version` | the document, and its version after the call |
| `saved` | true if the file has everything that the room has; missing, or false, if not yet |
| `cells` | the cells that were read or touched, each with `index`, `id` and `revision` |
| `cell_count`, `next_index` | how many cells there are; where a cut answer goes on |
| `revision`, `length`, `line_count` | of a text file, whose characters are counted |
| `content`, `start_position`, `next_position` | what was read, from where, and where to go on |
| `operations` | where each operation of an edit stands now: `position`, `length`, `line` |
| `deleted`, `removed` | ids of cells that are gone |
| `steps`, `left` | calls that were taken back; calls that could still be |
| `runs` | runs of the call: `run_id`, `state`, `cell_id`, `execution_count`, `seconds`, `outputs` |
| `outputs` | of a run: `type`, `kind`, the `text` as shown, and `uri` where that is not all |
| `kernel` | `name`, `id` and `state` of the notebook's kernel |
| `mode` | `file` where a server has no live collaboration and its files are used |
| `collaboration` | `room_id`, and `people`: who else is in the room |
| `others` | what others changed since this agent last looked, while it is in the room |
| `notices` | what should be said once, such as where edits were kept after a crash |

An answer to an edit means: the room has it, and it would survive a crash of the server. `saved` is
a separate fact, and there it says whether the file has what this agent wrote. Jupyter saves about a
second after the last change. Where output or typing postpones that, an edit is saved after some
seconds all the same.
"""

_ERRORS_HEAD = """\
## Errors

A refused or failed call is a result with `isError` set. Its text begins with the code, says what
happened and what is true now, and ends with `Next:` and one step. `structuredContent.error` has
`code`, `message`, `next_step` and what belongs to the code, such as `revision` and `source` with
`stale_revision`. An unknown tool is a protocol error (-32602), as MCP wants it;
its message names the tool that was probably meant.

| code | meaning |
| --- | --- |
"""

#: Where the tree in errors.py says no more than the name does.
_ERROR_MEANINGS: Mapping[str, str] = {
    "document_not_found": "there is nothing at that path",
    "nothing_to_undo": "this agent has no step left in this document",
}


def tools_reference() -> str:
    """docs/tools.md."""
    tools = _tools()
    toolsets = ", ".join(f"`{toolset.name}`" for toolset in TOOLSETS)
    parts = [
        _GENERATED,
        "# Tools",
        "What an agent can do. Toolsets: "
        f"{toolsets}; `core` cuts across them and is the lean choice for small contexts; `all` is "
        "everything. They are chosen by [configuration](configuration.md) for everybody, and "
        "narrowed for one connection by `?toolsets=` in its address.",
        _tool_table(tools, "#"),
        _RULES.rstrip(),
        "## Reference",
        *(_tool(tool) for tool in tools),
        _ANSWERS.rstrip(),
        _ERRORS_HEAD + "\n".join(f"| `{code}` | {said} |" for code, said in _error_rows()),
    ]
    return "\n\n".join(parts) + "\n"


def configuration_reference() -> str:
    """docs/configuration.md."""
    parts = [
        _CONFIGURATION_HEAD,
        "## For both",
        _configuration_table("extension", "command"),
        "## For the extension",
        "Inside Jupyter only: from outside a server these cannot be decided.",
        _configuration_table("extension"),
        "## For the command",
        _configuration_table("command"),
        _CONFIGURATION_NOTES.rstrip(),
    ]
    return "\n\n".join([_GENERATED, *parts]) + "\n"


_CONFIGURATION_HEAD = """\
# Configuration

The extension and the standalone command have the same settings, under the same names:

| where | how | a list |
| --- | --- | --- |
| the extension | `c.JupyterCollaborationMCP.denied_paths = [...]` | `["private/*", "*.env"]` |
| the command | `--denied-paths 'private/*'` | the option once for each element |
| the environment of both | `JUPYTER_COLLABORATION_MCP_DENIED_PATHS` | `private/*,*.env`, or JSON |

Configuration and options win over the environment, and the environment over the defaults. Switches
are `--structured` and `--no-structured`, in the environment `true` and `false`. An empty variable
counts as unset.

**The extension** is configured in `jupyter_server_config.py`, in `jupyter_server_config.json`, or
on Jupyter's command line as `--JupyterCollaborationMCP.<name>=...`. A
`jupyter_collaboration_mcp_config.py` beside them works too: `jupyter collaboration-mcp
--generate-config` writes one with all settings at their defaults, and `--help-all` shows them.
(`jupyter server --help-all` shows Jupyter's own settings only: it ends before it loads any
extension.)

**Mistakes are refused.** With a setting or a variable that does not exist or makes no sense, the
extension is not loaded, and one line of Jupyter's log says why; Jupyter itself goes on. The command
ends with such a line and exit code 2. A variable of the other front door is ignored."""

_CONFIGURATION_NOTES = """\
**Paths** are globs on paths relative to the root, with `*`, `?` and `[...]`. A `*` also matches
`/`, so `private/*` means everything below `private`. Capitals count. A denied path wins over an
allowed one. Both refuse a path before anything is opened, and hide it from `list_notebooks`. In the
command they hold on every server, also on those that an agent connects later; an alias is no part
of a path. From outside, a symbolic link looks like a file, so there the rules hold for the link's
own path only.

**Levels** are `read`, `write`, `execute` and `admin`; each includes those before it. Only
`connect_server` and `disconnect_server` of the standalone command need `admin`. An agent with
`write` must pass `exec=false` to updates and inserts, where the default asks for `execute`. In the
command, `--permission read --permission work=write` gives one server a level of its own; in the
environment that is `read,work=write`.

**Toolsets.** The standalone command has one more, `server`, which makes no sense inside a server.

**Output.** A run may print more than a notebook should hold. The first `max_stream_size`
characters stay in it, with a line that names the size and the address of the whole, which is put
aside in Jupyter's data directory until it is `aside_age` old or more than `aside_total` is there.

**The journal** holds the text of unsaved edits; see [security](security.md#the-journal). Each
root directory has a folder of its own in `journal_dir`, so servers may share it.

**The log** of Jupyter has the URL of the endpoint at the start, and one line for each call that can
change or run something: who (the agent's name and a hash of its credential), which tool, on which
path, how it ended, and how long it took. It has no token, no code and no text of documents. The
standalone command writes the same lines to stderr.

## One connection

The address of a connection can narrow what is configured, and never widen it:

| parameter | meaning |
| --- | --- |
| `?toolsets=` | toolsets for this connection, comma-separated |
| `?permission=` | the most that this connection may do |
| `?agent=` | the agent's name; else `agent_name`, else the MCP client's own name, else "Agent" |

For example `/mcp?toolsets=core&permission=read&agent=Ada`. A URL with any other parameter, with an
unknown level or toolset, or with an empty one, is refused with status 400: a misspelt limit would
be none.

## An example

```python
c = get_config()  # noqa: F821

c.JupyterCollaborationMCP.permission = "write"
c.JupyterCollaborationMCP.toolsets = "core"
c.JupyterCollaborationMCP.allowed_paths = ["projects/*"]
c.JupyterCollaborationMCP.denied_paths = ["projects/private/*"]
```
"""


def upstream_reference() -> str:
    """docs/upstream.md."""
    rows = [
        f"| [`{each.name}`](#{each.name}) | {each.package} | {_cell(each.without)} |"
        for each in WORKAROUNDS
    ]
    table = "\n".join(["| name | package | without it |", "| --- | --- | --- |", *rows])
    parts = [_UPSTREAM_HEAD, table, *(_workaround(each) for each in WORKAROUNDS)]
    return "\n\n".join([_GENERATED, *parts]) + "\n"


def _workaround(workaround: type[Workaround]) -> str:
    """One section of docs/upstream.md."""
    patches = "; ".join(f"`{what}`" if "`" not in what else what for what in workaround.patches)
    facts = [
        f"- **Package:** {workaround.package}",
        f"- **Reported:** {f'<{workaround.issue}>' if workaround.issue else 'not yet'}",
        f"- **Replaces or relies on:** {patches}",
        f"- **Applied at:** {workaround.stage}",
        f"- **Can be switched off:** {'yes' if workaround.optional else 'no'}",
    ]
    if workaround.trap:
        facts.insert(0, f"- **In comments:** {workaround.trap}")
    said = f"{workaround.fault} Without the workaround, {workaround.without}."
    return "\n\n".join([f"## {workaround.name}", said, "\n".join(facts)])


_UPSTREAM_HEAD = """\
# Workarounds for other packages

Inside Jupyter we work around faults of the packages below us, for people's edits as well as for
those of agents. Most of these replace methods of other packages, which a minor release may change.
So each workaround is checked when the server starts: whether the attributes and signatures that it
relies on are still there. One that does not fit is left out, and documents load and save as that
release does it. Jupyter's log then has a warning that names what is weaker, and
`jupyter collaboration-mcp doctor` shows it.

`c.JupyterCollaborationMCP.disabled_workarounds = ["..."]` leaves workarounds out. That helps to
find out whether one of them is the cause of a problem, or whether a new release needs it no longer.
Each has a test in `tests/backends/upstream` which also fails when the fault is gone without it:
then the workaround can go, too. With `--log-level=DEBUG` the log lists all of them at the start.

With jupyter-collaboration 5.1 or newer the extension does not load at all, and a line in the log
says so."""


def readme(current: str) -> str:
    """README.md with its two tables made anew; the rest is written by hand."""
    current = _between(current, "tools", _tool_table(_tools(), "docs/tools.md#"))
    return _between(current, "configuration", _configuration_table("extension", "command"))


def generated() -> dict[Path, str]:
    """All files with generated parts, and what should stand in them."""
    front = REPOSITORY / "README.md"
    return {
        REPOSITORY / "docs" / "tools.md": tools_reference(),
        REPOSITORY / "docs" / "configuration.md": configuration_reference(),
        REPOSITORY / "docs" / "upstream.md": upstream_reference(),
        front: readme(front.read_text()),
    }


def main() -> None:
    for path, content in generated().items():
        path.write_text(content)


# -- tools -----------------------------------------------------------------------------------


def _tools() -> list[RegisteredTool]:
    # The tools are only described, never called: they need no rooms.
    async def connect(url: str, alias: str | None) -> Site:
        raise NotImplementedError

    return all_tools(Parts(Sites(), None, Standalone(connect)))


def _tool_table(tools: Iterable[RegisteredTool], link: str) -> str:
    rows = [
        f"| [`{tool.name}`]({link}{tool.name}) | {_first_sentence(tool.description)} "
        f"| {tool.declaration.level.name} | {'yes' if tool.declaration.core else ''} |"
        for tool in tools
    ]
    return "\n".join(["| tool | what it does | level | core |", "| --- | --- | --- | --- |", *rows])


def _tool(tool: RegisteredTool) -> str:
    declaration = tool.declaration
    toolsets = f"`{tool.toolset}`" + (", `core`" if declaration.core else "")
    parts = [
        f"### {tool.name}",
        f"**{declaration.title}.** Level: {_levels(declaration)}. Toolsets: {toolsets}. "
        f"Hints: {_hints(declaration.annotations)}.",
        f"> {tool.description}",
        _parameters(tool.schema),
    ]
    for name, item in _nested(tool.schema):
        parts += [f"Each of `{name}`:", _parameters(item)]
    if tool.name in _NOTES:
        parts.append(_NOTES[tool.name])
    return "\n\n".join(parts)


def _levels(declaration: Declaration) -> str:
    needed, most = declaration.level, declaration.up_to
    return needed.name if most is needed else f"{needed.name}, and {most.name} with `exec`"


def _hints(annotations: Any) -> str:
    if annotations.read_only_hint:
        return "read-only"
    hints = ["destructive" if annotations.destructive_hint else "only adds"]
    if annotations.idempotent_hint:
        hints.append("idempotent")
    if annotations.open_world_hint:
        hints.append("open world")
    return ", ".join(hints)


def _parameters(schema: Mapping[str, Any]) -> str:
    required = schema.get("required", ())
    rows = [
        f"| `{name}` | {_type(value)} | {_default(name, value, required)} "
        f"| {_cell(str(value.get('description', '')))} |"
        for name, value in schema["properties"].items()
    ]
    head = ["| parameter | type | default | description |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows])


def _nested(schema: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The parameters that are lists of objects, and what is in one."""
    for name, value in schema["properties"].items():
        item = value.get("items", {})
        if "properties" in item:
            yield name, item


def _type(value: Mapping[str, Any]) -> str:
    if "enum" in value:
        return " or ".join(f"`{choice}`" for choice in value["enum"])
    kinds = value["type"] if isinstance(value["type"], list) else [value["type"]]
    said = " or ".join(f"list of {_plural(value['items'])}" if k == "array" else k for k in kinds)
    bounds = [
        f"{word} {value[key]:,}"
        for key, word in (("minimum", "at least"), ("maximum", "at most"))
        if key in value
    ]
    return ", ".join([said, *bounds])


def _plural(item: Mapping[str, Any]) -> str:
    kinds = item["type"] if isinstance(item["type"], list) else [item["type"]]
    return " or ".join(f"{kind}s" for kind in kinds)


def _default(name: str, value: Mapping[str, Any], required: Sequence[str]) -> str:
    if name in required:
        return "required"
    return f"`{json.dumps(value['default'])}`" if "default" in value else ""


# -- errors ----------------------------------------------------------------------------------


def _error_rows() -> Iterator[tuple[str, str]]:
    """Each code that a call can get, in the order of the tree in errors.py."""
    tree = errors.__doc__ or ""
    for name, said in re.findall(r"── (\w+)[ \t]*(.*)", tree):
        error: type[errors.CollaborationError] = getattr(errors, name)
        if not error.__subclasses__():
            yield error.code, _cell(_ERROR_MEANINGS.get(error.code) or said)


# -- configuration ---------------------------------------------------------------------------


def _configuration_table(*doors: Door) -> str:
    """The settings that apply to exactly these front doors."""
    rows = [
        f"| `{setting.name}` | {_shown(setting.default)} | {_cell(setting.help)} |"
        for setting in SETTINGS
        if setting.doors == doors
    ]
    return "\n".join(["| setting | default | meaning |", "| --- | --- | --- |", *rows])


def _shown(default: Value) -> str:
    """A default as configuration files spell it."""
    if default is None:
        return "none"
    if isinstance(default, Levels):
        return f"`{default.general.name!r}`"
    if isinstance(default, tuple):
        return f"`{list(default)}`"
    if isinstance(default, bool | str):
        return f"`{default!r}`"
    return f"{default:,g}" if default < 1_000_000 else f"{default:,}"


# -- text ------------------------------------------------------------------------------------


def _first_sentence(text: str) -> str:
    found = re.match(r".*?[.](?= |$)", text)
    return _cell(found[0] if found else text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _between(text: str, name: str, content: str) -> str:
    """Put content between the two comments that mark a generated part."""
    begin, end = f"<!-- generated: {name} -->", f"<!-- end: {name} -->"
    before, found, rest = text.partition(begin)
    _old, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"README.md has no part marked {begin} ... {end}")
    return f"{before}{begin}\n{content}\n{end}{after}"


if __name__ == "__main__":
    main()
