/** What the server says, in its words: docs/panel.md describes them. Times are milliseconds. */

/** Everything of ours on the server, below its base URL. */
export const ROOT = 'api/collaboration-mcp/panel';

export type AgentState = 'active' | 'paused' | 'stopped';

export type Level = 'read' | 'write' | 'execute' | 'admin';

export interface IAgent {
  id: string;
  name: string;
  /** As in its awareness state: the avatar in the notebook has the same colour. */
  username: string;
  color: string;
  level: Level;
  state: AgentState;
  connected: boolean;
  path: string | null;
  cell_id: string | null;
  /** In plain words, such as "editing load"; null if it is idle. */
  doing: string | null;
  /** When it began that. */
  since: number | null;
  seen: number;
  token: IAgentToken | null;
  /** False: its own token was revoked or has expired, so nobody can let it go on. */
  can_return?: boolean;
}

export interface IAgentToken {
  id: string;
  expires: number | null;
  paths: string[];
}

export type CellReview = 'none' | 'open' | 'kept' | 'undone';

export type CallReview = CellReview | 'mixed';

export type ChangeKind =
  'source' | 'inserted' | 'deleted' | 'moved' | 'type' | 'metadata' | 'outputs';

export interface ICellChange {
  /** Empty for a text file. */
  cell_id: string;
  name: string;
  changes: ChangeKind[];
  added: number;
  removed: number;
  review: CellReview;
  /** For a deleted cell: the cell that it stood after. */
  after_cell: string | null;
}

export type CallKind = 'read' | 'edit' | 'run' | 'file' | 'other';

export interface ICall {
  id: string;
  agent: string;
  tool: string;
  title: string;
  kind: CallKind;
  path: string | null;
  file_id: string | null;
  began: number;
  ended: number | null;
  summary: string;
  state: 'running' | 'done' | 'failed' | 'refused' | 'cancelled';
  error: string | null;
  review: CallReview;
  reviewed_by: string | null;
  reviewed_at: number | null;
  cells: ICellChange[];
}

/** A change with its texts, which are asked for one call at a time. */
export interface ICellDiff {
  cell_id: string;
  name: string;
  changes: ChangeKind[];
  language: string;
  before: string;
  after: string;
  /** Null: the cell is gone. */
  now: string | null;
  /**
   * What the cell would say if this change were undone now, with what people typed since. Null if
   * that removes the cell, or if nothing is left to undo.
   */
  undone: string | null;
  conflict: boolean;
  conflict_text: IConflictText | null;
  /** What is not text, in plain words. */
  notes: string[];
  review: CellReview;
}

export interface IConflictText {
  base: string;
  theirs: string;
  yours: string;
}

export interface IProposal {
  id: string;
  title: string;
  description: string;
  agent: string;
  /** Null: the document is gone. */
  path: string | null;
  created: number | null;
  cells: number;
  state: 'open' | 'merged' | 'discarded';
}

export interface IClient {
  id: string;
  name: string;
}

export interface IState {
  kind: 'state';
  epoch: string;
  seq: number;
  agents: IAgent[];
  /** Oldest first. */
  calls: ICall[];
  proposals: IProposal[];
  permission: Level;
  review: boolean;
}

export interface IEvent {
  kind: 'agent' | 'call' | 'proposal' | 'gone';
  seq: number;
  epoch: string;
  time: number;
  agent?: IAgent;
  call?: ICall;
  proposal?: IProposal;
  gone?: { kind: 'call' | 'proposal' | 'agent'; id: string };
}

export interface IEvents {
  kind: 'events';
  events: IEvent[];
}

export type Message = IState | IEvent | IEvents;

export type Verdict = 'keep' | 'undo';
