import { describe, expect, it } from 'vitest';

import { IOpenChange } from '../model';
import { placesOf } from '../places';
import { ICellChange } from '../protocol';
import { call, change } from './samples';

function open(...changes: ICellChange[]): Map<string, IOpenChange[]> {
  return new Map(
    changes.map(each => [each.cell_id, [{ call: call('1', [each]), change: each }]])
  );
}

function where(changes: Map<string, IOpenChange[]>, ids: string[]): string[] {
  return placesOf(changes, ids).map(each => `${each.cellId} ${each.side} ${each.anchor}`);
}

const deleted = (id: string, after: string | null): ICellChange =>
  change(id, { changes: ['deleted'], after_cell: after });

describe('the place of a mark', () => {
  it('is in the changed cell, in the order of the notebook', () => {
    expect(where(open(change('c'), change('a')), ['a', 'b', 'c'])).toEqual([
      'a in a',
      'c in c'
    ]);
  });

  it('of a deleted cell is after the cell that it stood after', () => {
    const changes = open(deleted('x', 'a'), change('a'), change('b'));
    expect(where(changes, ['a', 'b'])).toEqual(['a in a', 'x after a', 'b in b']);
  });

  it('of the first cell is before what is now the first', () => {
    expect(where(open(deleted('x', null), change('a')), ['a'])).toEqual([
      'x before a',
      'a in a'
    ]);
  });

  it('skips cells that were deleted as well', () => {
    const changes = open(deleted('x', 'a'), deleted('y', 'x'), deleted('z', 'y'));
    expect(where(changes, ['a', 'b'])).toEqual(['x after a', 'y after a', 'z after a']);
  });

  it('is at the end if nobody knows the cell before any more', () => {
    expect(where(open(deleted('x', 'unknown')), ['a', 'b'])).toEqual(['x after b']);
    expect(where(open(deleted('x', 'y'), deleted('y', 'x')), ['a'])).toHaveLength(2);
  });

  it('is nowhere for a changed cell that a person has deleted', () => {
    expect(where(open(change('gone')), ['a'])).toEqual([]);
    expect(where(open(change('a')), [])).toEqual([]);
  });
});
