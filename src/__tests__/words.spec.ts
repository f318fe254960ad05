import { expect, it } from 'vitest';

import { fileName, initials, Words } from '../words';
import { ada, call, change, english } from './samples';

const words = new Words(english);

it('says what an agent does, and for how long', () => {
  const running = { ...ada, doing: 'running load', since: 1000 };
  expect(words.doing(running, 1500)).toBe('running load');
  expect(words.doing(running, 13_000)).toBe('running load, 12 s');
  expect(words.doing({ ...ada, seen: 0 }, 120_000)).toBe('idle for 2 min');
  expect(words.doing({ ...ada, seen: 0 }, 1000)).toBe('ready');
  expect(words.doing({ ...ada, state: 'stopped' }, 0)).toBe('stopped by a person');
  expect(words.doing({ ...ada, state: 'stopped', can_return: false }, 0)).toContain(
    'its token is gone'
  );
  expect(words.doing({ ...running, state: 'paused' }, 1000)).toContain('running load');
  expect(words.doing({ ...ada, connected: false }, 7_200_000)).toBe('left 2 h ago');
});

it('says how much a change adds and removes', () => {
  const changes = [change('a', { added: 2, removed: 1 }), change('b', { added: 1 })];
  expect(words.size(changes)).toBe('+3 −1');
  expect(words.spokenSize(changes)).toBe('3 lines added, 1 line removed');
  expect(words.size([change('a', { added: 0 })])).toBe('');
});

it('says what was done to a cell in one word if one is enough', () => {
  expect(words.done(['inserted', 'source', 'metadata'])).toBe('inserted');
  expect(words.done(['source', 'moved'])).toBe('edited, moved');
});

it('says who reviewed a call, and how it ended', () => {
  expect(words.verdict(call('1', [], { review: 'kept', reviewed_by: 'Bo' }))).toBe(
    'kept by Bo'
  );
  expect(words.verdict(call('1'))).toBe('');
  expect(words.outcome(call('1', [], { state: 'refused' }))).toBe('refused');
});

it('knows the short forms of names', () => {
  expect(fileName('a/b/c.ipynb')).toBe('c.ipynb');
  expect([initials('Ada Lovelace'), initials('Claude'), initials('😀')]).toEqual([
    'AL',
    'CL',
    '😀'
  ]);
});
