import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';

import { AgentsModel } from './model';

/** Where an agent is. */
export interface IGoTo {
  (path: string, cellId: string | null): Promise<void>;
}

/** Keeps in view what one agent works on, until the person types. */
export class Follower implements IDisposable {
  constructor(
    private _model: AgentsModel,
    private _goTo: IGoTo
  ) {
    _model.changed.connect(this._onModel, this);
    for (const type of TYPING) {
      document.addEventListener(type, this._onTyping, true);
    }
  }

  /** Emitted when it begins or ends. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** The id of the agent that is followed. */
  get following(): string | null {
    return this._following;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._model.changed.disconnect(this._onModel, this);
    for (const type of TYPING) {
      document.removeEventListener(type, this._onTyping, true);
    }
  }

  follow(agentId: string | null): void {
    if (agentId !== this._following) {
      this._following = agentId;
      this._at = '';
      this._changed.emit();
      this._onModel();
    }
  }

  private _onModel(): void {
    const agent =
      this._following === null ? undefined : this._model.agent(this._following);
    if (this._following !== null && (!agent || !agent.connected)) {
      this.follow(null);
      return;
    }
    if (agent?.path) {
      const at = JSON.stringify([agent.path, agent.cell_id]);
      if (at !== this._at) {
        this._at = at;
        void this._goTo(agent.path, agent.cell_id);
      }
    }
  }

  private _onTyping = (event: Event): void => {
    if (this._following !== null && event.isTrusted && isTyping(event)) {
      this.follow(null);
    }
  };

  private _at = '';
  private _changed = new Signal<this, void>(this);
  private _following: string | null = null;
  private _isDisposed = false;
}

const TYPING = ['keydown', 'paste', 'cut', 'drop', 'compositionstart'];

/** Whether a person writes: not in the panel itself, and no mere shortcut. */
export function isTyping(event: Event): boolean {
  const target = event.target;
  if (!(target instanceof HTMLElement) || target.closest('.jp-McpPanel')) {
    return false;
  }
  if (!target.closest('[contenteditable="true"], input, textarea')) {
    return false;
  }
  if (!(event instanceof KeyboardEvent)) {
    return true;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) {
    return false;
  }
  return event.key.length === 1 || WRITING_KEYS.has(event.key);
}

const WRITING_KEYS = new Set(['Enter', 'Backspace', 'Delete', 'Tab', 'Process', 'Dead']);
