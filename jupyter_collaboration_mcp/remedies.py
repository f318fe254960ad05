"""What a caller can do about an error, as an intent that each toolset words with its own tools.

The layers below the tools know what would help, but not what a tool is called: the same error
reaches agents that use different names for one thing. So an error names an `Intent`, and the
toolset that was called says which tool that is. Where no toolset is in reach, as in a log, the
plain words of the intent stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class Intent(Enum):
    """Something that helps, in plain words; `{name}` stands for a fact of the error."""

    LIST_DOCUMENTS = "List the documents to see what is there."
    LIST_FOLDER = "List the folder to see what is in it."
    LIST_NOTEBOOKS = "List the notebooks to see what is there."
    NAME_NOTEBOOK = "Name a .ipynb file; list the notebooks to find one."
    READ_AS_TEXT = "Read it as a text file, or name a .ipynb file; list the notebooks to find one."
    USE_CELLS = "Read and edit its cells instead."
    USE_LISTED_PATH = "Give a path relative to the root, as the list of notebooks shows it."
    READ_OR_LIST_PARENT = "Read it, or list the folder that it is in."
    COPY_OR_ASK = "Ask the person to allow writing it, or work on a copy."
    RENAME_FIRST = "Rename it, then open it."
    SEE_CELLS = "Read the outline of the notebook to see its cells."
    LEAVE_OUT_OR_ASK = (
        "Leave these cells out of the call, or ask the person to remove the mark from the metadata."
    )
    WAIT_FOR_PERSON = "Try again later, or ask the person."
    LIST_VERSIONS = "List the versions of the document to see what is there."
    COMPARE_VERSIONS = "Compare the version with now to see which cells differ."
    READ_OUTPUTS = "Read the cell with its outputs to see what is there."
    RERUN_OR_READ_OUTPUTS = "Run the cell again, or read the outputs that are there."
    LIST_KERNELS = "List the kernels to see what is there."
    LIST_KERNELS_AND_RERUN = "List the kernels to see what is there, then run the cell again."
    CHOOSE_KERNEL = "List the kernels, and change to another one."
    CHANGE_KERNEL = "Change to one of these kernels: {kernels}."
    CHANGE_KERNEL_OR_ASK = "Change the kernel, or ask the person to look at the server's log."
    RESTART_KERNEL = "Restart the kernel; its variables are lost."
    CHECK_KERNEL = "Look at the kernel's status to see whether it is busy."
    CHECK_KERNEL_LATER = (
        "Look at the kernel's status when the server is back: the code may have run to its end."
    )
    CHECK_BEFORE_RERUN = "Look at the kernel's status, and read the cell before you run it again."
    RERUN_AND_ANSWER = "Run it again, and answer its question."
    CHECK_RUN = "Ask for the run to see its state."
    WAIT_OR_INTERRUPT = "Wait for the run, or interrupt it."
    RUN_CODE = "Run code in the kernel instead."
    RUN_OWN_CODE = "Run code in the kernel, with the means of its language."
    DISCARD_FORKS = "Merge or discard forks that are not needed any more; ask whose they are."
    LIST_FORKS = "List the forks to see what is there."
    USE_FORK = (
        "Merge it into its document, discard it, or copy it to a path; its content can be read and "
        "edited under its name."
    )
    LIST_USERS = "List who is online."
    LIST_SESSIONS = "List the active sessions."
    LEAVE_DOCUMENTS = (
        "Leave some of them; one that you do not use is left by itself after {seconds} s."
    )
    LIST_CHANGES = "List the agent's changes to see what can be undone."
    LIST_SERVERS = "List the connected servers."
    LIST_SERVERS_OR_ESCAPE = (
        "List the connected servers. If the name itself has a colon, write ./{path}"
    )
    USE_NAME = "Use the notebook under that name, or say that you reconnect."
    NAME_FIRST = "Connect the notebook under this name, or list the names that there are."
    CONNECT_OR_ASK = "Connect a server, or ask the person to start one with `jupyter lab`."


@dataclass(frozen=True, slots=True)
class Remedy:
    """An intent, and the facts that its words need."""

    intent: Intent
    facts: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.worded({})

    def worded(self, wording: Mapping[Intent, str]) -> str:
        """In the words of a toolset, or in plain words where it has none."""
        words = wording.get(self.intent, self.intent.value)
        for name, fact in self.facts.items():  # a fact may have braces of its own
            words = words.replace(f"{{{name}}}", fact)
        return words
