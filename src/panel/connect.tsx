import { Clipboard } from '@jupyterlab/apputils';
import * as React from 'react';

import { IConnection } from '../api';
import { IClient, Level } from '../protocol';
import { Button, Section, usePanel } from './parts';

const LEVELS: Level[] = ['read', 'write', 'execute', 'admin'];

const HOUR = 3600;

/** Makes a token of an agent's own, and shows how its client uses it: once. */
export function Connect(): JSX.Element {
  const { reviews, words } = usePanel();
  const { trans } = words;
  const [clients, setClients] = React.useState<IClient[] | null>(null);
  const [highest, setHighest] = React.useState<Level>('read');
  const [made, setMade] = React.useState<IConnection | null>(null);
  const [busy, setBusy] = React.useState(false);
  const levels = LEVELS.slice(0, LEVELS.indexOf(highest) + 1);

  React.useEffect(() => {
    void reviews.guard(async () => {
      const answer = await reviews.api.clients();
      setClients(answer.clients);
      setHighest(answer.highest);
    });
  }, []);

  const connect = async (form: FormData): Promise<void> => {
    const text = (name: string): string => ((form.get(name) as string) ?? '').trim();
    setBusy(true);
    const answer = await reviews.guard(() =>
      reviews.api.connect({
        client: text('client'),
        agent: text('agent'),
        permission: text('permission') as Level,
        paths: text('paths')
          .split(',')
          .map(path => path.trim())
          .filter(Boolean),
        expires_in: text('expires') ? Number(text('expires')) : null
      })
    );
    setBusy(false);
    if (answer) {
      setMade(answer);
    }
  };

  if (made) {
    return <Made made={made} done={() => setMade(null)} />;
  }
  return (
    <form
      className="jp-McpConnect"
      onSubmit={event => {
        event.preventDefault();
        void connect(new FormData(event.currentTarget));
      }}
    >
      <label>
        <span>{trans.__('Client')}</span>
        <select name="client" className="jp-McpSelect">
          {clients?.map(client => (
            <option key={client.id} value={client.id}>
              {client.name}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>{trans.__('Name')}</span>
        <input
          name="agent"
          required
          className="jp-McpInput"
          defaultValue={trans.__('Claude')}
        />
      </label>
      <label>
        <span>{trans.__('Level')}</span>
        <select
          name="permission"
          className="jp-McpSelect"
          key={highest}
          defaultValue={levels.includes('write') ? 'write' : highest}
        >
          {levels.map(level => (
            <option key={level} value={level}>
              {words.level(level)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <span>{trans.__('Only in')}</span>
        <input
          name="paths"
          className="jp-McpInput"
          placeholder={trans.__('all documents')}
          title={trans.__(
            'Patterns of paths, separated by commas: reports/*.ipynb, data/*'
          )}
        />
      </label>
      <label>
        <span>{trans.__('For')}</span>
        <select name="expires" className="jp-McpSelect" defaultValue={String(24 * HOUR)}>
          <option value={HOUR}>{trans.__('an hour')}</option>
          <option value={8 * HOUR}>{trans.__('8 hours')}</option>
          <option value={24 * HOUR}>{trans.__('a day')}</option>
          <option value={30 * 24 * HOUR}>{trans.__('30 days')}</option>
          <option value="">{trans.__('until it is revoked')}</option>
        </select>
      </label>
      <button
        type="submit"
        className="jp-McpButton jp-mod-main"
        aria-disabled={busy || !clients || undefined}
      >
        {trans.__('Make a token')}
      </button>
    </form>
  );
}

function Made(props: { made: IConnection; done: () => void }): JSX.Element {
  const { made } = props;
  const { words } = usePanel();
  const { trans } = words;
  const [copied, setCopied] = React.useState(false);
  // Its first line says where the rest belongs.
  const text = made.configuration.startsWith(made.where)
    ? made.configuration.slice(made.where.length).trimStart()
    : made.configuration;
  return (
    <div className="jp-McpMade" role="status">
      <p>{made.where}</p>
      <pre tabIndex={0} aria-label={trans.__('Configuration')}>
        {text}
      </pre>
      <p className="jp-McpWarning">
        {trans.__('The token is in it and is shown only now. Copy it before you go on.')}
      </p>
      <div className="jp-McpButtons">
        <span className="jp-McpSpace" />
        <Button act={props.done}>{trans.__('Done')}</Button>
        <Button
          kind="main"
          act={() => {
            Clipboard.copyToSystem(text);
            setCopied(true);
          }}
        >
          {copied ? trans.__('Copied') : trans.__('Copy')}
        </Button>
      </div>
    </div>
  );
}

/** Closed until somebody needs it: nothing is asked before. */
export function ConnectSection(): JSX.Element {
  const { words } = usePanel();
  return (
    <Section title={words.trans.__('Connect an agent')} closed>
      <Connect />
    </Section>
  );
}
