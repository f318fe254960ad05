import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { Follower } from './follow';
import { agentIcon } from './icons';
import { AgentsModel } from './model';
import { Reviews } from './reviews';
import { Words } from './words';

interface IStatus {
  model: AgentsModel;
  reviews: Reviews;
  words: Words;
  follower: Follower;
  review: () => boolean;
  act: () => unknown;
}

/** In the status bar: how many agents there are, and how much is left to review. */
export class AgentsStatus extends ReactWidget {
  constructor(private _status: IStatus) {
    super();
    _status.model.changed.connect(this.update, this);
    _status.reviews.changed.connect(this.update, this);
    _status.follower.changed.connect(this.update, this);
    this.addClass('jp-McpStatus');
  }

  protected render(): JSX.Element {
    const { model, words, follower, review, act } = this._status;
    const { trans } = words;
    const here = model.agents.filter(agent => agent.connected).length;
    const left = review() ? model.openCount() : 0;
    const followed = follower.following && model.agent(follower.following)?.name;
    const text = [
      !model.connected && trans.__('not connected'),
      followed
        ? trans.__('Following %1', followed)
        : trans._n('%1 agent', '%1 agents', here),
      left > 0 && trans._n('%1 cell to review', '%1 cells to review', left)
    ].filter(Boolean);
    return (
      <button
        type="button"
        className="jp-McpStatus-button"
        title={trans.__('Show agents')}
        onClick={() => void act()}
      >
        {text.join(' · ')}
      </button>
    );
  }
}

interface IChanges {
  model: AgentsModel;
  reviews: Reviews;
  words: Words;
  review: () => boolean;
  path: () => string;
  show: () => unknown;
  next: () => unknown;
}

/** In a notebook's toolbar: how many cells are left to review; leads to the next. */
export class ChangesButton extends ReactWidget {
  constructor(private _changes: IChanges) {
    super();
    _changes.model.changed.connect(this.update, this);
    _changes.reviews.changed.connect(this.update, this);
    this.addClass('jp-McpToolbar');
  }

  protected render(): JSX.Element {
    const { model, words, review, path, show, next } = this._changes;
    const { trans } = words;
    const left = review() ? model.openCount(path()) : 0;
    const title = left
      ? trans._n(
          '%1 cell to review: go to the next one',
          '%1 cells to review: go to the next one',
          left
        )
      : trans.__('Show agents');
    return (
      <button
        type="button"
        className="jp-McpToolbar-button"
        title={title}
        aria-label={title}
        onClick={() => void (left ? next() : show())}
      >
        <agentIcon.react tag="span" width="16px" />
        {left > 0 && <span className="jp-McpCount">{left}</span>}
      </button>
    );
  }
}
