import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { IProposal } from '../protocol';
import { Activity } from './activity';
import { Agents } from './agents';
import { ConnectSection } from './connect';
import { IPanelContext, PanelContext, usePanel, useSignal } from './parts';
import { Proposal, Proposals } from './proposals';
import { Review } from './review';

/** What the sidebar shows. */
export function makeBody(context: IPanelContext): ReactWidget {
  const widget = ReactWidget.create(
    <PanelContext.Provider value={context}>
      <Sections />
      <Connection />
    </PanelContext.Provider>
  );
  widget.addClass('jp-McpPanel-body');
  return widget;
}

/** One proposal, for the main area. */
export function makeProposal(context: IPanelContext, proposal: IProposal): ReactWidget {
  const widget = ReactWidget.create(
    <PanelContext.Provider value={context}>
      <Alone id={proposal.id} />
    </PanelContext.Provider>
  );
  widget.addClass('jp-McpPanel');
  widget.addClass('jp-McpAlone');
  return widget;
}

function Sections(): JSX.Element {
  const context = usePanel();
  useSignal(context.reviews.changed);
  return (
    <div className="jp-McpSections">
      <Agents />
      {context.review() && <Review />}
      <Activity />
      <Proposals />
      <ConnectSection />
    </div>
  );
}

function Alone(props: { id: string }): JSX.Element {
  const { model, reviews, words } = usePanel();
  useSignal(model.changed, reviews.changed);
  const proposal = model.proposal(props.id);
  if (!proposal || proposal.state !== 'open') {
    const merged = proposal?.state === 'merged';
    return (
      <p className="jp-McpEmpty">
        {merged
          ? words.trans.__('This proposal was merged.')
          : words.trans.__('This proposal was discarded.')}
      </p>
    );
  }
  return (
    <ul className="jp-McpCards">
      <Proposal proposal={proposal} busy={reviews.isBusy(proposal.id)} alone />
    </ul>
  );
}

function Connection(): JSX.Element {
  const { model, words } = usePanel();
  useSignal(model.changed);
  return (
    <div className="jp-McpConnection" role="status" data-connected={model.connected}>
      {model.connected
        ? words.trans.__('● live, nothing missed')
        : words.trans.__('○ not connected, trying again…')}
    </div>
  );
}
