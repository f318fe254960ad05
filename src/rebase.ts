import { diff } from '@codemirror/merge';
import { ChangeSet, Text } from '@codemirror/state';

import { ICellDiff } from './protocol';

/** What a text says with and without the changes that are shown. */
export interface ISides {
  now: string;
  undone: string;
}

/**
 * What a text would say without some changes, after others have written on.
 *
 * @param now - The text with the changes.
 * @param undone - The text without them.
 * @param text - The text with them, and with what others have written since. Their words stay.
 */
export function rebase(now: string, undone: string, text: string): string {
  if (text === now) {
    return undone;
  }
  const undoing = changes(now, undone).map(changes(now, text), true);
  return undoing.apply(Text.of(text.split('\n'))).toString();
}

/**
 * What a cell would say if several calls were undone, newest first.
 *
 * The newest comes from the server. Those before it are rebased here: for a picture, not for the
 * undo itself.
 */
export function undoneTogether(diffs: readonly ICellDiff[]): string | null {
  const [newest, ...older] = diffs;
  if (!newest || newest.undone === null) {
    return null;
  }
  return older.reduce(
    (text, each) => rebase(each.after, each.before, text),
    newest.undone
  );
}

/** What a cell says with and without several changes, newest first; null if there are none. */
export function sidesTogether(diffs: readonly ICellDiff[]): ISides | null {
  const [newest] = diffs;
  if (!newest) {
    return null;
  }
  if (newest.now === null) {
    return { now: '', undone: newest.undone ?? newest.before };
  }
  // Of an inserted cell the words of others are left: without any, the cell is removed.
  const inserted = diffs.some(each => each.changes.includes('inserted'));
  return {
    now: newest.now,
    undone: undoneTogether(diffs) ?? (inserted ? '' : newest.now)
  };
}

function changes(from: string, to: string): ChangeSet {
  return ChangeSet.of(
    diff(from, to).map(change => ({
      from: change.fromA,
      to: change.toA,
      insert: to.slice(change.fromB, change.toB)
    })),
    from.length
  );
}
