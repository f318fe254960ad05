import { JupyterFrontEnd } from '@jupyterlab/application';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { IDocumentWidget } from '@jupyterlab/docregistry';
import { INotebookTracker, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { ISignal, Signal } from '@lumino/signaling';
import { DockPanel } from '@lumino/widgets';

/** The documents that are open in this page, and how to bring a place of one into view. */
export class Documents {
  constructor(
    private _app: JupyterFrontEnd,
    private _manager: IDocumentManager,
    readonly notebooks: INotebookTracker
  ) {
    _app.shell.currentChanged?.connect(() => this._currentChanged.emit());
  }

  /** Emitted when another document comes to the front. */
  get currentChanged(): ISignal<this, void> {
    return this._currentChanged;
  }

  /** The path of the document in front. */
  get currentPath(): string | null {
    const widget = this._app.shell.currentWidget;
    return (widget && this._manager.contextForWidget(widget)?.localPath) ?? null;
  }

  notebook(path: string): NotebookPanel | undefined {
    return this.notebooks.find(panel => panel.context.localPath === path);
  }

  /** Open a document, or bring it to the front; and a cell of it into view. */
  async show(path: string, cellId: string | null): Promise<void> {
    const widget = this._manager.openOrReveal(path);
    if (widget && cellId) {
      await this._reveal(widget, cellId);
    }
  }

  /** The same without touching the focus of anybody. */
  async follow(path: string, cellId: string | null, open: boolean): Promise<void> {
    let widget = this._manager.findWidget(path);
    if (!widget && open) {
      widget = this._manager.openOrReveal(path, undefined, undefined, {
        activate: false
      });
    }
    if (!widget) {
      return;
    }
    if (!widget.isVisible) {
      if (!open || !(widget.parent instanceof DockPanel)) {
        return;
      }
      widget.parent.selectWidget(widget); // shell.activateById would take the focus
    }
    if (cellId) {
      await this._reveal(widget, cellId);
    }
  }

  /** Call back when a document that is open here has changed. */
  onContent(path: string, callback: () => void): () => void {
    const context = this._manager.findWidget(path)?.context;
    if (!context) {
      return () => undefined;
    }
    context.model.contentChanged.connect(callback);
    return () => context.model.contentChanged.disconnect(callback);
  }

  private async _reveal(widget: IDocumentWidget, cellId: string): Promise<void> {
    if (widget instanceof NotebookPanel) {
      await widget.revealed;
      await widget.context.ready;
      await reveal(widget.content, cellId);
    }
  }

  private _currentChanged = new Signal<this, void>(this);
}

/** Bring a cell into view without touching the focus, and let it shine for a moment. */
export async function reveal(notebook: Notebook, cellId: string): Promise<boolean> {
  const index = notebook.widgets.findIndex(widget => widget.model.id === cellId);
  if (index < 0) {
    return false;
  }
  try {
    await notebook.scrollToItem(index, 'smart'); // P10: scrollToCell would take the focus
  } catch {
    return false; // another cell was asked for meanwhile, or the notebook was closed
  }
  if (!window.matchMedia('(prefers-reduced-motion: reduce)').matches) {
    notebook.widgets[index]?.node.animate(
      [{ backgroundColor: 'var(--jp-brand-color3)' }, { backgroundColor: 'transparent' }],
      900
    );
  }
  return true;
}
