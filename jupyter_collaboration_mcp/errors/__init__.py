"""What can go wrong, reported so that an agent can continue.

    CollaborationError
    ├── InvalidArgument          the call itself is invalid
    ├── TooLarge                 the call or its result exceeds a limit
    ├── PermissionRefused        a level, an authorizer or a path rule does not allow it
    ├── AgentHeld
    │   ├── AgentPaused          a person lets the agent read only, for now
    │   └── AgentStopped         a person has stopped the agent
    ├── RateLimited              the agent calls, runs or writes too much in a short time
    ├── TooManyDocuments         the agent has too many documents open
    ├── ExecutionError
    │   ├── NotCode              the cell cannot be run, because it holds no code
    │   ├── KernelUnavailable    no such kernel, or it cannot be started or reached
    │   ├── KernelBusy           the call needs an idle kernel
    │   ├── KernelLost           the kernel died, restarted or was shut down during the run
    │   ├── InterruptIgnored     the code keeps running after an interrupt
    │   ├── RunNotFound          no such run, or too long ago
    │   ├── RunBroken            the run could not be followed to its end
    │   ├── NoInputWanted        the run is not waiting for input
    │   ├── InputMissing         code asked for input and nobody answered
    │   ├── SecretRefused        code asked for a password
    │   └── OutputGone           no such output, or no longer kept
    ├── PathError
    │   ├── PathRefused          outside the root, or not a path
    │   ├── DocumentNotFound
    │   ├── NotebookUnknown      the agent has given this name to no notebook
    │   ├── NotANotebook         a directory, a text file, ...
    │   ├── NotText              a directory, a notebook, an image, another encoding, ...
    │   ├── CorruptDocument      exists, but cannot be read as what it should be
    │   ├── ReadOnly             can be read, but not written
    │   ├── AlreadyExists        something else is there, and will not be overwritten
    │   ├── InUse                people have it open and would lose their work
    │   ├── FolderNotEmpty       deleting it would delete what is inside
    │   └── FileFailed           the server tried and failed, on a full disk, say
    ├── CellError
    │   ├── CellNotFound         no such id or index
    │   ├── AmbiguousCell        an id prefix or text that matches several cells
    │   ├── StaleRevision        the cell or text changed since the caller read it
    │   ├── StaleIndex           another cell is at that index by now
    │   ├── CellProtected        a mark of the cell forbids it to agents
    │   ├── CellBusy             a person's caret is there
    │   └── TextMismatch         the text to replace is missing, or occurs more than once
    ├── PresenceError
    │   ├── UserNotFound         nobody online has that id or name
    │   ├── AmbiguousUser        several people or agents have that name
    │   └── SessionNotFound      no such session, or it has ended
    ├── DocumentBusy             others kept changing the same cells
    ├── UndoError
    │   ├── NothingToUndo
    │   ├── StepNotFound
    │   └── UndoRefused          would remove or strand somebody else's text
    ├── HistoryError
    │   ├── UnknownVersion       the document has no such version
    │   ├── ForkNotFound         no such fork, or of another document
    │   ├── ForkRefused          not possible with a fork, or not for this caller
    │   ├── MergeConflict        both sides changed the same cells
    │   └── NeedsExtension       the server lacks our extension, which keeps the history
    ├── PanelError               what a person does in the panel cannot be done
    │   ├── NotInPanel           no such call, cell or agent
    │   ├── AlreadyReviewed      somebody was first
    │   ├── ReviewGone           the document, the cell or the step is gone
    │   ├── UndoConflict         others have changed what is to be undone
    │   ├── StillConnected       only an agent that has left can be forgotten
    │   ├── StillHeld            nor can one that is paused or stopped
    │   ├── TokenGone            a stopped agent has no token any more
    │   └── CommandAway          the command that runs for an agent is not connected
    ├── ServerError
    │   ├── ServerUnreachable    the Jupyter server does not answer
    │   ├── HubRefused           a JupyterHub refuses: scope, version, a server that does not start
    │   ├── TokenRefused         the Jupyter server does not accept the token
    │   ├── NotJupyter           something else answers at that URL
    │   ├── AnswerTooLarge       the Jupyter server sent more than the limit
    │   └── UnknownServer        no server has that alias, or one has it already
    ├── InternalError            an internal error in this server
    ├── NoCollaboration          the Jupyter server has no rooms at all
    └── RoomUnavailable          no collaboration, room gone, or the edit could not be made durable

Each error has a code, says what happened and what is true now, and names one next step.
"""

from __future__ import annotations

from .base import (
    CollaborationError,
    DocumentBusy,
    InternalError,
    InvalidArgument,
    NoCollaboration,
    PermissionRefused,
    RateLimited,
    RoomUnavailable,
    TooLarge,
    TooManyDocuments,
)
from .cells import (
    AmbiguousCell,
    CellBusy,
    CellError,
    CellNotFound,
    CellProtected,
    StaleIndex,
    StaleRevision,
    TextMismatch,
)
from .execution import (
    ExecutionError,
    InputMissing,
    InterruptIgnored,
    KernelBusy,
    KernelLost,
    KernelUnavailable,
    NoInputWanted,
    NotCode,
    OutputGone,
    RunBroken,
    RunNotFound,
    SecretRefused,
)
from .history import (
    ForkNotFound,
    ForkRefused,
    HistoryError,
    MergeConflict,
    NeedsExtension,
    NothingToUndo,
    StepNotFound,
    UndoError,
    UndoRefused,
    UnknownVersion,
)
from .panel import (
    AgentHeld,
    AgentPaused,
    AgentStopped,
    AlreadyReviewed,
    CommandAway,
    NotInPanel,
    PanelError,
    ReviewGone,
    StillConnected,
    StillHeld,
    TokenGone,
    UndoConflict,
)
from .paths import (
    AlreadyExists,
    CorruptDocument,
    DocumentNotFound,
    FileFailed,
    FolderNotEmpty,
    InUse,
    NotANotebook,
    NotebookUnknown,
    NotText,
    PathError,
    PathRefused,
    ReadOnly,
)
from .presence import (
    AmbiguousUser,
    PresenceError,
    SessionNotFound,
    UserNotFound,
)
from .servers import (
    AnswerTooLarge,
    HubRefused,
    NotJupyter,
    ServerError,
    ServerStopped,
    ServerUnreachable,
    TokenRefused,
    UnknownServer,
)

__all__ = [
    "AgentHeld",
    "AgentPaused",
    "AgentStopped",
    "AlreadyExists",
    "AlreadyReviewed",
    "AmbiguousCell",
    "AmbiguousUser",
    "AnswerTooLarge",
    "CellBusy",
    "CellError",
    "CellNotFound",
    "CellProtected",
    "CollaborationError",
    "CommandAway",
    "CorruptDocument",
    "DocumentBusy",
    "DocumentNotFound",
    "ExecutionError",
    "FileFailed",
    "FolderNotEmpty",
    "ForkNotFound",
    "ForkRefused",
    "HistoryError",
    "HubRefused",
    "InUse",
    "InputMissing",
    "InternalError",
    "InterruptIgnored",
    "InvalidArgument",
    "KernelBusy",
    "KernelLost",
    "KernelUnavailable",
    "MergeConflict",
    "NeedsExtension",
    "NoCollaboration",
    "NoInputWanted",
    "NotANotebook",
    "NotCode",
    "NotInPanel",
    "NotJupyter",
    "NotText",
    "NotebookUnknown",
    "NothingToUndo",
    "OutputGone",
    "PanelError",
    "PathError",
    "PathRefused",
    "PermissionRefused",
    "PresenceError",
    "RateLimited",
    "ReadOnly",
    "ReviewGone",
    "RoomUnavailable",
    "RunBroken",
    "RunNotFound",
    "SecretRefused",
    "ServerError",
    "ServerStopped",
    "ServerUnreachable",
    "SessionNotFound",
    "StaleIndex",
    "StaleRevision",
    "StepNotFound",
    "StillConnected",
    "StillHeld",
    "TextMismatch",
    "TokenGone",
    "TokenRefused",
    "TooLarge",
    "TooManyDocuments",
    "UndoConflict",
    "UndoError",
    "UndoRefused",
    "UnknownServer",
    "UnknownVersion",
    "UserNotFound",
]
