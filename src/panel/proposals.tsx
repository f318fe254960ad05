import * as React from 'react';

import { IProposal } from '../protocol';
import { fileName } from '../words';
import { CellDiff, useDiffs } from './diffs';
import {
  Bounded,
  Button,
  Empty,
  Section,
  useHandOver,
  usePanel,
  useSignal
} from './parts';

/** What agents propose instead of doing it. */
export function Proposals(): JSX.Element {
  const { model, reviews, words } = usePanel();
  const { trans } = words;
  useSignal(model.changed, reviews.changed);
  const proposals = model.proposals.filter(each => each.state === 'open');
  return (
    <Section title={trans.__('Proposals')} count={proposals.length}>
      {proposals.length ? (
        <Bounded
          items={proposals}
          step={15}
          className="jp-McpCards"
          label={trans.__('Proposals')}
          row={each => (
            <Proposal key={each.id} proposal={each} busy={reviews.isBusy(each.id)} />
          )}
        />
      ) : (
        <Empty>{trans.__('No agent proposes anything.')}</Empty>
      )}
    </Section>
  );
}

export function Proposal(props: {
  proposal: IProposal;
  busy: boolean;
  /** Whether it is alone in the main area, and its diff open at once. */
  alone?: boolean;
}): JSX.Element {
  const { proposal, busy, alone } = props;
  const { path } = proposal;
  const card = useHandOver();
  const { model, reviews, words, documents, openBeside } = usePanel();
  const { trans } = words;
  const [open, setOpen] = React.useState(alone ?? false);
  const [left, setLeft] = React.useState<ReadonlySet<string>>(new Set());
  const load = React.useCallback(
    () => reviews.api.proposalDiffs(proposal.id),
    [proposal.id]
  );
  const diffs = useDiffs(open ? load : null, proposal.path, proposal);
  const chosen = diffs?.map(each => each.cell_id).filter(id => !left.has(id)) ?? [];
  const some = diffs !== null && left.size > 0;
  const choose = (cellId: string, on: boolean): void => {
    const next = new Set(left);
    if (on) {
      next.delete(cellId);
    } else {
      next.add(cellId);
    }
    setLeft(next);
  };
  return (
    <li
      ref={card}
      className="jp-McpCard jp-McpProposal"
      data-proposal={proposal.id}
      aria-busy={busy}
    >
      <div className="jp-McpCard-head">
        <span className="jp-McpCard-what">
          <b>{proposal.title}</b>
        </span>
      </div>
      <div className="jp-McpCard-where">
        <span>
          {trans._n('%2, %1 cell,', '%2, %1 cells,', proposal.cells, proposal.agent)}
        </span>
        {path !== null && (
          <Button
            kind="plain"
            className="jp-McpLink"
            title={trans.__('Show %1', path)}
            act={() => documents.show(path, null)}
          >
            {fileName(path)}
          </Button>
        )}
        {proposal.created !== null && (
          <span className="jp-McpTime">{words.clock(proposal.created, model.now())}</span>
        )}
      </div>
      {proposal.description && <p className="jp-McpNote">{proposal.description}</p>}
      {open && diffs === null && <Empty>{trans.__('Loading…')}</Empty>}
      {open && diffs !== null && (
        <ul className="jp-McpCells" aria-label={trans.__('Proposed changes')}>
          {diffs.map(diff => (
            <li key={diff.cell_id} className="jp-McpCell" data-cell={diff.cell_id}>
              <label className="jp-McpCell-head">
                <input
                  type="checkbox"
                  checked={!left.has(diff.cell_id)}
                  onChange={event => choose(diff.cell_id, event.target.checked)}
                />
                <span className="jp-McpCell-title">
                  {diff.name || trans.__('the text')}
                </span>
                <small>{words.done(diff.changes)}</small>
              </label>
              <CellDiff diff={diff} proposed />
            </li>
          ))}
        </ul>
      )}
      <div className="jp-McpButtons">
        {!alone && (
          <>
            <Button expanded={open} kind="plain" act={() => setOpen(!open)}>
              {open ? trans.__('Hide diff') : trans.__('Show diff')}
            </Button>
            <Button
              kind="plain"
              title={trans.__('Show it in a tab of its own, beside what is in front')}
              act={() => openBeside(proposal)}
            >
              {trans.__('Open beside')}
            </Button>
          </>
        )}
        <span className="jp-McpSpace" />
        {model.mayReview && (
          <>
            <Button
              busy={busy}
              label={trans.__('Discard “%1”', proposal.title)}
              act={() => reviews.discard(proposal)}
            >
              {trans.__('Discard')}
            </Button>
            <Button
              kind="main"
              busy={busy || (some && !chosen.length)}
              label={trans.__('Merge “%1”', proposal.title)}
              act={() => reviews.merge(proposal, some ? chosen : undefined)}
            >
              {some
                ? trans._n('Merge %1 cell', 'Merge %1 cells', chosen.length)
                : trans.__('Merge')}
            </Button>
          </>
        )}
      </div>
    </li>
  );
}
