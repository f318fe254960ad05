"""How these toolsets word what an agent can do about an error: with the names of their tools."""

from __future__ import annotations

from collections.abc import Mapping

from ..remedies import Intent

WORDING: Mapping[Intent, str] = {
    Intent.LIST_DOCUMENTS: "Call list_documents to see what is there.",
    Intent.LIST_FOLDER: "Call list_documents to see what is in it.",
    Intent.LIST_NOTEBOOKS: "Call list_notebooks to see what is there.",
    Intent.NAME_NOTEBOOK: "Name a .ipynb file; list_notebooks shows them.",
    Intent.READ_AS_TEXT: (
        "Use get_document for text files, or name a .ipynb file; list_notebooks shows them."
    ),
    Intent.USE_CELLS: (
        "Read it with get_notebook, edit it with batch_update_notebook_cells and the like."
    ),
    Intent.USE_LISTED_PATH: "Give a path relative to the root, as list_notebooks shows it.",
    Intent.READ_OR_LIST_PARENT: (
        "Read it with get_document or get_notebook, or list the folder that it is in."
    ),
    Intent.COPY_OR_ASK: "Ask the person to allow writing it, or work on a copy (copy_document).",
    Intent.RENAME_FIRST: "Rename it with rename_document, then open it.",
    Intent.SEE_CELLS: "Call get_notebook with format=outline to see the cells.",
    Intent.LEAVE_OUT_OR_ASK: (
        "Leave these cells out of the call, or ask the person to remove the mark from the metadata."
    ),
    Intent.WAIT_FOR_PERSON: "Try again later, or ask the person.",
    Intent.LIST_VERSIONS: "Call get_document_history to see what is there.",
    Intent.COMPARE_VERSIONS: "Call diff_document_versions to see which cells differ.",
    Intent.READ_OUTPUTS: (
        "Read the cell with get_notebook(include_outputs=true) to see what is there."
    ),
    Intent.RERUN_OR_READ_OUTPUTS: (
        "Run the cell again, or read what is there with get_notebook(include_outputs=true)."
    ),
    Intent.LIST_KERNELS: "Call list_kernels to see what is there.",
    Intent.LIST_KERNELS_AND_RERUN: (
        "Call list_kernels to see what is there, then run the cell again."
    ),
    Intent.CHOOSE_KERNEL: "Call list_kernels, and change_notebook_kernel to use another one.",
    Intent.CHANGE_KERNEL: "Call change_notebook_kernel with one of: {kernels}.",
    Intent.CHANGE_KERNEL_OR_ASK: (
        "Call change_notebook_kernel, or ask the person to look at the server's log."
    ),
    Intent.RESTART_KERNEL: "Call restart_notebook_kernel; its variables are lost.",
    Intent.CHECK_KERNEL: "Call get_notebook_status to see whether it is busy.",
    Intent.CHECK_KERNEL_LATER: (
        "Call get_notebook_status when the server is back: the code may have finished."
    ),
    Intent.CHECK_BEFORE_RERUN: (
        "Call get_notebook_status, and read the cell before you run it again."
    ),
    Intent.RERUN_AND_ANSWER: "Run it again and answer with reply_to_input.",
    Intent.CHECK_RUN: "Call get_run to see its state.",
    Intent.WAIT_OR_INTERRUPT: "Wait for it with get_run, or interrupt it.",
    Intent.RUN_CODE: "Use run_code instead.",
    Intent.RUN_OWN_CODE: "Use run_code, with the language's own functions for it.",
    Intent.DISCARD_FORKS: (
        "Call list_document_forks, and discard_document_fork for those of yours that are not "
        "needed any more; ask the person about others."
    ),
    Intent.LIST_FORKS: "Call list_document_forks to see what is there.",
    Intent.USE_FORK: (
        "Use merge_document_fork, discard_document_fork, or copy_document to make a file of it."
    ),
    Intent.LIST_USERS: "Call get_online_users.",
    Intent.LIST_SESSIONS: "Call get_active_sessions.",
    Intent.LEAVE_DOCUMENTS: (
        "Call leave_session for some of them (get_active_sessions has their ids); one that you do "
        "not use is left by itself after {seconds} s."
    ),
    Intent.LIST_CHANGES: "Call list_agent_changes to see what can be undone.",
    Intent.LIST_SERVERS: "Call list_servers.",
    Intent.LIST_SERVERS_OR_ESCAPE: (
        "Call list_servers. If the name itself has a colon, write ./{path}"
    ),
    Intent.USE_NAME: "Use the notebook under that name.",
    Intent.NAME_FIRST: "Call connect_notebook, or list_notebook to see which names there are.",
    Intent.CONNECT_OR_ASK: (
        "Call connect_server, or ask the person to start one with `jupyter lab`."
    ),
}
