"""Which tool or argument was meant by a name that is not ours, such as one of another server."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import SequenceMatcher

#: Letters of a name that are compared.
_LONGEST = 60

#: How alike names have to be, by their words and by their letters, and how many are suggested.
_ALIKE_IN_WORDS, _ALIKE_IN_LETTERS = 0.5, 0.7
_SUGGESTED = 2

#: Names that match almost as well as the best one are suggested, too.
_AS_WELL = 0.15


#: What tools are called elsewhere.
_OTHER_TOOLS = {
    "get_notebook": "list_cells list_cell",
    "list_documents": "ls glob find_files search_files list_directory",
    "create_document": "create_notebook write_file mkdir create_folder create_directory",
    "get_document": "cat",
    "fork_document": "branch fork create_fork propose",
    "merge_document_fork": "merge merge_fork accept_proposal",
    "rename_document": "move_file move_document mv",
    "copy_document": "cp",
    "delete_document": "rm",
    "undo_agent_changes": "undo revert",
    "list_agent_changes": "list_undo undo_history list_changes list_steps",
    "get_run": "wait_for_run run_status",
    "inspect_variables": "get_variables list_variables",
    "list_kernels": "kernels",
    "get_online_users": "who list_users get_users collaborators list_collaborators",
    "get_user_activity": "history log recent_activity activity_log",
    "get_document_history": "list_versions versions get_history list_checkpoints revisions",
    "diff_document_versions": "diff compare compare_versions",
    "restore_document_version": "rollback restore restore_checkpoint revert_to_version",
    "name_document_version": "create_checkpoint checkpoint tag_version snapshot",
}

#: Words in the names of tools that mean the same.
_SAME_WORDS = {
    **dict.fromkeys(("read", "show", "view", "open", "load", "fetch"), "get"),
    **dict.fromkeys(("execute", "exec", "eval", "evaluate"), "run"),
    **dict.fromkeys(("edit", "modify", "overwrite", "replace", "write", "patch"), "update"),
    **dict.fromkeys(("add", "append"), "insert"),
    **dict.fromkeys(("remove", "erase"), "delete"),
    **dict.fromkeys(("make", "new"), "create"),
    **dict.fromkeys(("stop", "cancel"), "interrupt"),
    **dict.fromkeys(("file", "doc"), "document"),
    **dict.fromkeys(("cell", "nb", "jupyter"), "notebook"),
    "python": "code",
    "batch": "",
}

#: What arguments are called elsewhere: words in names, or whole names.
_OTHER_ARGUMENTS: Mapping[str, str] = {
    "path": "notebook file document filename filepath folder directory src from",
    "path_prefix": "folder directory dir root",
    "path_filter": "pattern glob query search filter",
    "newPath": "to target destination dest dst new_name",
    "copyPath": "to target destination dest dst new_path new_name",
    "cell_id": "id cell index cell_index uuid",
    "cell_ids": "id ids cell cells index indexes indices cell_id cell_index",
    "index": "position cell_index number",
    "content": "source code text body value new_source",
    "code": "source content text script command expression",
    "text": "content input answer reply response value",
    "old_text": "find search old before old_string old_str",
    "new_text": "replace replacement new with new_string new_str",
    "query": "search find pattern text",
    "max_results": "limit max count top n",
    "max_content_length": "limit max size",
    "timeout": "wait seconds",
    "wait": "timeout seconds",
    "exec": "execute run",
    "updates": "cells edits changes operations cell content source",
    "operations": "updates edits changes old_string old_text new_text content text",
    "cells": "cell content source code",
    "start_index": "start first begin index cell_id",
    "end_index": "end stop last",
    "start_position": "position index at offset",
    "to_index": "position index target at",
    "after_cell_id": "after",
    "start_line": "start line offset",
    "end_line": "end limit",
    "if_revision": "etag version",
    "version": "id version_id revision checkpoint to",
    "from_version": "version from old base before",
    "to_version": "to new target after",
    "format": "mode view detail",
    "type": "kind",
    "cell_type": "type kind",
    "kernel": "kernelspec language",
    "kernel_name": "kernel kernelspec name",
    "overwrite": "force replace",
    "recursive": "force",
    "steps": "count number n",
    "call_id": "step step_id call id change",
    "since": "version after",
    "agent": "user name agent_id who",
    "run_id": "id run execution_id",
    "names": "variable variables name",
    "url": "address server uri",
    "alias": "name server",
    "server_url": "url address server uri host",
    "notebook_name": "name notebook alias path",
    "notebook_path": "path file",
    "cell_index": "index cell position cell_id number",
    "cell_content": "content source code cell_source text new_source",
    "ranges": "cells indexes indices start end",
    "modifications": "updates edits changes cells",
    "clear_contents": "clear_outputs clear",
}


def closest_tools(name: str, known: Collection[str]) -> list[str]:
    """The tools that are most like `name`, best first; none if nothing is like it."""
    return _closest(name, known, _OTHER_TOOLS, _SAME_WORDS)


def closest_arguments(name: str, known: Collection[str]) -> list[str]:
    """The same for arguments."""
    return _closest(name, known, _OTHER_ARGUMENTS, {})


def _closest(
    name: str, known: Collection[str], others: Mapping[str, str], same: Mapping[str, str]
) -> list[str]:
    name = name[:_LONGEST]
    scores = {each: _likeness(name, each, others.get(each, "").split(), same) for each in known}
    best = max(scores.values(), default=0.0)
    fitting = [each for each in known if scores[each] and scores[each] >= best - _AS_WELL]
    return sorted(fitting, key=lambda each: (-scores[each], -_in_letters(name, each)))[:_SUGGESTED]


def _likeness(name: str, known: str, others: Collection[str], same: Mapping[str, str]) -> float:
    if name.casefold() in others:
        return 1.0
    words, known_words = _words(name, same), _words(known, same)
    in_words = 2 * len(words & known_words) / max(1, len(words) + len(known_words))
    if words & set(others):
        in_words = max(in_words, 0.9)
    in_letters = _in_letters(name, known)
    return max(
        in_words if in_words >= _ALIKE_IN_WORDS else 0.0,
        in_letters if in_letters >= _ALIKE_IN_LETTERS else 0.0,
    )


def _in_letters(name: str, known: str) -> float:
    return SequenceMatcher(None, name.casefold(), known.casefold()).ratio()


def _words(name: str, same: Mapping[str, str]) -> set[str]:
    """`newPath` and `new_paths` are new and path."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    words = (part.casefold() for part in parts)
    singular = (word.removesuffix("s") if len(word) > 3 else word for word in words)
    return {same.get(word, word) for word in singular} - {""}
