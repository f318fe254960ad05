import type { TranslationBundle } from '@jupyterlab/translation';
import { ISignal, Signal } from '@lumino/signaling';

import type { Api } from './api';
import { AgentsModel } from './model';
import { ICall, ICellDiff, IProposal, Verdict } from './protocol';
import { Refused, Unanswered } from './refused';

/** How the person is told, and asked. */
export interface IAsk {
  /**
   * Others wrote or type in the same place: whether to go on all the same. An undo keeps what they
   * wrote, in a merge the proposal wins.
   */
  force(what: 'undo' | 'merge', diffs: ICellDiff[], message: string): Promise<boolean>;
  /** Whether to go ahead. */
  confirm(title: string, message: string, button: string): Promise<boolean>;
  info(message: string): void;
  error(message: string): void;
}

/** Keeping and undoing. The server does it, by a merge: nobody's text is overwritten. */
export class Reviews {
  constructor(
    readonly api: Api,
    private _model: AgentsModel,
    private _ask: IAsk,
    private _trans: TranslationBundle
  ) {}

  /** Emitted when something begins or ends. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** What is shown may differ from now on, for another reason. */
  announce(): void {
    this._changed.emit();
  }

  /** Whether something is under way for a call. */
  isBusy(callId: string): boolean {
    return this._busy.has(callId);
  }

  keep(call: ICall, cellId?: string): Promise<boolean> {
    return this._review(call, 'keep', cellId);
  }

  undo(call: ICall, cellId?: string): Promise<boolean> {
    return this._review(call, 'undo', cellId);
  }

  /** End what the agent of a call runs; what others run in the same kernel goes on. */
  interrupt(call: ICall): Promise<boolean> {
    return this._once(call.id, async () => {
      const known = this._model.call(call.id) ?? call;
      this._model.answer(known, await this.api.interrupt(call.id));
      return true;
    });
  }

  /** Review all that agents did to a cell, newest first; stops where something cannot be undone. */
  async cell(path: string, cellId: string, verdict: Verdict): Promise<void> {
    for (const { call } of [...(this._model.openChanges(path).get(cellId) ?? [])]) {
      if (!(await this._review(call, verdict, cellId))) {
        return;
      }
    }
  }

  /**
   * Review several calls at once.
   *
   * @param seen - Those that the person has seen. What came since is left to be reviewed.
   * @param path - The document that is meant, if it is only one.
   */
  async all(verdict: Verdict, seen: readonly ICall[], path?: string): Promise<void> {
    if (!seen.length) {
      return;
    }
    await this.guard(async () => {
      const ids = new Set(seen.map(call => call.id));
      const known = new Map(
        this._model.open().flatMap(call => (ids.has(call.id) ? [[call.id, call]] : []))
      );
      const { calls, conflicts } = await this.api.reviewAll(verdict, [...ids]);
      for (const call of calls) {
        const before = known.get(call.id);
        if (before) {
          this._model.answer(before, call);
        }
      }
      const later = this._model.open(path).filter(call => !ids.has(call.id));
      const left = [
        conflicts.length &&
          this._trans._n(
            'One change was left, because others have written in it: review it by itself.',
            '%1 changes were left, because others have written in them: review them one by one.',
            conflicts.length
          ),
        later.length &&
          this._trans._n(
            'One call was left, because it came since you looked.',
            '%1 calls were left, because they came since you looked.',
            later.length
          )
      ].filter(Boolean);
      if (left.length) {
        this._ask.info(left.join(' '));
      }
    });
  }

  /** Merge a proposal, whole or only some of its cells. */
  merge(proposal: IProposal, cells?: string[]): Promise<boolean> {
    return this._once(proposal.id, async () => {
      try {
        await this.api.decide(proposal.id, 'merge', { cells });
      } catch (error) {
        if (!(error instanceof Refused) || !error.body.diffs?.length) {
          throw error;
        }
        if (!(await this._ask.force('merge', error.body.diffs, error.message))) {
          return false;
        }
        await this.api.decide(proposal.id, 'merge', { cells, force: true });
      }
      return true;
    });
  }

  async discard(proposal: IProposal): Promise<boolean> {
    const sure = await this._ask.confirm(
      this._trans.__('Discard “%1”?', proposal.title),
      this._trans.__('Everything that was proposed in it is deleted.'),
      this._trans.__('Discard')
    );
    return (
      sure &&
      this._once(proposal.id, async () => {
        await this.api.decide(proposal.id, 'discard');
        return true;
      })
    );
  }

  /** Do something, and show the person why if the server refuses. */
  async guard<T>(work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (error) {
      this._ask.error(await this._explain(error));
      return undefined;
    }
  }

  private async _explain(error: unknown): Promise<string> {
    if (error instanceof Refused) {
      return error.text;
    }
    if (!(error instanceof Unanswered)) {
      console.error(error);
      return this._trans.__('The panel failed. Reload the page and try again.');
    }
    if (error.asked) {
      return this._trans.__(
        'The server cannot be reached; nothing was changed. Try again.'
      );
    }
    return (await this._refresh())
      ? this._trans.__(
          'No answer came, so this may have been done or not: the list shows what is true now.'
        )
      : this._trans.__(
          'No answer came, so this may have been done or not: the list shows it as soon as the server can be reached.'
        );
  }

  /** Ask for all that is true now. @returns Whether it is known. */
  private async _refresh(): Promise<boolean> {
    try {
      const state = await this.api.state();
      // Unless the feed has told of more since.
      if (state.epoch !== this._model.epoch || state.seq >= this._model.seq) {
        this._model.apply(state);
      }
      return true;
    } catch {
      return false;
    }
  }

  private _review(call: ICall, verdict: Verdict, cellId?: string): Promise<boolean> {
    return this._once(call.id, async () => {
      // Between the click and now others may have reviewed it, which the feed has told.
      const known = this._model.call(call.id) ?? call;
      try {
        const more = cellId === undefined ? {} : { cell_id: cellId };
        this._model.answer(known, await this.api.review(call.id, verdict, more));
        return true;
      } catch (error) {
        if (!(error instanceof Refused)) {
          throw error;
        }
        if (error.code === 'already_reviewed') {
          this._alreadyReviewed(known, error);
          return true;
        }
        if (verdict !== 'undo' || !error.body.diffs) {
          throw error;
        }
        return this._force(known, cellId, error);
      }
    });
  }

  private _alreadyReviewed(known: ICall, error: Refused): void {
    const call = error.body.call;
    if (call) {
      this._model.answer(known, call);
    }
    this._ask.info(
      call?.reviewed_by
        ? this._trans.__('%1 was faster and has reviewed this already.', call.reviewed_by)
        : this._trans.__('This has been reviewed already.')
    );
  }

  private async _force(
    known: ICall,
    cellId: string | undefined,
    error: Refused
  ): Promise<boolean> {
    let diffs = error.body.diffs!;
    if (!diffs.length) {
      const all = await this.api.diffs(known.id, cellId);
      diffs = cellId === undefined ? all.filter(each => each.conflict) : all;
    }
    if (!diffs.length) {
      throw error; // nobody forces what they cannot read
    }
    if (!(await this._ask.force('undo', diffs, error.message))) {
      return false;
    }
    const more = { force: true, ...(cellId !== undefined && { cell_id: cellId }) };
    this._model.answer(known, await this.api.review(known.id, 'undo', more));
    return true;
  }

  /** At most one thing at a time for each call: a second click does nothing. */
  private async _once(id: string, work: () => Promise<boolean>): Promise<boolean> {
    if (this._busy.has(id)) {
      return false;
    }
    this._busy.add(id);
    this._changed.emit();
    try {
      return (await this.guard(work)) ?? false;
    } finally {
      this._busy.delete(id);
      this._changed.emit();
    }
  }

  private _busy = new Set<string>();
  private _changed = new Signal<this, void>(this);
}
