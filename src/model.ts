import { ISignal, Signal } from '@lumino/signaling';

import {
  IAgent,
  ICall,
  ICellChange,
  IEvent,
  IProposal,
  IState,
  Level,
  Message
} from './protocol';

/** Keep as many calls as the server does, and every call with something left to review. */
export const MAX_CALLS = 500;

/** A change that nobody has reviewed yet, and its call. */
export interface IOpenChange {
  call: ICall;
  change: ICellChange;
}

/** Whether a person can let an agent go on, which is paused or stopped. */
export function mayReturn(agent: IAgent): boolean {
  return agent.state !== 'active' && agent.can_return !== false;
}

/** Whether an agent can be taken off the list. */
export function mayForget(agent: IAgent): boolean {
  return !agent.connected && (agent.state === 'active' || agent.can_return === false);
}

/** What is known of the agents. Knows neither how it is learnt nor how it is shown. */
export class AgentsModel {
  /** Emitted after each message, with its events; without any, everything may have changed. */
  get changed(): ISignal<this, readonly IEvent[]> {
    return this._changed;
  }

  /** Those with something under way first, then by name. */
  get agents(): IAgent[] {
    const rank = (agent: IAgent): number => (agent.connected ? 0 : 1);
    return [...this._agents.values()].sort(
      (a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name)
    );
  }

  /** Newest first. */
  get calls(): ICall[] {
    this._sorted ??= [...this._calls.values()].sort((a, b) => b.began - a.began);
    return this._sorted;
  }

  /** Newest first. */
  get proposals(): IProposal[] {
    return [...this._proposals.values()].sort(
      (a, b) => (b.created ?? 0) - (a.created ?? 0)
    );
  }

  get epoch(): string {
    return this._epoch;
  }

  get seq(): number {
    return this._seq;
  }

  /** The most that an agent token may be given. */
  get permission(): Level {
    return this._permission;
  }

  /** Whether this person may review. */
  get mayReview(): boolean {
    return this._mayReview;
  }

  /** A number that grows whenever something that is to be reviewed changes. */
  get reviewRevision(): number {
    return this._reviewRevision;
  }

  get connected(): boolean {
    return this._connected;
  }
  set connected(connected: boolean) {
    if (connected !== this._connected) {
      this._connected = connected;
      this._changed.emit([]);
    }
  }

  agent(id: string): IAgent | undefined {
    return this._agents.get(id);
  }

  call(id: string): ICall | undefined {
    return this._calls.get(id);
  }

  proposal(id: string): IProposal | undefined {
    return this._proposals.get(id);
  }

  /** Calls with something left to review, newest first; those of one document, if it is given. */
  open(path?: string): ICall[] {
    this._open ??= this.calls.filter(call =>
      call.cells.some(change => change.review === 'open')
    );
    return path === undefined
      ? this._open
      : this._open.filter(call => call.path === path);
  }

  /** What is left to review in a document, by cell; the newest first for each. */
  openChanges(path: string): Map<string, IOpenChange[]> {
    let byCell = this._openChanges.get(path);
    if (!byCell) {
      byCell = new Map();
      for (const call of this.open(path)) {
        for (const change of call.cells) {
          if (change.review === 'open') {
            const known = byCell.get(change.cell_id);
            if (known) {
              known.push({ call, change });
            } else {
              byCell.set(change.cell_id, [{ call, change }]);
            }
          }
        }
      }
      this._openChanges.set(path, byCell);
    }
    return byCell;
  }

  /** How many cells are left to review: in a document, or in all. */
  openCount(path?: string): number {
    if (path !== undefined) {
      return this.openChanges(path).size;
    }
    const paths = new Set(this.open().map(call => call.path));
    let count = 0;
    for (const each of paths) {
      count += each === null ? 0 : this.openChanges(each).size;
    }
    return count;
  }

  /** The server's time, by its own clock. */
  now(): number {
    return Date.now() - (Number.isFinite(this._ahead) ? this._ahead : 0);
  }

  apply(message: Message): void {
    if (message.kind === 'state') {
      this._reset(message);
      this._changed.emit([]);
    } else if (message.kind === 'events') {
      this._emit(message.events.filter(event => this._take(event)));
    } else {
      // A delay only makes the difference greater: the smallest is the nearest.
      this._ahead = Math.min(this._ahead, Date.now() - message.time);
      this._emit(this._take(message) ? [message] : []);
    }
  }

  /** Take an answer about a call, unless the feed has told about it since `known`. */
  answer(known: ICall, answered: ICall): void {
    if (this._calls.get(known.id) === known) {
      this._put(answered);
      this._changed.emit([]);
    }
  }

  private _emit(events: IEvent[]): void {
    if (events.length) {
      this._changed.emit(events);
    }
  }

  private _reset(state: IState): void {
    this._epoch = state.epoch;
    this._seq = state.seq;
    this._permission = state.permission;
    this._mayReview = state.review;
    this._agents = new Map(state.agents.map(agent => [agent.id, agent]));
    this._calls = new Map(state.calls.map(call => [call.id, call]));
    this._proposals = new Map(state.proposals.map(proposal => [proposal.id, proposal]));
    this._forget(true);
  }

  /** @returns Whether it is news. */
  private _take(event: IEvent): boolean {
    if (event.epoch !== this._epoch || event.seq <= this._seq) {
      return false;
    }
    this._seq = event.seq;
    if (event.agent) {
      this._agents.set(event.agent.id, event.agent);
    }
    if (event.call) {
      this._put(event.call);
    }
    if (event.proposal) {
      this._proposals.set(event.proposal.id, event.proposal);
    }
    if (event.gone) {
      const gone = event.gone;
      if (gone.kind === 'agent') {
        this._agents.delete(gone.id);
      } else if (gone.kind === 'proposal') {
        this._proposals.delete(gone.id);
      } else {
        this._calls.delete(gone.id);
        this._forget(true);
      }
    }
    return true;
  }

  private _put(call: ICall): void {
    const before = this._calls.get(call.id);
    this._calls.set(call.id, call);
    this._forget(call.cells.length > 0 || (before?.cells.length ?? 0) > 0);
    if (!before && this._calls.size > MAX_CALLS) {
      for (const [id, old] of this._calls) {
        if (!old.cells.some(change => change.review === 'open')) {
          this._calls.delete(id);
          break;
        }
      }
    }
  }

  private _forget(reviews: boolean): void {
    this._sorted = undefined;
    if (reviews) {
      this._open = undefined;
      this._openChanges.clear();
      this._reviewRevision += 1;
    }
  }

  private _agents = new Map<string, IAgent>();
  private _ahead = Infinity;
  private _calls = new Map<string, ICall>();
  private _changed = new Signal<this, readonly IEvent[]>(this);
  private _connected = false;
  private _epoch = '';
  private _mayReview = true;
  private _open: ICall[] | undefined;
  private _openChanges = new Map<string, Map<string, IOpenChange[]>>();
  private _permission: Level = 'read';
  private _proposals = new Map<string, IProposal>();
  private _reviewRevision = 0;
  private _seq = 0;
  private _sorted: ICall[] | undefined;
}
