import { IOpenChange } from './model';

/** Where in a notebook a mark belongs. */
export interface IPlace {
  /** The cell that was changed, which may be gone. */
  cellId: string;
  /** The cell beside which the mark is: the same, unless that is gone. */
  anchor: string;
  side: 'in' | 'after' | 'before';
  /** Newest first. */
  changes: IOpenChange[];
}

/** Where the open changes of a notebook are, in the order of its cells. */
export function placesOf(
  open: ReadonlyMap<string, IOpenChange[]>,
  ids: readonly string[]
): IPlace[] {
  if (!open.size || !ids.length) {
    return [];
  }
  const index = new Map(ids.map((id, number) => [id, number]));
  const places: IPlace[] = [];
  for (const [cellId, changes] of open) {
    if (index.has(cellId)) {
      places.push({ cellId, anchor: cellId, side: 'in', changes });
    } else if (changes.some(({ change }) => change.changes.includes('deleted'))) {
      places.push({ cellId, ...besides(cellId, open, index, ids), changes });
    }
  }
  const rank = { before: -0.5, in: 0, after: 0.5 };
  return places.sort(
    (a, b) => index.get(a.anchor)! + rank[a.side] - (index.get(b.anchor)! + rank[b.side])
  );
}

/** A deleted cell: after the cell that it stood after, or what that stood after if it is gone too. */
function besides(
  cellId: string,
  open: ReadonlyMap<string, IOpenChange[]>,
  index: ReadonlyMap<string, number>,
  ids: readonly string[]
): Pick<IPlace, 'anchor' | 'side'> {
  const seen = new Set<string>();
  let at: string | null = cellId;
  while (at !== null && !seen.has(at)) {
    seen.add(at);
    const deleted: IOpenChange | undefined = open
      .get(at)
      ?.find(each => each.change.changes.includes('deleted'));
    if (!deleted) {
      return { anchor: ids[ids.length - 1], side: 'after' };
    }
    at = deleted.change.after_cell;
    if (at !== null && index.has(at)) {
      return { anchor: at, side: 'after' };
    }
  }
  return { anchor: ids[0], side: 'before' };
}
