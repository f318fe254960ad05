import { TranslationBundle } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';

import { agentIcon } from './icons';

/** The place in the sidebar. What it shows is loaded when somebody opens it. */
export class Sidebar extends Panel {
  constructor(trans: TranslationBundle) {
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

  /** From now on it can be shown: say how to make what is in it. */
  begin(load: () => Promise<Widget>): void {
    this._load = load;
    if (this.isVisible) {
      this._fill();
    }
  }

  protected onBeforeShow(message: Message): void {
    super.onBeforeShow(message);
    this._fill();
  }

  protected onActivateRequest(message: Message): void {
    super.onActivateRequest(message);
    void this._loading?.then(() =>
      this.node.querySelector<HTMLElement>('.jp-McpSection-title')?.focus()
    );
  }

  private _fill(): void {
    if (this._load && !this._loading) {
      this._loading = this._load().then(
        body => this.addWidget(body),
        error => {
          this._loading = null; // the next time it is shown
          throw error;
        }
      );
    }
  }

  private _load: (() => Promise<Widget>) | null = null;
  private _loading: Promise<void> | null = null;
}
