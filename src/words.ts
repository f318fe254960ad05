import type { TranslationBundle } from '@jupyterlab/translation';

import { CallReview, ChangeKind, IAgent, ICall, ICellChange, Level } from './protocol';

/** What people read, in their language. */
export class Words {
  constructor(readonly trans: TranslationBundle) {}

  /** How much a change adds and removes, such as "+3 −5". */
  size(changes: readonly Pick<ICellChange, 'added' | 'removed'>[]): string {
    const added = changes.reduce((sum, change) => sum + change.added, 0);
    const removed = changes.reduce((sum, change) => sum + change.removed, 0);
    return [added && `+${added}`, removed && `−${removed}`].filter(Boolean).join(' ');
  }

  /** The same for who hears it. */
  spokenSize(changes: readonly Pick<ICellChange, 'added' | 'removed'>[]): string {
    const added = changes.reduce((sum, change) => sum + change.added, 0);
    const removed = changes.reduce((sum, change) => sum + change.removed, 0);
    return [
      added && this.trans._n('%1 line added', '%1 lines added', added),
      removed && this.trans._n('%1 line removed', '%1 lines removed', removed)
    ]
      .filter(Boolean)
      .join(', ');
  }

  /** What was done to a cell, such as "edited" or "moved, tagged". */
  done(changes: readonly ChangeKind[]): string {
    const trans = this.trans;
    const words: Record<ChangeKind, string> = {
      inserted: trans.__('inserted'),
      deleted: trans.__('deleted'),
      source: trans.__('edited'),
      moved: trans.__('moved'),
      type: trans.__('type changed'),
      metadata: trans.__('metadata changed'),
      outputs: trans.__('outputs changed')
    };
    // A new cell is new whatever else was done to it.
    for (const kind of ['inserted', 'deleted'] as const) {
      if (changes.includes(kind)) {
        return words[kind];
      }
    }
    return changes.map(kind => words[kind]).join(', ');
  }

  level(level: Level): string {
    const trans = this.trans;
    return {
      read: trans.__('may read'),
      write: trans.__('may write'),
      execute: trans.__('may run code'),
      admin: trans.__('may do everything')
    }[level];
  }

  /** Seconds or longer, such as "12 s" or "2 min". */
  duration(milliseconds: number): string {
    const seconds = Math.max(0, Math.round(milliseconds / 1000));
    if (seconds < 60) {
      return this.trans.__('%1 s', seconds);
    }
    const minutes = Math.floor(seconds / 60);
    if (minutes < 60) {
      return this.trans.__('%1 min', minutes);
    }
    const hours = Math.floor(minutes / 60);
    if (hours < 48) {
      return this.trans.__('%1 h', hours);
    }
    return this.trans.__('%1 days', Math.floor(hours / 24));
  }

  /** What an agent does, or since when it is idle. */
  doing(agent: IAgent, now: number): string {
    const trans = this.trans;
    if (agent.state === 'stopped') {
      return agent.can_return === false
        ? trans.__('stopped by a person, its token is gone')
        : trans.__('stopped by a person');
    }
    const paused = agent.state === 'paused' ? trans.__('paused, reads only') : '';
    if (agent.doing) {
      const took = agent.since === null ? 0 : now - agent.since;
      const doing =
        took < 1500 ? agent.doing : trans.__('%1, %2', agent.doing, this.duration(took));
      return paused ? trans.__('%1: %2', paused, doing) : doing;
    }
    if (paused) {
      return paused;
    }
    const idle = now - agent.seen;
    if (!agent.connected) {
      return trans.__('left %1 ago', this.duration(idle));
    }
    return idle < 5000 ? trans.__('ready') : trans.__('idle for %1', this.duration(idle));
  }

  /** The same about an end that is still to come. */
  expiry(expires: number | null, now: number): string {
    if (expires === null) {
      return this.trans.__('no expiry');
    }
    return expires <= now
      ? this.trans.__('expired')
      : this.trans.__('expires in %1', this.duration(expires - now));
  }

  /** When a call began: the time of today, or the date too. */
  clock(time: number, now: number): string {
    const date = new Date(time);
    const clock = date.toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
    return date.toDateString() === new Date(now).toDateString()
      ? clock
      : `${date.toLocaleDateString()} ${clock}`;
  }

  /** What became of a call's changes, and by whom. */
  verdict(call: ICall): string {
    const trans = this.trans;
    const by = call.reviewed_by;
    const words: Record<CallReview, string> = {
      none: '',
      open: trans.__('to review'),
      kept: by ? trans.__('kept by %1', by) : trans.__('kept'),
      undone: by ? trans.__('undone by %1', by) : trans.__('undone'),
      mixed: by ? trans.__('partly undone by %1', by) : trans.__('partly undone')
    };
    return words[call.review];
  }

  /** Instead of a diff that the server does not have. */
  noDiff(): string {
    return this.trans.__('The server has no diff of this.');
  }

  /** How a call ended, where that is worth a word. */
  outcome(call: ICall): string {
    const trans = this.trans;
    return {
      running: trans.__('under way'),
      done: '',
      failed: trans.__('failed'),
      refused: trans.__('refused'),
      cancelled: trans.__('cancelled')
    }[call.state];
  }
}

/** The last part of a path, by which people know a document. */
export function fileName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/** What stands in an avatar. */
export function initials(name: string): string {
  const words = name.trim().split(/\s+/);
  const letters =
    words.length > 1
      ? [...words[0]][0] + [...words[1]][0]
      : [...name].slice(0, 2).join('');
  return letters.toUpperCase();
}
