import { Cell, MarkdownCell } from '@jupyterlab/cells';
import { CodeMirrorEditor, IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { NotebookPanel } from '@jupyterlab/notebook';
import { IDisposable } from '@lumino/disposable';
import { PanelLayout, Widget } from '@lumino/widgets';

import { AgentsModel } from './model';
import { IPlace, placesOf } from './places';
import { ICellDiff } from './protocol';
import type { ISides } from './rebase';
import { Reviews } from './reviews';
import { Words } from './words';

/** What the marks of all notebooks share. */
export interface IMarkContext {
  model: AgentsModel;
  reviews: Reviews;
  words: Words;
  languages: IEditorLanguageRegistry;
}

/** How many calls the diff of one cell puts together. */
const MOST_CALLS = 20;

/** Marks what agents changed in one notebook and nobody has reviewed yet. */
export class NotebookMarks implements IDisposable {
  constructor(
    private _panel: NotebookPanel,
    private _context: IMarkContext
  ) {
    const { content, context } = _panel;
    _context.model.changed.connect(this._onModel, this);
    context.pathChanged.connect(this._update, this);
    content.modelChanged.connect(this._onCells, this);
    // P12: a cell outside the window has no layout yet.
    content.cellInViewportChanged.connect(this._update, this);
    this._onCells();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    const { content, context } = this._panel;
    this._context.model.changed.disconnect(this._onModel, this);
    context.pathChanged.disconnect(this._update, this);
    content.modelChanged.disconnect(this._onCells, this);
    content.cellInViewportChanged.disconnect(this._update, this);
    content.model?.cells.changed.disconnect(this._later, this);
    this._marks.forEach(mark => mark.dispose());
    this._marks.clear();
  }

  /** The mark of a cell, if it is drawn. */
  mark(cellId: string): CellMark | undefined {
    return this._marks.get(cellId);
  }

  private _onCells(): void {
    const cells = this._panel.content.model?.cells;
    cells?.changed.disconnect(this._later, this);
    cells?.changed.connect(this._later, this);
    this._update();
  }

  private _onModel(): void {
    // Most calls change nothing that is to be reviewed.
    if (this._context.model.reviewRevision !== this._revision) {
      this._update();
    }
  }

  /** After the notebook has made the widgets of its new cells. */
  private _later(): void {
    if (!this._waiting) {
      this._waiting = true;
      requestAnimationFrame(() => {
        this._waiting = false;
        this._update();
      });
    }
  }

  private _update(): void {
    if (this._isDisposed || this._panel.isDisposed) {
      return;
    }
    const { model } = this._context;
    this._revision = model.reviewRevision;
    const open = model.openChanges(this._panel.context.localPath);
    if (!open.size && !this._marks.size) {
      return;
    }
    const cells = new Map(
      this._panel.content.widgets.map(cell => [cell.model.id, cell] as const)
    );
    const places = placesOf(open, [...cells.keys()]);
    const wanted = new Map(places.map(place => [place.cellId, place]));
    for (const [cellId, mark] of this._marks) {
      const place = wanted.get(cellId);
      if (!place || mark.isDisposed || !mark.isAt(place, cells.get(place.anchor))) {
        mark.dispose();
        this._marks.delete(cellId);
      }
    }
    for (const place of places) {
      const cell = cells.get(place.anchor)!;
      const mark = this._marks.get(place.cellId);
      if (mark) {
        mark.display(place);
      } else if (!cell.isPlaceholder()) {
        this._marks.set(place.cellId, new CellMark(cell, place, this._context));
      }
    }
  }

  private _isDisposed = false;
  private _marks = new Map<string, CellMark>();
  private _revision = -1;
  private _waiting = false;
}

/** A line below a cell's text: who changed it, how much, and what to do about it. */
export class CellMark extends Widget {
  constructor(
    private _cell: Cell,
    private _place: IPlace,
    private _context: IMarkContext
  ) {
    super();
    const { trans } = _context.words;
    this.addClass('jp-McpMark');
    this.node.setAttribute('role', 'group');
    // Enter and the space bar belong to the buttons, not to the notebook.
    this.node.dataset.lmSuppressShortcuts = 'true';
    this.node.dataset.cell = _place.cellId;
    this._line.className = 'jp-McpMark-line';
    this._label.className = 'jp-McpMark-label';
    this._details.className = 'jp-McpMark-details';
    this._details.hidden = true;
    this._diffButton = this._button(trans.__('Diff'), trans.__('Show what changed'), () =>
      this.toggle()
    );
    this._diffButton.setAttribute('aria-expanded', 'false');
    this._buttons = [this._diffButton];
    if (_context.model.mayReview) {
      this._buttons.push(
        this._button(
          trans.__('Undo'),
          trans.__('Undo this change; what others wrote stays'),
          () => this._review('undo')
        ),
        this._button(trans.__('Keep'), trans.__('Keep this change'), () =>
          this._review('keep')
        )
      );
    }
    this._line.append(this._label, ...this._buttons);
    this.node.append(this._line, this._details);
    // A click must not take the caret out of the cell in which somebody types.
    this._line.addEventListener('mousedown', event => {
      event.preventDefault();
      event.stopPropagation();
    });
    this._details.addEventListener('mousedown', event => event.stopPropagation());
    _context.reviews.changed.connect(this._onBusy, this);
    this._insert();
    this.display(_place);
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    if (this.node.contains(document.activeElement)) {
      this._cell.parent?.activate(); // else who uses the keyboard would be nowhere
    }
    this._context.reviews.changed.disconnect(this._onBusy, this);
    this._close();
    moveFlags();
    if (!this._cell.isDisposed && this._place.side === 'in') {
      this._cell.removeClass('jp-McpMarked');
    }
    super.dispose();
  }

  /** Whether it can stay where it is. */
  isAt(place: IPlace, cell: Cell | undefined): boolean {
    return cell === this._cell && place.side === this._place.side;
  }

  /** Show what there is to review now. */
  display(place: IPlace): void {
    this._place = place;
    const { model, words } = this._context;
    const { trans } = words;
    const changes = place.changes.map(each => each.change);
    const agents = place.changes.map(each => model.agent(each.call.agent));
    const names = [
      ...new Set(agents.map(agent => agent?.name ?? trans.__('An agent')))
    ].join(', ');
    const kinds = [...new Set(changes.flatMap(change => change.changes))];
    const gone = place.side !== 'in';
    const done = words.done(kinds);
    const what = gone ? trans.__('%1 “%2”', done, changes[0].name) : done;
    const color = agents[0]?.color ?? 'var(--jp-ui-font-color2)';
    const size = words.size(changes);
    const key = JSON.stringify([names, what, color, size, changes.length]);
    if (key === this._shown) {
      return;
    }
    this._shown = key;
    this.node.style.setProperty('--jp-mcp-agent-color', color);
    const who = document.createElement('b');
    who.textContent = names;
    this._label.replaceChildren(who, ` ${what} `, ...sizeNodes(size));
    if (changes.length > 1) {
      this._label.append(` ${trans._n('in %1 call', 'in %1 calls', changes.length)}`);
    }
    this.node.setAttribute(
      'aria-label',
      [trans.__('%1: %2', names, what), words.spokenSize(changes)]
        .filter(Boolean)
        .join(', ')
    );
    if (!gone) {
      this._cell.node.style.setProperty('--jp-mcp-agent-color', color);
      this._cell.addClass('jp-McpMarked');
    }
  }

  /** Show the diff, or hide it. */
  async toggle(): Promise<void> {
    if (this._close()) {
      moveFlags();
      return;
    }
    this._diffButton.setAttribute('aria-expanded', 'true');
    this._isOpen = true;
    await this._context.reviews.guard(() => this._open());
    moveFlags();
    this._onBusy();
  }

  private async _open(): Promise<void> {
    const { words, languages } = this._context;
    const { trans } = words;
    const [diffs, { showDiff, showInline }] = await Promise.all([
      this._diffs(),
      import('./diff')
    ]);
    if (!this._isOpen || this.isDisposed) {
      return;
    }
    const notes = diffs.length
      ? [...new Set(diffs.flatMap(each => each.notes))]
      : [words.noDiff()];
    this._details.replaceChildren(
      ...notes.map(note => {
        const line = document.createElement('div');
        line.className = 'jp-McpMark-note';
        line.textContent = note;
        return line;
      })
    );
    this._details.hidden = notes.length === 0;
    const sides = await this._sides(diffs);
    if (!sides || sides.now === sides.undone) {
      return;
    }
    const editor =
      this._place.side === 'in' && !isRendered(this._cell) && this._cell.editor;
    let shown: IDisposable | null;
    if (editor instanceof CodeMirrorEditor) {
      shown = await showInline(editor, async () => this._sides(await this._diffs()));
    } else {
      this._details.hidden = false;
      shown = await showDiff(
        this._details,
        sides.undone,
        sides.now,
        diffs[0].language,
        languages,
        trans.__('Changes of %1', diffs[0].name)
      );
    }
    if (this._isOpen && !this.isDisposed) {
      this._diff = shown;
    } else {
      shown?.dispose();
    }
  }

  /** @returns Whether it was open. */
  private _close(): boolean {
    const was = this._isOpen;
    this._isOpen = false;
    this._diff?.dispose();
    this._diff = null;
    this._details.hidden = true;
    this._details.replaceChildren();
    this._diffButton.setAttribute('aria-expanded', 'false');
    return was;
  }

  /** The diffs of this cell in its calls, newest first. */
  private async _diffs(): Promise<ICellDiff[]> {
    const { cellId, changes } = this._place;
    const calls = changes.slice(0, MOST_CALLS);
    const { api } = this._context.reviews;
    return (
      await Promise.all(calls.map(({ call }) => api.diffs(call.id, cellId)))
    ).flat();
  }

  private async _sides(diffs: ICellDiff[]): Promise<ISides | null> {
    const { sidesTogether } = await import('./rebase');
    return sidesTogether(diffs);
  }

  private _review(verdict: 'keep' | 'undo'): Promise<void> {
    const path = this._place.changes[0].call.path;
    return path === null
      ? Promise.resolve()
      : this._context.reviews.cell(path, this._place.cellId, verdict);
  }

  private _onBusy(): void {
    const busy = this._place.changes.some(({ call }) =>
      this._context.reviews.isBusy(call.id)
    );
    // Not `disabled`, which would take the focus of who uses the keyboard.
    this._buttons.forEach(button => button.setAttribute('aria-disabled', String(busy)));
  }

  private _button(
    text: string,
    title: string,
    act: () => Promise<void>
  ): HTMLButtonElement {
    const button = document.createElement('button');
    button.className = 'jp-McpButton';
    button.textContent = text;
    button.title = title;
    button.addEventListener('click', () => void act());
    return button;
  }

  private _insert(): void {
    moveFlags();
    const layout = this._cell.layout as PanelLayout;
    if (this._place.side === 'in') {
      // P11: above the text, the flag of the agent's caret would cover it.
      const input = layout.widgets.findIndex(each =>
        each.hasClass('jp-Cell-inputWrapper')
      );
      layout.insertWidget(input + 1, this);
    } else {
      this.addClass('jp-mod-deleted');
      layout.insertWidget(
        this._place.side === 'before' ? 0 : layout.widgets.length,
        this
      );
    }
  }

  private _buttons: HTMLButtonElement[];
  private _details = document.createElement('div');
  private _diff: IDisposable | null = null;
  private _diffButton: HTMLButtonElement;
  private _isOpen = false;
  private _label = document.createElement('span');
  private _line = document.createElement('div');
  private _shown = '';
}

let moving: ReturnType<typeof setTimeout> | undefined;

/**
 * Have the flags of carets follow the cells that a mark has moved: their place is fixed on the
 * page, and CodeMirror measures it again only when the window changes.
 */
function moveFlags(): void {
  clearTimeout(moving);
  moving = setTimeout(() => window.dispatchEvent(new Event('resize')), 60);
}

function isRendered(cell: Cell): boolean {
  return cell instanceof MarkdownCell && cell.rendered;
}

/** "+3 −5", in two colours. */
function sizeNodes(size: string): HTMLElement[] {
  return size
    .split(' ')
    .filter(Boolean)
    .map(part => {
      const node = document.createElement('span');
      node.className = part.startsWith('+') ? 'jp-McpAdded' : 'jp-McpRemoved';
      node.textContent = part;
      return node;
    });
}
