import * as React from 'react';

import { ICall, ICellChange } from '../protocol';
import { fileName } from '../words';
import { OpenDiff, useDiffs } from './diffs';
import {
  Bounded,
  Button,
  Dot,
  Empty,
  Section,
  Size,
  useHandOver,
  usePanel,
  useSignal
} from './parts';

/** How many cells of a call are listed at first. */
const LISTED = 25;

/** How many cells a call names at most. */
const NAMED = 1000;

/** Every call whose changes nobody has reviewed yet, newest first. */
export function Review(): JSX.Element {
  const { model, reviews, words, confirm } = usePanel();
  const { trans } = words;
  useSignal(model.changed, reviews.changed);
  const calls = model.open();
  const undoAll = async (): Promise<void> => {
    const sure = await confirm(
      trans.__('Undo all changes?'),
      trans._n(
        'The changes of %1 call are undone. What others wrote stays.',
        'The changes of %1 calls are undone, newest first. What others wrote stays.',
        calls.length
      ),
      trans.__('Undo all')
    );
    if (sure) {
      await reviews.all('undo', calls);
    }
  };
  return (
    <Section
      title={trans.__('To review')}
      count={calls.length}
      tools={
        calls.length > 1 &&
        model.mayReview && (
          <>
            <Button act={() => undoAll()}>{trans.__('Undo all')}</Button>
            <Button act={() => reviews.all('keep', calls)}>{trans.__('Keep all')}</Button>
          </>
        )
      }
    >
      {calls.length ? (
        <Bounded
          items={calls}
          step={15}
          className="jp-McpCards"
          label={trans.__('To review')}
          row={call => <Card key={call.id} call={call} busy={reviews.isBusy(call.id)} />}
        />
      ) : (
        <Empty>{trans.__('Nothing to review.')}</Empty>
      )}
    </Section>
  );
}

const Card = React.memo(function Card(props: {
  call: ICall;
  busy: boolean;
}): JSX.Element {
  const { call, busy } = props;
  const { model, reviews, words, documents } = usePanel();
  const { trans } = words;
  const [opened, setOpened] = React.useState<ReadonlySet<string>>(new Set());
  const card = useHandOver();
  const agent = model.agent(call.agent);
  const name = agent?.name ?? trans.__('An agent');
  const load = React.useCallback(() => reviews.api.diffs(call.id), [call.id]);
  const [shown, setShown] = React.useState(LISTED);
  const listed = call.cells.slice(0, shown);
  const more = call.cells.length - listed.length;
  const whole = opened.size > 1 || call.cells.length === 1;
  const diffs = useDiffs(opened.size && whole ? load : null, call.path, call);
  const open = call.cells.filter(change => change.review === 'open');
  const all = listed.every(change => opened.has(change.cell_id));
  const toggle = (cellId: string): void => {
    const next = new Set(opened);
    if (!next.delete(cellId)) {
      next.add(cellId);
    }
    setOpened(next);
  };
  return (
    <li ref={card} className="jp-McpCard" data-call={call.id} aria-busy={busy}>
      <div className="jp-McpCard-head">
        <Dot color={agent?.color} />
        <span className="jp-McpCard-what">
          <b>{name}</b> {call.summary}
        </span>
        <Size changes={open} />
      </div>
      <div className="jp-McpCard-where">
        {call.path === null ? (
          <span>{trans.__('The document was deleted')}</span>
        ) : (
          <Button
            kind="plain"
            className="jp-McpLink"
            title={trans.__('Show %1', call.path)}
            act={() => documents.show(call.path!, open[0]?.cell_id ?? null)}
          >
            {fileName(call.path)}
          </Button>
        )}
        <span className="jp-McpTime">{words.clock(call.began, model.now())}</span>
      </div>
      <ul className="jp-McpCells" aria-label={trans.__('Changed cells')}>
        {listed.map(change => (
          <Change
            key={change.cell_id}
            call={call}
            change={change}
            busy={busy}
            single={call.cells.length === 1}
            open={opened.has(change.cell_id)}
            toggle={() => toggle(change.cell_id)}
            diffs={whole ? diffs : undefined}
          />
        ))}
      </ul>
      {more > 0 && (
        <Button kind="plain" act={() => setShown(shown + 2 * LISTED)}>
          {trans._n('Show %1 more cell', 'Show %1 more cells', more)}
        </Button>
      )}
      {call.cells.length >= NAMED && (
        <p className="jp-McpNote">
          {trans.__(
            'The first %1 cells are listed. Undo and Keep below are about all that the call changed.',
            NAMED
          )}
        </p>
      )}
      {model.mayReview && (
        <div className="jp-McpButtons">
          {call.cells.length > 1 && (
            <Button
              kind="plain"
              act={() =>
                setOpened(all ? new Set() : new Set(listed.map(each => each.cell_id)))
              }
            >
              {all ? trans.__('Hide diffs') : trans.__('Show diffs')}
            </Button>
          )}
          <span className="jp-McpSpace" />
          <Button
            busy={busy}
            label={trans.__('Undo: %1 %2', name, call.summary)}
            title={trans.__('Undo what this call changed; what others wrote stays')}
            act={() => reviews.undo(call)}
          >
            {trans.__('Undo')}
          </Button>
          <Button
            busy={busy}
            label={trans.__('Keep: %1 %2', name, call.summary)}
            title={trans.__('Keep what this call changed')}
            act={() => reviews.keep(call)}
          >
            {trans.__('Keep')}
          </Button>
        </div>
      )}
    </li>
  );
});

function Change(props: {
  call: ICall;
  change: ICellChange;
  busy: boolean;
  single: boolean;
  open: boolean;
  toggle: () => void;
  diffs: React.ComponentProps<typeof OpenDiff>['all'];
}): JSX.Element {
  const { call, change, busy, single, open, diffs } = props;
  const { model, reviews, words, documents } = usePanel();
  const { trans } = words;
  const reviewed = change.review === 'kept' || change.review === 'undone';
  const name = change.name || trans.__('the text');
  return (
    <li className="jp-McpCell" data-cell={change.cell_id} data-review={change.review}>
      <div className="jp-McpCell-head">
        <Button
          kind="plain"
          className="jp-McpCell-name"
          expanded={open}
          title={open ? trans.__('Hide the diff') : trans.__('Show the diff')}
          act={props.toggle}
        >
          <span className="jp-McpCaret" aria-hidden="true" />
          <span className="jp-McpCell-title">{name}</span>
          <small>{words.done(change.changes)}</small>
        </Button>
        {!single && <Size changes={[change]} />}
        {call.path !== null && !change.changes.includes('deleted') && change.cell_id && (
          <Button
            kind="plain"
            label={trans.__('Show %1 in the notebook', name)}
            title={trans.__('Show it in the notebook')}
            act={() => documents.show(call.path!, change.cell_id)}
          >
            ↗
          </Button>
        )}
      </div>
      {open && <OpenDiff call={call} cellId={change.cell_id} all={diffs} />}
      {reviewed ? (
        <small className="jp-McpVerdict">
          {change.review === 'kept' ? trans.__('kept') : trans.__('undone')}
        </small>
      ) : (
        !single &&
        open &&
        model.mayReview && (
          <div className="jp-McpButtons">
            <Button
              busy={busy}
              label={trans.__('Undo the change of %1', name)}
              act={() => reviews.undo(call, change.cell_id)}
            >
              {trans.__('Undo this cell')}
            </Button>
            <Button
              busy={busy}
              label={trans.__('Keep the change of %1', name)}
              act={() => reviews.keep(call, change.cell_id)}
            >
              {trans.__('Keep this cell')}
            </Button>
          </div>
        )
      )}
    </li>
  );
}
