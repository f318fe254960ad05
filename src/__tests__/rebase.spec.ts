import { describe, expect, it } from 'vitest';

import { rebase, sidesTogether, undoneTogether } from '../rebase';
import { diff } from './samples';

describe('a text without some changes', () => {
  it('is the undone one while nobody writes', () => {
    expect(rebase('a = 2', 'a = 1', 'a = 2')).toBe('a = 1');
  });

  it('has what others have written since, wherever that is', () => {
    expect(rebase('a = 2\n', 'a = 1\n', '# why\na = 2\n')).toBe('# why\na = 1\n');
    expect(rebase('a = 2\n', 'a = 1\n', 'a = 2\nb = 3\n')).toBe('a = 1\nb = 3\n');
  });

  it('keeps words that others wrote inside of the change', () => {
    const now = 'def f():\n    new line here\n';
    const text = 'def f():\n    new mine line here\n';
    expect(rebase(now, 'def f():\n', text)).toContain('mine');
  });

  it('works beyond the Basic Multilingual Plane', () => {
    expect(rebase('é😀 = 2', 'é😀 = 1', '😀é😀 = 2')).toBe('😀é😀 = 1');
  });
});

describe('several calls undone together', () => {
  it('leave what there was before the oldest, with what was typed between', () => {
    const older = diff('x', { before: 'a\nb\n', after: 'A\nb\n' });
    const newer = diff('x', { before: 'A\nb\nmine\n', undone: 'A\nb\nmine\n' });
    expect(undoneTogether([newer, older])).toBe('a\nb\nmine\n');
  });

  it('are nothing if nothing is left to undo', () => {
    expect(undoneTogether([])).toBeNull();
    expect(undoneTogether([diff('x', { undone: null })])).toBeNull();
  });
});

describe('a cell that an agent inserted', () => {
  const inserted = diff('x', {
    changes: ['inserted'],
    now: 'a = 1 # mine',
    undone: null
  });

  it('is nothing without the change', () => {
    expect(sidesTogether([inserted])).toEqual({ now: 'a = 1 # mine', undone: '' });
  });

  it('is the words of others, if they are left in it', () => {
    expect(sidesTogether([{ ...inserted, undone: ' # mine' }])?.undone).toBe(' # mine');
    const edit = diff('x', {
      before: 'a = 1',
      after: 'b = 1',
      now: 'b = 1 # mine',
      undone: 'a = 1 # mine'
    });
    const below = { ...inserted, before: '', after: 'a = 1' };
    expect(sidesTogether([edit, below])?.undone).toBe(' # mine');
  });
});
