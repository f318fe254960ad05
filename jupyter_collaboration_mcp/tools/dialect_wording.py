"""How the dialects word what an agent can do about an error: with the names of their tools."""

from __future__ import annotations

from collections.abc import Mapping

from ..remedies import Intent
from .running import RunWords

#: What neither dialect has a tool for. People and agents with other toolsets can do it.
_WITHOUT_TOOLS: Mapping[Intent, str] = {
    Intent.LEAVE_OUT_OR_ASK: (
        "Leave these cells out of the call, or ask the person to remove the mark from the metadata."
    ),
    Intent.WAIT_FOR_PERSON: "Try again later, or ask the person.",
    Intent.LIST_VERSIONS: "Ask the person which version they mean.",
    Intent.COMPARE_VERSIONS: "Ask the person which version they mean.",
    Intent.LIST_KERNELS: "Ask the person which kernels the server has.",
    Intent.LIST_KERNELS_AND_RERUN: "Ask the person for a kernel, then run the cell again.",
    Intent.CHOOSE_KERNEL: "Ask the person to choose another kernel.",
    Intent.CHANGE_KERNEL: "Ask the person to choose one of these kernels: {kernels}.",
    Intent.CHANGE_KERNEL_OR_ASK: (
        "Ask the person to choose another kernel, or to look at the server's log."
    ),
    Intent.DISCARD_FORKS: "Ask the person which forks are not needed any more.",
    Intent.LIST_FORKS: "Ask the person which fork they mean.",
    Intent.LIST_USERS: "Ask the person who is online.",
    Intent.LIST_CHANGES: "Ask the person which changes they mean.",
    Intent.RUN_OWN_CODE: "Run code with the language's own functions for it.",
}

RTC_WORDING: Mapping[Intent, str] = {
    **_WITHOUT_TOOLS,
    Intent.LEAVE_DOCUMENTS: (
        "Call end_nb_session for some of them; one that you do not use is left by itself after "
        "{seconds} s."
    ),
    Intent.LIST_DOCUMENTS: "Call list_documents to see what is there.",
    Intent.LIST_FOLDER: "Call list_documents to see what is in it.",
    Intent.LIST_NOTEBOOKS: "Call list_nbs to see what is there.",
    Intent.NAME_NOTEBOOK: "Name a .ipynb file; list_nbs shows them.",
    Intent.READ_AS_TEXT: (
        "Use get_document_info for text files, or name a .ipynb file; list_nbs shows them."
    ),
    Intent.USE_CELLS: "Read it with read_nb_cells, edit it with modify_nb_cells and the like.",
    Intent.USE_LISTED_PATH: "Give a path relative to the root, as list_nbs shows it.",
    Intent.READ_OR_LIST_PARENT: (
        "Read it with get_document_info or read_nb_cells, or list the folder that it is in."
    ),
    Intent.COPY_OR_ASK: "Ask the person to allow writing it, or work on a copy (copy_document).",
    Intent.RENAME_FIRST: "Rename it with rename_document, then open it.",
    Intent.SEE_CELLS: "Call read_nb_cells to see the cells.",
    Intent.READ_OUTPUTS: "Ask the person to look at the cell.",
    Intent.RERUN_OR_READ_OUTPUTS: "Run the cell again with modify_nb_cells.",
    Intent.RESTART_KERNEL: "Call restart_nb_kernel; its variables are lost.",
    Intent.CHECK_KERNEL: "Call get_nb_stat to see whether it is busy.",
    Intent.CHECK_KERNEL_LATER: (
        "Call get_nb_stat when the server is back: the code may have finished."
    ),
    Intent.CHECK_BEFORE_RERUN: "Call get_nb_stat before you run the cell again.",
    Intent.RERUN_AND_ANSWER: "Run code that asks for no input.",
    Intent.CHECK_RUN: "Call get_nb_stat to see whether the kernel is busy.",
    Intent.WAIT_OR_INTERRUPT: "Wait until get_nb_stat shows an idle kernel, or restart it.",
    Intent.RUN_CODE: "Insert a cell with insert_nb_cells instead.",
    Intent.USE_FORK: "Use copy_document to make a file of it.",
    Intent.LIST_SESSIONS: "Call query_nb_sessions.",
    Intent.LIST_SERVERS: "Call list_nbs to see the servers before the colons of paths.",
    Intent.LIST_SERVERS_OR_ESCAPE: (
        "Call list_nbs to see the servers. If the name itself has a colon, write ./{path}"
    ),
    Intent.USE_NAME: "Use the notebook by its path.",
    Intent.NAME_FIRST: "Use the notebook by its path.",
    Intent.CONNECT_OR_ASK: "Ask the person to start a server with `jupyter lab`.",
}

CONNECT_WORDING: Mapping[Intent, str] = {
    **_WITHOUT_TOOLS,
    Intent.LEAVE_DOCUMENTS: "Wait: one that you do not use is left by itself after {seconds} s.",
    Intent.LIST_DOCUMENTS: "Check the path, or call connect_notebook with mode=create.",
    Intent.LIST_FOLDER: "Give the path of a .ipynb file.",
    Intent.LIST_NOTEBOOKS: "Call list_notebook to see what is connected.",
    Intent.NAME_NOTEBOOK: "Give the path of a .ipynb file.",
    Intent.READ_AS_TEXT: "Give the path of a .ipynb file; text files can be read by code.",
    Intent.USE_CELLS: "Read its cells with list_cell and read_cell.",
    Intent.USE_LISTED_PATH: "Give a path relative to the server's root.",
    Intent.READ_OR_LIST_PARENT: "Connect to it with mode=connect, or choose another path.",
    Intent.COPY_OR_ASK: "Ask the person to allow writing it, or to copy it.",
    Intent.RENAME_FIRST: "Ask the person to rename it, then connect it.",
    Intent.SEE_CELLS: "Call list_cell to see the cells.",
    Intent.READ_OUTPUTS: "Call read_cell to see what is there.",
    Intent.RERUN_OR_READ_OUTPUTS: "Call execute_cell again, or read_cell to see what is there.",
    Intent.RESTART_KERNEL: "Call restart_notebook; its variables are lost.",
    Intent.CHECK_KERNEL: "Call list_notebook to see whether it is busy.",
    Intent.CHECK_KERNEL_LATER: (
        "Call list_notebook when the server is back: the code may have finished."
    ),
    Intent.CHECK_BEFORE_RERUN: "Call list_notebook and read_cell before you run the cell again.",
    Intent.RERUN_AND_ANSWER: "Run code that asks for no input.",
    Intent.CHECK_RUN: "Call read_cell to see the cell's output so far.",
    Intent.WAIT_OR_INTERRUPT: "Wait until list_notebook shows an idle kernel, or restart it.",
    Intent.RUN_CODE: "Use execute_temporary_cell instead.",
    Intent.USE_FORK: "Ask the person to merge it.",
    Intent.LIST_SESSIONS: "Call list_notebook.",
    Intent.LIST_SERVERS: "Call list_notebook to see the servers.",
    Intent.LIST_SERVERS_OR_ESCAPE: (
        "Give server_url instead. If the name itself has a colon, write ./{path}"
    ),
    Intent.USE_NAME: "Use it under that name, or give mode=reconnect.",
    Intent.NAME_FIRST: "Call connect_notebook first; list_notebook shows the names.",
    Intent.CONNECT_OR_ASK: (
        "Call connect_notebook with a server_url, or ask the person to start a server with "
        "`jupyter lab`."
    ),
}

#: How a proposal reaches the document: neither dialect has a tool for it.
MERGING = "an agent with the default tools can show and merge it if they agree."

RTC_RUNS = RunWords(
    whole="{uri}",
    working="get_nb_stat shows whether it still runs, restart_nb_kernel stops it.",
    queued="get_nb_stat shows what runs, restart_nb_kernel stops it.",
    asking="Nobody can answer with these tools; restart_nb_kernel stops it.",
    waiting="get_nb_stat shows whether the kernel is busy.",
)

CONNECT_RUNS = RunWords(
    whole="{uri}",
    working="read_cell shows its output as it comes, restart_notebook stops it.",
    queued="list_notebook shows what runs, restart_notebook stops it.",
    asking="Nobody can answer with these tools; restart_notebook stops it.",
    waiting="read_cell shows its output once it runs.",
)
