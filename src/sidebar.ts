import { TranslationBundle } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';

import { agentIcon } from './icons';

/** The place in the sidebar. What it shows is loaded when somebody opens it. */
export class Sidebar extends Panel {
  constructor(
    private _load: () => Promise<Widget>,
    trans: TranslationBundle
  ) {
    super();
    this.id = 'collaboration-mcp-panel';
    this.addClass('jp-McpPanel');
    this.title.icon = agentIcon;
    this.title.caption = trans.__('Agents');
    this.node.setAttribute('role', 'region');
    this.node.setAttribute('aria-label', trans.__('Agents'));
  }

  /** How many cells are left to review, beside the icon. */
  set count(count: number) {
    const dataset = { ...this.title.dataset };
    delete dataset['mcp-count'];
    if (count) {
      dataset['mcp-count'] = count > 99 ? '99+' : String(count);
    }
    this.title.dataset = dataset;
  }

  protected onBeforeShow(message: Message): void {
    super.onBeforeShow(message);
    if (!this._loading) {
      this._loading = this._load().then(
        body => this.addWidget(body),
        error => {
          this._loading = null; // the next time it is shown
          throw error;
        }
      );
    }
  }

  protected onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    void this._loading?.then(() =>
      this.node.querySelector<HTMLElement>('.jp-McpSection-title')?.focus()
    );
  }

  private _loading: Promise<void> | null = null;
}
