import { Notification } from '@jupyterlab/apputils';

import { AgentsModel } from './model';
import { IEvent } from './protocol';
import { fileName, Words } from './words';

export type Wish = 'nothing' | 'important' | 'everything';

/** Tells the person what agents did while they look elsewhere. */
export class Notifier {
  constructor(
    private _model: AgentsModel,
    private _words: Words,
    private _wish: () => Wish,
    private _show: () => void
  ) {
    this._learn();
    _model.changed.connect((_, events) => {
      if (!events.length) {
        this._learn();
      }
      events.forEach(event => this._on(event));
    });
  }

  /** What there was before is no news. */
  private _learn(): void {
    this._model.agents.forEach(agent => this._agents.add(agent.id));
    this._model.proposals.forEach(proposal => this._proposals.add(proposal.id));
  }

  private _on(event: IEvent): void {
    const { trans } = this._words;
    const { agent, call, proposal } = event;
    const wish = this._wish();
    if (agent && !this._agents.has(agent.id)) {
      this._agents.add(agent.id);
      if (wish !== 'nothing') {
        this._tell(
          trans.__('%1 has connected and %2.', agent.name, this._words.level(agent.level))
        );
      }
    }
    if (proposal && !this._proposals.has(proposal.id)) {
      this._proposals.add(proposal.id);
      if (wish !== 'nothing' && proposal.state === 'open') {
        this._tell(
          trans.__(
            '%1 proposes “%2” for %3.',
            proposal.agent,
            proposal.title,
            fileName(proposal.path ?? '')
          )
        );
      }
    }
    if (call && agent && wish === 'everything') {
      const words = `${agent.name} ${call.summary}`;
      if (call.state === 'failed' || call.state === 'refused') {
        this._tell(`${words}: ${call.error ?? this._words.outcome(call)}`, 'warning');
      } else if (call.state === 'done' && call.review === 'open' && !call.reviewed_at) {
        this._tell(words);
      }
    }
  }

  private _tell(message: string, type: 'info' | 'warning' = 'info'): void {
    Notification.emit(message, type, {
      autoClose: 6000,
      actions: [{ label: this._words.trans.__('Show'), callback: () => this._show() }]
    });
  }

  private _agents = new Set<string>();
  private _proposals = new Set<string>();
}
