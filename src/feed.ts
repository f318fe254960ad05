import { URLExt } from '@jupyterlab/coreutils';
import type { ServerConnection } from '@jupyterlab/services';
import { IDisposable } from '@lumino/disposable';

import { AgentsModel } from './model';
import { Message, ROOT } from './protocol';

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 5000;

type Settings = Pick<
  ServerConnection.ISettings,
  'wsUrl' | 'token' | 'appendToken' | 'WebSocket'
>;

/** Keeps the model up to date. Asks for what it missed when it connects, so a cut loses nothing. */
export class Feed implements IDisposable {
  constructor(
    private _settings: Settings,
    private _model: AgentsModel
  ) {
    this._connect();
    window.addEventListener('online', this._reconnect);
    document.addEventListener('visibilitychange', this._hurry);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    window.removeEventListener('online', this._reconnect);
    document.removeEventListener('visibilitychange', this._hurry);
    this._drop();
  }

  private _connect(): void {
    this._drop();
    const { wsUrl, token, appendToken, WebSocket } = this._settings;
    const query = new URLSearchParams();
    if (this._model.epoch) {
      query.set('since', String(this._model.seq));
      query.set('epoch', this._model.epoch);
    }
    if (appendToken && token) {
      query.set('token', token);
    }
    const socket = new WebSocket(`${URLExt.join(wsUrl, ROOT, 'feed')}?${query}`);
    socket.onmessage = message => {
      this._pause = FIRST_PAUSE;
      this._model.apply(JSON.parse(message.data as string) as Message);
      this._model.connected = true;
    };
    socket.onclose = () => {
      this._model.connected = false;
      this._timer = setTimeout(() => this._connect(), this._pause);
      this._pause = Math.min(LONGEST_PAUSE, 2 * this._pause);
    };
    this._socket = socket;
  }

  private _drop(): void {
    clearTimeout(this._timer);
    this._timer = undefined;
    if (this._socket) {
      this._socket.onmessage = this._socket.onclose = null;
      this._socket.close();
      this._socket = null;
    }
  }

  /** The network is back: a socket of before may be dead without knowing it. */
  private _reconnect = (): void => {
    this._pause = FIRST_PAUSE;
    this._connect();
  };

  /** The person is back: do not let them wait for the timer. */
  private _hurry = (): void => {
    if (this._timer !== undefined && !document.hidden) {
      this._reconnect();
    }
  };

  private _isDisposed = false;
  private _pause = FIRST_PAUSE;
  private _socket: WebSocket | null = null;
  private _timer: ReturnType<typeof setTimeout> | undefined;
}
