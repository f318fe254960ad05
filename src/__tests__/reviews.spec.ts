import { beforeEach, describe, expect, it, vi } from 'vitest';

import type { Api } from '../api';
import { AgentsModel } from '../model';
import { Refused, Unanswered } from '../refused';
import { Reviews } from '../reviews';
import { call, change, diff, english, event, state } from './samples';

const api = {
  review: vi.fn(),
  diffs: vi.fn(),
  reviewAll: vi.fn(),
  state: vi.fn(),
  interrupt: vi.fn(),
  decide: vi.fn()
};
const ask = {
  force: vi.fn(),
  confirm: vi.fn(),
  info: vi.fn(),
  error: vi.fn()
};
const older = call('1', [change('x')]);
const newer = call('2', [change('x'), change('y')]);
let model: AgentsModel;
let reviews: Reviews;

beforeEach(() => {
  vi.resetAllMocks();
  model = new AgentsModel();
  model.apply(state({ calls: [older, newer] }));
  reviews = new Reviews(api as unknown as Api, model, ask, english);
});

function conflict(): Refused {
  return new Refused(409, 'undo_conflict', 'Others wrote here.', { diffs: [diff('x')] });
}

describe('a review', () => {
  it('shows its answer at once', async () => {
    api.review.mockResolvedValue({ ...older, review: 'kept', cells: [] });
    expect(await reviews.keep(older)).toBe(true);
    expect(api.review).toHaveBeenCalledWith('1', 'keep', {});
    expect(model.call('1')!.review).toBe('kept');
  });

  it('names the cell, if only one is meant', async () => {
    api.review.mockResolvedValue(newer);
    await reviews.undo(newer, 'y');
    expect(api.review).toHaveBeenCalledWith('2', 'undo', { cell_id: 'y' });
  });

  it('is sent once, however often somebody clicks', async () => {
    let answer: (value: unknown) => void = () => undefined;
    api.review.mockReturnValue(new Promise(resolve => (answer = resolve)));
    const first = reviews.undo(older);
    expect(reviews.isBusy('1')).toBe(true);
    expect(await reviews.undo(older)).toBe(false);
    answer(older);
    await first;
    expect(api.review).toHaveBeenCalledTimes(1);
    expect(reviews.isBusy('1')).toBe(false);
  });

  it('asks before it undoes what others have written in, and only then forces it', async () => {
    api.review.mockRejectedValueOnce(conflict()).mockResolvedValueOnce(older);
    ask.force.mockResolvedValue(true);
    expect(await reviews.undo(older, 'x')).toBe(true);
    expect(api.review).toHaveBeenLastCalledWith('1', 'undo', {
      force: true,
      cell_id: 'x'
    });
  });

  it('changes nothing if the person leaves it', async () => {
    api.review.mockRejectedValueOnce(conflict());
    ask.force.mockResolvedValue(false);
    expect(await reviews.undo(older)).toBe(false);
    expect(api.review).toHaveBeenCalledTimes(1);
    expect(ask.error).not.toHaveBeenCalled();
  });

  it('asks for the texts of a conflict that came without, and forces nothing unread', async () => {
    const bare = new Refused(409, 'undo_conflict', 'Others wrote here.', { diffs: [] });
    api.review.mockRejectedValue(bare);
    api.diffs.mockResolvedValueOnce([diff('x')]);
    expect(await reviews.undo(older)).toBe(false);
    expect(ask.force).not.toHaveBeenCalled();
    expect(ask.error).toHaveBeenCalledWith('Others wrote here.');
    const shown = diff('x');
    api.diffs.mockResolvedValueOnce([shown]);
    ask.force.mockResolvedValue(false);
    await reviews.undo(older, 'x');
    expect(api.diffs).toHaveBeenLastCalledWith('1', 'x');
    expect(ask.force).toHaveBeenCalledWith('undo', [shown], 'Others wrote here.');
  });

  it('says who was faster, and shows what they decided', async () => {
    const theirs = { ...older, review: 'undone' as const, reviewed_by: 'Bo', cells: [] };
    api.review.mockRejectedValue(
      new Refused(409, 'already_reviewed', 'Reviewed.', { call: theirs })
    );
    await reviews.keep(older);
    expect(model.call('1')!.review).toBe('undone');
    expect(ask.info.mock.calls[0][0]).toContain('Bo');
  });

  it('shows what the server says, with what to do next', async () => {
    api.review.mockRejectedValue(
      new Refused(410, 'cell_not_found', 'The cell is gone.', { remedy: 'Keep it.' })
    );
    expect(await reviews.undo(older)).toBe(false);
    expect(ask.error).toHaveBeenCalledWith('The cell is gone. Keep it.');
    expect(model.call('1')).toBe(older);
  });

  it('whose answer was lost shows what became of it, and claims nothing', async () => {
    api.review.mockRejectedValue(new Unanswered(false));
    const kept = { ...older, review: 'kept' as const, cells: [] };
    api.state.mockResolvedValue(state({ seq: 4, calls: [kept, newer] }));
    expect(await reviews.keep(older)).toBe(false);
    expect(ask.error.mock.calls[0][0]).toContain('the list shows what is true now');
    expect(model.call('1')!.review).toBe('kept');
    expect(reviews.isBusy('1')).toBe(false);
  });

  it('leaves the list alone if the feed knows more, or nobody can be asked', async () => {
    api.review.mockRejectedValue(new Unanswered(false));
    api.state.mockResolvedValueOnce(state({ seq: 2, calls: [] }));
    await reviews.keep(older);
    expect(model.call('1')).toBe(older);
    api.state.mockRejectedValueOnce(new Unanswered(true));
    await reviews.keep(older);
    expect(ask.error.mock.calls[1][0]).toContain('as soon as the server can be reached');
    expect(ask.error.mock.calls[1][0]).not.toContain('nothing was changed');
  });
});

describe('an interrupt', () => {
  const running = call('3', [], { kind: 'run', state: 'running', ended: null });

  it('is for the runs of one call, not for the kernel, and is sent once', async () => {
    model.apply(event(4, { call: running }));
    api.interrupt.mockResolvedValue({ ...running, state: 'cancelled' });
    const first = reviews.interrupt(running);
    expect(await reviews.interrupt(running)).toBe(false);
    expect(await first).toBe(true);
    expect(api.interrupt.mock.calls).toEqual([['3']]);
    expect(model.call('3')!.state).toBe('cancelled');
  });

  it('that cannot be done says why', async () => {
    api.interrupt.mockRejectedValue(new Refused(409, 'x', 'It runs elsewhere.', {}));
    expect(await reviews.interrupt(running)).toBe(false);
    expect(ask.error).toHaveBeenCalledWith('It runs elsewhere.');
  });
});

describe('what fails otherwise', () => {
  it('changed nothing if something was only asked for', async () => {
    await reviews.guard(() => Promise.reject(new Unanswered(true)));
    expect(ask.error.mock.calls[0][0]).toContain('nothing was changed');
    expect(api.state).not.toHaveBeenCalled();
  });

  it('is a fault of the panel, and is logged as one', async () => {
    const log = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    const fault = new TypeError('undefined is not a function');
    await reviews.guard(() => Promise.reject(fault));
    expect(log).toHaveBeenCalledWith(fault);
    expect(ask.error.mock.calls[0][0]).toContain('Reload the page');
    log.mockRestore();
  });
});

describe('the review of a cell', () => {
  it('goes from the newest call to the oldest', async () => {
    api.review.mockResolvedValue(older);
    await reviews.cell('n.ipynb', 'x', 'undo');
    expect(api.review.mock.calls.map(args => args[0])).toEqual(['2', '1']);
  });

  it('stops where something cannot be undone: older changes are below it', async () => {
    api.review.mockRejectedValue(conflict());
    ask.force.mockResolvedValue(false);
    await reviews.cell('n.ipynb', 'x', 'undo');
    expect(api.review.mock.calls.map(args => args[0])).toEqual(['2']);
  });
});

describe('the review of everything', () => {
  it('takes what was reviewed, and says what was left', async () => {
    api.reviewAll.mockResolvedValue({
      calls: [{ ...older, review: 'undone', cells: [] }],
      conflicts: [{ call: '2', message: 'Others wrote here.' }]
    });
    await reviews.all('undo', [newer, older]);
    expect(api.reviewAll).toHaveBeenCalledWith('undo', ['2', '1']);
    expect(model.open().map(each => each.id)).toEqual(['2']);
    expect(ask.info.mock.calls[0][0]).toContain('One change was left');
    expect(ask.info.mock.calls[0][0]).not.toContain('since you looked');
  });

  it('asks nothing of the server if there is nothing to review', async () => {
    await reviews.all('undo', []);
    expect(api.reviewAll).not.toHaveBeenCalled();
  });

  it('leaves what nobody has seen, and says so', async () => {
    const seen = model.open('n.ipynb');
    model.apply(event(4, { call: call('3', [change('z')]) }));
    model.apply(event(5, { call: call('4', [change('z')], { path: 'other.ipynb' }) }));
    const kept = seen.map(each => ({ ...each, review: 'kept', cells: [] }));
    api.reviewAll.mockResolvedValue({ calls: kept, conflicts: [] });
    await reviews.all('keep', seen, 'n.ipynb');
    expect(api.reviewAll).toHaveBeenCalledWith('keep', ['2', '1']);
    expect(model.open().map(each => each.id)).toEqual(['4', '3']);
    expect(ask.info.mock.calls[0][0]).toBe(
      'One call was left, because it came since you looked.'
    );
  });
});

describe('a proposal', () => {
  const proposal = {
    id: 'p',
    title: 'Faster',
    description: '',
    agent: 'Ada',
    path: 'n.ipynb',
    created: 0,
    cells: 2,
    state: 'open' as const
  };

  it('is merged only in the chosen cells', async () => {
    await reviews.merge(proposal, ['x']);
    expect(api.decide).toHaveBeenCalledWith('p', 'merge', { cells: ['x'] });
  });

  it('is not discarded without asking', async () => {
    ask.confirm.mockResolvedValue(false);
    expect(await reviews.discard(proposal)).toBe(false);
    expect(api.decide).not.toHaveBeenCalled();
  });
});
