import { afterEach, beforeEach, expect, it, vi } from 'vitest';

import { Feed } from '../feed';
import { AgentsModel } from '../model';
import { call, event, state } from './samples';

/** A socket that does what the test says. */
class FakeSocket {
  static made: FakeSocket[] = [];
  static get last(): FakeSocket {
    return FakeSocket.made[FakeSocket.made.length - 1];
  }
  onmessage: ((message: { data: string }) => void) | null = null;
  onclose: (() => void) | null = null;
  close = vi.fn();
  constructor(readonly url: string) {
    FakeSocket.made.push(this);
  }
  say(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) });
  }
}

const settings = {
  wsUrl: 'ws://host/user/me/',
  token: 'secret',
  appendToken: false,
  WebSocket: FakeSocket as unknown as typeof WebSocket
};

const page = Object.assign(new EventTarget(), { hidden: false });
let model: AgentsModel;
let feed: Feed | undefined;

beforeEach(() => {
  FakeSocket.made = [];
  vi.useFakeTimers();
  vi.stubGlobal('window', new EventTarget());
  vi.stubGlobal('document', page);
  model = new AgentsModel();
});

afterEach(() => {
  feed?.dispose();
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

it('asks for what it missed, from where it is', () => {
  model.apply(state({ seq: 7 }));
  feed = new Feed(settings, model);
  const url = 'ws://host/user/me/api/collaboration-mcp/panel/feed';
  expect(FakeSocket.last.url).toBe(`${url}?since=7&epoch=e`);
  FakeSocket.last.say({ kind: 'events', events: [event(8, { call: call('1') })] });
  expect(model.connected).toBe(true);
  FakeSocket.last.onclose!();
  expect(model.connected).toBe(false);
  vi.advanceTimersByTime(250);
  expect(FakeSocket.last.url).toBe(`${url}?since=8&epoch=e`);
});

it('asks for everything if it knows nothing', () => {
  feed = new Feed({ ...settings, appendToken: true }, model);
  expect(FakeSocket.last.url).toMatch(/feed\?token=secret$/);
  FakeSocket.last.say(state({ seq: 4 }));
  expect(model.seq).toBe(4);
});

it('waits longer each time, until it hears something', () => {
  feed = new Feed(settings, model);
  for (const pause of [250, 500, 1000, 2000, 4000, 5000, 5000]) {
    const made = FakeSocket.made.length;
    FakeSocket.last.onclose!();
    vi.advanceTimersByTime(pause - 1);
    expect(FakeSocket.made.length).toBe(made);
    vi.advanceTimersByTime(1);
    expect(FakeSocket.made.length).toBe(made + 1);
  }
  FakeSocket.last.say(state());
  const made = FakeSocket.made.length;
  FakeSocket.last.onclose!();
  vi.advanceTimersByTime(250);
  expect(FakeSocket.made.length).toBe(made + 1);
});

it('does not wait when the network or the person is back, and lets a dead socket go', () => {
  feed = new Feed(settings, model);
  const [first] = FakeSocket.made;
  window.dispatchEvent(new Event('online'));
  expect(FakeSocket.made.length).toBe(2);
  expect(first.close).toHaveBeenCalled();
  expect(first.onclose).toBeNull();
  document.dispatchEvent(new Event('visibilitychange'));
  expect(FakeSocket.made.length).toBe(2); // nothing is broken
  FakeSocket.last.onclose!();
  document.dispatchEvent(new Event('visibilitychange'));
  expect(FakeSocket.made.length).toBe(3);
});

it('ends when it is disposed', () => {
  feed = new Feed(settings, model);
  FakeSocket.last.onclose!();
  feed.dispose();
  vi.advanceTimersByTime(60_000);
  window.dispatchEvent(new Event('online'));
  expect(FakeSocket.made.length).toBe(1);
});
