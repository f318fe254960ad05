import type { TranslationBundle } from '@jupyterlab/translation';

import { IAgent, ICall, ICellChange, ICellDiff, IEvent, IState } from '../protocol';

export const ada: IAgent = {
  id: 'a',
  name: 'Ada',
  username: 'agent-ada',
  color: 'red',
  level: 'write',
  state: 'active',
  connected: true,
  path: 'n.ipynb',
  cell_id: null,
  doing: null,
  since: null,
  seen: 0,
  token: null
};

export function change(cellId: string, more: Partial<ICellChange> = {}): ICellChange {
  return {
    cell_id: cellId,
    name: cellId,
    changes: ['source'],
    added: 1,
    removed: 0,
    review: 'open',
    after_cell: null,
    ...more
  };
}

let began = 0;

export function call(
  id: string,
  cells: ICellChange[] = [],
  more: Partial<ICall> = {}
): ICall {
  return {
    id,
    agent: 'a',
    tool: 'batch_update_notebook_cells',
    title: 'Update cells',
    kind: 'edit',
    path: 'n.ipynb',
    file_id: null,
    began: ++began,
    ended: began,
    summary: 'edited a cell',
    state: 'done',
    error: null,
    review: cells.length ? 'open' : 'none',
    reviewed_by: null,
    reviewed_at: null,
    cells,
    ...more
  };
}

export function state(more: Partial<IState> = {}): IState {
  return {
    kind: 'state',
    epoch: 'e',
    seq: 3,
    agents: [ada],
    calls: [],
    proposals: [],
    permission: 'admin',
    review: true,
    ...more
  };
}

export function event(seq: number, more: Partial<IEvent> = {}): IEvent {
  return { kind: 'call', seq, epoch: 'e', time: 0, agent: ada, ...more };
}

export function diff(cellId: string, more: Partial<ICellDiff> = {}): ICellDiff {
  return {
    cell_id: cellId,
    name: cellId,
    changes: ['source'],
    language: 'python',
    before: '',
    after: '',
    now: '',
    undone: '',
    conflict: false,
    conflict_text: null,
    notes: [],
    review: 'open',
    ...more
  };
}

/** English as it is written in the code. */
export const english = {
  __: (text: string, ...values: unknown[]) => fill(text, values),
  _n: (one: string, many: string, count: number, ...values: unknown[]) =>
    fill(count === 1 ? one : many, [count, ...values])
} as unknown as TranslationBundle;

function fill(text: string, values: unknown[]): string {
  return text.replace(/%(\d)/g, (_, number) => String(values[Number(number) - 1]));
}
