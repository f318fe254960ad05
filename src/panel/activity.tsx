import * as React from 'react';

import { CallKind, ICall } from '../protocol';
import { fileName } from '../words';
import {
  Bounded,
  Button,
  Dot,
  Empty,
  Section,
  useNow,
  usePanel,
  useSignal
} from './parts';

interface IFilter {
  agent: string;
  path: string;
  kind: CallKind | '';
}

/** The document in front, whatever that is. */
const CURRENT = '\0current';

/** Every call, as it happens. */
export function Activity(): JSX.Element {
  const { model, words, documents } = usePanel();
  const { trans } = words;
  const [filter, setFilter] = React.useState<IFilter>({ agent: '', path: '', kind: '' });
  useSignal(model.changed, documents.currentChanged);
  const current = documents.currentPath;
  const path = filter.path === CURRENT ? current : filter.path;
  const calls = model.calls.filter(
    call =>
      (!filter.agent || call.agent === filter.agent) &&
      (!filter.kind || call.kind === filter.kind) &&
      (filter.path === '' || call.path === path)
  );
  const paths = [...new Set(model.calls.map(call => call.path))].filter(
    (each): each is string => each !== null
  );
  const kinds: [CallKind, string][] = [
    ['edit', trans.__('edits')],
    ['run', trans.__('runs')],
    ['read', trans.__('reads')],
    ['file', trans.__('files')],
    ['other', trans.__('other')]
  ];
  return (
    <Section
      title={trans.__('Activity')}
      tools={
        calls.length > 0 && (
          <Button
            kind="plain"
            title={trans.__('Download these calls as JSON')}
            act={() => download(calls)}
          >
            {trans.__('Export')}
          </Button>
        )
      }
    >
      <div className="jp-McpFilters">
        <Select
          label={trans.__('Kind')}
          value={filter.kind}
          options={[['', trans.__('all kinds')], ...kinds]}
          set={kind => setFilter({ ...filter, kind: kind as IFilter['kind'] })}
        />
        <Select
          label={trans.__('Agent')}
          value={filter.agent}
          options={[
            ['', trans.__('all agents')],
            ...model.agents.map(agent => [agent.id, agent.name] as [string, string])
          ]}
          set={agent => setFilter({ ...filter, agent })}
        />
        <Select
          label={trans.__('Document')}
          value={filter.path}
          options={[
            ['', trans.__('all documents')],
            [CURRENT, trans.__('this document')],
            ...paths.sort().map(each => [each, each] as [string, string])
          ]}
          set={each => setFilter({ ...filter, path: each })}
        />
      </div>
      {calls.length ? (
        <Bounded
          items={calls}
          step={12}
          className="jp-McpCalls"
          label={trans.__('Activity')}
          row={call => <Call key={call.id} call={call} />}
        />
      ) : (
        <Empty>
          {model.calls.length
            ? trans.__('No call fits these filters.')
            : trans.__('No agent has done anything yet.')}
        </Empty>
      )}
    </Section>
  );
}

const Call = React.memo(function Call(props: { call: ICall }): JSX.Element {
  const { call } = props;
  const { model, words, documents, reviews } = usePanel();
  const { trans } = words;
  const agent = model.agent(call.agent);
  const said = [
    call.path !== null && fileName(call.path),
    words.outcome(call),
    words.verdict(call)
  ].filter(Boolean);
  return (
    <li
      className="jp-McpCall"
      data-call={call.id}
      data-tool={call.tool}
      data-state={call.state}
      data-review={call.review}
    >
      <Dot color={agent?.color} />
      <div className="jp-McpCall-text">
        <div title={call.title}>
          <b>{agent?.name ?? trans.__('An agent')}</b> {call.summary}
        </div>
        <div className="jp-McpCall-more">
          {call.path !== null && (
            <Button
              kind="plain"
              className="jp-McpLink"
              title={trans.__('Show %1', call.path)}
              act={() => documents.show(call.path!, call.cells[0]?.cell_id ?? null)}
            >
              {said[0]}
            </Button>
          )}
          <span>{said.slice(call.path === null ? 0 : 1).join(' · ')}</span>
        </div>
        {call.state === 'running' && call.kind === 'run' && (
          <Button
            kind="warn"
            label={trans.__('Interrupt what %1 runs', agent?.name ?? '')}
            title={trans.__('End what this agent runs; what others run goes on')}
            act={() => reviews.interrupt(call)}
          >
            {trans.__('Interrupt')}
          </Button>
        )}
        {call.error && <div className="jp-McpError">{call.error}</div>}
      </div>
      <span className="jp-McpTime">
        {call.state === 'running' ? (
          <Elapsed since={call.began} />
        ) : (
          words.clock(call.began, model.now())
        )}
      </span>
    </li>
  );
});

function Elapsed(props: { since: number }): JSX.Element {
  const { model, words } = usePanel();
  return <>{words.duration(useNow(model, 1000) - props.since)}</>;
}

function Select(props: {
  label: string;
  value: string;
  options: [string, string][];
  set: (value: string) => void;
}): JSX.Element {
  return (
    <select
      className="jp-McpSelect"
      aria-label={props.label}
      value={props.value}
      onChange={event => props.set(event.target.value)}
    >
      {props.options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}

function download(calls: readonly ICall[]): void {
  const link = document.createElement('a');
  const text = JSON.stringify(calls, undefined, 2);
  link.href = URL.createObjectURL(new Blob([text], { type: 'application/json' }));
  link.download = 'agent-activity.json';
  link.click();
  URL.revokeObjectURL(link.href);
}
