import { describe, expect, it } from 'vitest';

import { AgentsModel, MAX_CALLS, mayForget, mayReturn } from '../model';
import { ada, call, change, event, state } from './samples';

function model(...calls: ReturnType<typeof call>[]): AgentsModel {
  const made = new AgentsModel();
  made.apply(state({ calls }));
  return made;
}

describe('the model', () => {
  it('has the newest call first, whenever it heard of it', () => {
    const old = call('old');
    const made = model(call('1'));
    made.apply(event(4, { call: call('2') }));
    made.apply(event(5, { call: old }));
    expect(made.calls.map(each => each.id)).toEqual(['2', '1', 'old']);
  });

  it('takes an event only once, and tells of several at once', () => {
    const made = model();
    const heard: number[][] = [];
    made.changed.connect((_, events) => heard.push(events.map(each => each.seq)));
    const missed = [3, 4, 5, 5].map(seq => event(seq, { call: call(`c${seq}`) }));
    made.apply({ kind: 'events', events: missed });
    made.apply(missed[1]);
    expect(heard).toEqual([[4, 5]]);
    expect(made.seq).toBe(5);
    expect(made.call('c3')).toBeUndefined();
  });

  it('forgets what another start of the server said', () => {
    const made = model(call('1', [change('x')]));
    made.apply(state({ epoch: 'f', seq: 1 }));
    expect([made.calls, made.openCount(), made.seq]).toEqual([[], 0, 1]);
    made.apply(event(2, { call: call('late') })); // of the epoch before
    expect(made.calls).toEqual([]);
  });

  it('knows what is left to review, by document and cell, the newest first', () => {
    const made = model(
      call('1', [change('x'), change('y', { review: 'kept' })]),
      call('2', [change('x')]),
      call('3', [change('z')], { path: 'other.ipynb' }),
      call('4', [change('x')], { path: null })
    );
    expect(made.open('n.ipynb').map(each => each.id)).toEqual(['2', '1']);
    const open = made.openChanges('n.ipynb');
    expect([...open.keys()]).toEqual(['x']);
    expect(open.get('x')!.map(each => each.call.id)).toEqual(['2', '1']);
    expect([made.openCount('n.ipynb'), made.openCount()]).toEqual([1, 2]);
  });

  it('counts again after a review, and follows a rename', () => {
    const made = model();
    const one = call('1', [change('x')]);
    made.apply(event(4, { call: one }));
    const revision = made.reviewRevision;
    made.apply(event(5, { call: { ...one, path: 'new.ipynb' } }));
    expect([made.openCount('n.ipynb'), made.openCount('new.ipynb')]).toEqual([0, 1]);
    made.apply(event(6, { call: { ...one, cells: [change('x', { review: 'kept' })] } }));
    expect(made.openCount()).toBe(0);
    expect(made.reviewRevision).toBeGreaterThan(revision);
  });

  it('does not touch what is to be reviewed for a call that only reads', () => {
    const made = model(call('1', [change('x')]));
    const { reviewRevision } = made;
    made.apply(event(4, { call: call('2') }));
    expect(made.reviewRevision).toBe(reviewRevision);
  });

  it('keeps calls that are left to review, and the newest of the others', () => {
    const made = model(call('open', [change('x')]));
    for (let number = 0; number < MAX_CALLS + 10; number++) {
      made.apply(event(4 + number, { call: call(`c${number}`) }));
    }
    expect(made.calls.length).toBe(MAX_CALLS);
    expect(made.call('open')).toBeDefined();
    expect(made.call('c10')).toBeUndefined();
    expect(made.call('c11')).toBeDefined();
  });

  it('ignores an answer about a call of which the feed has told since', () => {
    const asked = call('1', [change('x')]);
    const made = model(asked);
    const undone = { ...asked, review: 'undone' as const, cells: [] };
    made.apply(event(4, { call: undone }));
    made.answer(asked, { ...asked, review: 'kept', cells: [] });
    expect(made.call('1')!.review).toBe('undone');
    made.answer(undone, asked);
    expect(made.openCount()).toBe(1);
  });

  it('drops what is gone', () => {
    const made = model(call('1', [change('x')]));
    made.apply(
      event(4, { kind: 'gone', agent: undefined, gone: { kind: 'call', id: '1' } })
    );
    made.apply(
      event(5, { kind: 'gone', agent: undefined, gone: { kind: 'agent', id: 'a' } })
    );
    expect([made.calls, made.agents, made.openCount()]).toEqual([[], [], 0]);
  });

  it('lists those who are connected first', () => {
    const made = new AgentsModel();
    const others = [
      { ...ada, id: 'z', name: 'Zoe' },
      { ...ada, id: 'b', name: 'Bob', connected: false }
    ];
    made.apply(state({ agents: [...others, ada] }));
    expect(made.agents.map(agent => agent.name)).toEqual(['Ada', 'Zoe', 'Bob']);
  });
});

describe('an agent', () => {
  const stopped = { ...ada, state: 'stopped' as const };

  it('that is held can go on, unless its token is gone', () => {
    expect(mayReturn(ada)).toBe(false);
    expect(mayReturn({ ...ada, state: 'paused', can_return: true })).toBe(true);
    expect(mayReturn(stopped)).toBe(true); // a server that does not say
    expect(mayReturn({ ...stopped, can_return: false })).toBe(false);
  });

  it('is forgotten if it has left, or cannot come back', () => {
    expect(mayForget(ada)).toBe(false);
    expect(mayForget({ ...ada, connected: false })).toBe(true);
    expect(mayForget({ ...stopped, connected: false })).toBe(false);
    expect(mayForget({ ...stopped, can_return: false })).toBe(false);
    expect(mayForget({ ...stopped, connected: false, can_return: false })).toBe(true);
  });
});
