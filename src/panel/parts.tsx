import { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import { ISignal } from '@lumino/signaling';
import * as React from 'react';

import { Documents } from '../documents';
import { Follower } from '../follow';
import { AgentsModel } from '../model';
import { IProposal } from '../protocol';
import { Reviews } from '../reviews';
import { initials, Words } from '../words';

/** All that the sections show, and can make happen. */
export interface IPanelContext {
  model: AgentsModel;
  reviews: Reviews;
  words: Words;
  documents: Documents;
  follower: Follower;
  languages: IEditorLanguageRegistry;
  /** Whether changes are offered for review. */
  review(): boolean;
  /** Show a proposal in the main area, beside what is in front. */
  openBeside(proposal: IProposal): Promise<void>;
  confirm(title: string, message: string, button: string): Promise<boolean>;
}

export const PanelContext = React.createContext<IPanelContext | null>(null);

export function usePanel(): IPanelContext {
  const context = React.useContext(PanelContext);
  if (!context) {
    throw new Error('A part of the panel is outside of it.');
  }
  return context;
}

/** Draw again when a signal is emitted: once for each frame, however often that is. */
export function useSignal(...signals: ISignal<unknown, unknown>[]): void {
  const [, draw] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    let frame = 0;
    const later = (): void => {
      frame ||= requestAnimationFrame(() => {
        frame = 0;
        draw();
      });
    };
    signals.forEach(signal => signal.connect(later));
    draw(); // what has changed since the first drawing
    return () => {
      signals.forEach(signal => signal.disconnect(later));
      cancelAnimationFrame(frame);
    };
  }, signals);
}

/** The server's time, drawn again after so many milliseconds. */
export function useNow(model: AgentsModel, every: number): number {
  const [now, setNow] = React.useState(model.now());
  React.useEffect(() => {
    const timer = setInterval(() => setNow(model.now()), every);
    return () => clearInterval(timer);
  }, [model, every]);
  return Math.max(now, model.now());
}

interface IButtonProps {
  children: React.ReactNode;
  act: () => unknown;
  /** What it does, for who hovers, and for who hears it. */
  title?: string;
  label?: string;
  busy?: boolean;
  pressed?: boolean;
  expanded?: boolean;
  kind?: 'warn' | 'main' | 'plain';
  className?: string;
}

export function Button(props: IButtonProps): JSX.Element {
  const kind = props.kind ? ` jp-mod-${props.kind}` : '';
  return (
    <button
      type="button"
      className={`jp-McpButton${kind} ${props.className ?? ''}`}
      title={props.title}
      aria-label={props.label}
      aria-pressed={props.pressed}
      aria-expanded={props.expanded}
      // Not `disabled`, which would take the focus of who uses the keyboard.
      aria-disabled={props.busy || undefined}
      onClick={() => {
        if (!props.busy) {
          void props.act();
        }
      }}
    >
      {props.children}
    </button>
  );
}

export function Section(props: {
  title: string;
  count?: number;
  tools?: React.ReactNode;
  closed?: boolean;
  children: React.ReactNode;
}): JSX.Element {
  const [open, setOpen] = React.useState(!props.closed);
  const id = React.useId();
  const Caret = open ? caretDownIcon.react : caretRightIcon.react;
  return (
    <section className="jp-McpSection" aria-labelledby={id}>
      <div className="jp-McpSection-head">
        <h3>
          <button
            type="button"
            id={id}
            className="jp-McpSection-title"
            aria-expanded={open}
            onClick={() => setOpen(!open)}
          >
            <Caret tag="span" width="16px" />
            {props.title}
            {props.count ? <span className="jp-McpCount">{props.count}</span> : null}
          </button>
        </h3>
        {open && props.tools}
      </div>
      {open && <div className="jp-McpSection-body">{props.children}</div>}
    </section>
  );
}

export function Empty(props: { children: React.ReactNode }): JSX.Element {
  return <p className="jp-McpEmpty">{props.children}</p>;
}

/** In the colour that the agent has in the notebook. */
export function Avatar(props: {
  name: string;
  color: string;
  faint?: boolean;
}): JSX.Element {
  return (
    <span
      className={`jp-McpAvatar${props.faint ? ' jp-mod-faint' : ''}`}
      style={{ borderColor: props.color }}
      aria-hidden="true"
    >
      {initials(props.name)}
    </span>
  );
}

export function Dot(props: { color: string | undefined }): JSX.Element {
  return (
    <span
      className="jp-McpDot"
      style={{ background: props.color ?? 'var(--jp-ui-font-color2)' }}
      aria-hidden="true"
    />
  );
}

export function Size(props: {
  changes: readonly { added: number; removed: number }[];
}): JSX.Element | null {
  const { words } = usePanel();
  const size = words.size(props.changes);
  return size ? (
    <span className="jp-McpSize">
      <span aria-hidden="true">
        {size.split(' ').map(part => (
          <span
            key={part}
            className={part.startsWith('+') ? 'jp-McpAdded' : 'jp-McpRemoved'}
          >
            {part}
          </span>
        ))}
      </span>
      <span className="jp-McpSpoken">{words.spokenSize(props.changes)}</span>
    </span>
  ) : null;
}

/** For who uses the keyboard: when a card goes away, the focus in it goes to the next one. */
export function useHandOver(): React.RefObject<HTMLLIElement> {
  const ref = React.useRef<HTMLLIElement>(null);
  React.useLayoutEffect(() => {
    const card = ref.current!;
    return () => {
      if (card.contains(document.activeElement)) {
        const next = card.nextElementSibling ?? card.previousElementSibling;
        const title = card.closest('section')?.querySelector<HTMLElement>('h3 button');
        (next?.querySelector<HTMLElement>('button') ?? title)?.focus();
      }
    };
  }, []);
  return ref;
}

/** The first rows, and a button for more: hundreds at once would make typing slow. */
export function Bounded<T>(props: {
  items: readonly T[];
  step: number;
  label: string;
  className: string;
  row: (item: T) => JSX.Element;
}): JSX.Element {
  const { words } = usePanel();
  const [shown, setShown] = React.useState(props.step);
  const more = props.items.length - shown;
  return (
    <>
      <ul className={props.className} aria-label={props.label}>
        {props.items.slice(0, shown).map(props.row)}
      </ul>
      {more > 0 && (
        <Button kind="plain" act={() => setShown(shown + 2 * props.step)}>
          {words.trans._n('Show %1 more', 'Show %1 more', more)}
        </Button>
      )}
    </>
  );
}
