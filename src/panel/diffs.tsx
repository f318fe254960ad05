import { IDisposable } from '@lumino/disposable';
import * as React from 'react';

import { ICall, ICellDiff } from '../protocol';
import { Empty, usePanel } from './parts';

/** How long a document has to be quiet before its diffs are asked for again. */
const QUIET = 400;

/** A call with a great many cells answers with the first ones only. */
export function OpenDiff(props: {
  call: ICall;
  cellId: string;
  /** Null: it is on its way. Undefined: nobody has asked for the whole call. */
  all: readonly ICellDiff[] | null | undefined;
}): JSX.Element {
  const { call, cellId, all } = props;
  const { reviews, words } = usePanel();
  const found = all?.find(each => each.cell_id === cellId);
  const alone = React.useRef(false);
  alone.current ||= all !== null && !found;
  const load = React.useCallback(
    () => reviews.api.diffs(call.id, cellId),
    [call.id, cellId]
  );
  const own = useDiffs(alone.current ? load : null, call.path, call);
  const diff = own?.[0] ?? found;
  if (diff) {
    return <CellDiff diff={diff} />;
  }
  return <Empty>{own === null ? words.trans.__('Loading…') : words.noDiff()}</Empty>;
}

/** The diffs of a call or a proposal while somebody looks at them; null until they are here. */
export function useDiffs(
  load: (() => Promise<ICellDiff[]>) | null,
  path: string | null,
  version: unknown
): ICellDiff[] | null {
  const { reviews, documents } = usePanel();
  const [diffs, setDiffs] = React.useState<ICellDiff[] | null>(null);
  const wanted = load !== null;
  React.useEffect(() => {
    if (!load) {
      setDiffs(null);
      return;
    }
    let gone = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const ask = async (): Promise<void> => {
      const answer = await reviews.guard(load);
      if (!gone && answer) {
        setDiffs(answer);
      }
    };
    void ask();
    // P8: else what a person types would look like the agent's.
    const stop = path
      ? documents.onContent(path, () => {
          clearTimeout(timer);
          timer = setTimeout(() => void ask(), QUIET);
        })
      : () => undefined;
    return () => {
      gone = true;
      clearTimeout(timer);
      stop();
    };
  }, [wanted, path, version]);
  return diffs;
}

/** One cell's change: what is not text in words, then the diff. */
export function CellDiff(props: { diff: ICellDiff; proposed?: boolean }): JSX.Element {
  const { words, languages, reviews } = usePanel();
  const { diff } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const [from, to] = props.proposed ? [diff.before, diff.after] : sides(diff);
  React.useEffect(() => {
    if (from === to) {
      return;
    }
    let view: IDisposable | undefined;
    let gone = false;
    void reviews.guard(async () => {
      const { showDiff } = await import('../diff'); // the largest part: only for who looks
      if (gone) {
        return;
      }
      const label = words.trans.__('Changes of %1', diff.name);
      const made = await showDiff(
        host.current!,
        from,
        to,
        diff.language,
        languages,
        label
      );
      if (gone) {
        made.dispose();
      } else {
        view = made;
      }
    });
    return () => {
      gone = true;
      view?.dispose();
    };
  }, [from, to, diff.language]);
  return (
    <div className="jp-McpDiff" data-cell={diff.cell_id}>
      {diff.conflict && diff.review === 'open' && (
        <p className="jp-McpWarning">
          {props.proposed
            ? words.trans.__('Others have changed this too; a merge asks you first.')
            : words.trans.__('Others have written here; an undo asks you first.')}
        </p>
      )}
      {diff.notes.map(note => (
        <p key={note} className="jp-McpNote">
          {note}
        </p>
      ))}
      {from !== to && <div ref={host} className="jp-McpDiff-text" />}
    </div>
  );
}

/** What an undo would leave, and what there is now; or before and after, once it was reviewed. */
function sides(diff: ICellDiff): [string, string] {
  if (diff.review !== 'open') {
    return [diff.before, diff.after];
  }
  if (diff.changes.includes('deleted')) {
    return [diff.undone ?? diff.before, diff.now ?? ''];
  }
  if (diff.changes.includes('inserted')) {
    return [diff.undone ?? '', diff.now ?? diff.after];
  }
  return diff.now === null || diff.undone === null
    ? [diff.before, diff.after]
    : [diff.undone, diff.now];
}
