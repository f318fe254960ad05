import * as React from 'react';

import { mayForget, mayReturn } from '../model';
import { AgentState, IAgent } from '../protocol';
import { fileName } from '../words';
import { Avatar, Button, Empty, Section, useNow, usePanel, useSignal } from './parts';

/** Who is here, what they do, and how to limit or stop them. */
export function Agents(): JSX.Element {
  const { model, reviews, words, follower } = usePanel();
  const { trans } = words;
  useSignal(model.changed, follower.changed);
  const now = useNow(model, 1000);
  const agents = model.agents;
  const running = agents.filter(agent => agent.state !== 'stopped');
  return (
    <Section
      title={trans.__('Agents')}
      tools={
        running.length > 1 && (
          <Button
            kind="warn"
            title={trans.__('Interrupt the runs of all agents and refuse their calls')}
            act={() => reviews.guard(() => reviews.api.stopAll())}
          >
            {trans.__('Stop all')}
          </Button>
        )
      }
    >
      {agents.length ? (
        <ul className="jp-McpAgents" aria-label={trans.__('Agents')}>
          {agents.map(agent => (
            <Agent key={agent.id} agent={agent} now={now} />
          ))}
        </ul>
      ) : (
        <Empty>{trans.__('No agent has been here yet. Connect one below.')}</Empty>
      )}
    </Section>
  );
}

function Agent(props: { agent: IAgent; now: number }): JSX.Element {
  const { agent, now } = props;
  const { reviews, words, follower, documents } = usePanel();
  const { trans } = words;
  const [busy, setBusy] = React.useState(false);
  const following = follower.following === agent.id;
  const during = async (work: () => Promise<unknown>): Promise<void> => {
    setBusy(true);
    await reviews.guard(work);
    setBusy(false);
  };
  const set = (state: AgentState): Promise<void> =>
    during(() => reviews.api.setState(agent.id, state));
  const { path, token } = agent;
  return (
    <li className="jp-McpAgent" data-agent={agent.name} data-state={agent.state}>
      <div className="jp-McpAgent-who">
        <Avatar
          name={agent.name}
          color={agent.color}
          faint={!agent.connected || agent.state === 'stopped'}
        />
        <div className="jp-McpAgent-text">
          <div className="jp-McpAgent-name">
            <b>{agent.name}</b>
            <span className="jp-McpLevel">{words.level(agent.level)}</span>
          </div>
          <div className="jp-McpAgent-doing" title={agent.doing ?? undefined}>
            {words.doing(agent, now)}
          </div>
          {path && (
            <Button
              kind="plain"
              className="jp-McpLink"
              title={trans.__('Show %1', path)}
              act={() => documents.show(path, agent.cell_id)}
            >
              {fileName(path)}
            </Button>
          )}
          {token && agent.can_return !== false && (
            <div className="jp-McpAgent-token">
              {trans.__('token %1: %2', token.id, words.expiry(token.expires, now))}
              {token.paths.length > 0 && ` · ${token.paths.join(', ')}`}
            </div>
          )}
        </div>
      </div>
      <div className="jp-McpButtons">
        {agent.connected && agent.state !== 'stopped' && (
          <Button
            pressed={following}
            label={trans.__('Follow %1', agent.name)}
            title={trans.__('Keep in view what it works on, until you type')}
            act={() => follower.follow(following ? null : agent.id)}
          >
            {following ? trans.__('Following') : trans.__('Follow')}
          </Button>
        )}
        {agent.state === 'active' && (
          <Button
            busy={busy}
            label={trans.__('Pause %1', agent.name)}
            title={trans.__('Refuse its edits and runs; it may go on reading')}
            act={() => set('paused')}
          >
            {trans.__('Pause')}
          </Button>
        )}
        {mayReturn(agent) && (
          <Button
            busy={busy}
            label={trans.__('Let %1 go on', agent.name)}
            title={trans.__('Allow its calls again')}
            act={() => set('active')}
          >
            {trans.__('Let go on')}
          </Button>
        )}
        {agent.state !== 'stopped' && (
          <Button
            kind="warn"
            busy={busy}
            label={trans.__('Stop %1', agent.name)}
            title={
              token
                ? trans.__('Interrupt its runs, refuse its calls and revoke its token')
                : trans.__('Interrupt its runs and refuse its calls')
            }
            act={() => set('stopped')}
          >
            {trans.__('Stop')}
          </Button>
        )}
        {mayForget(agent) && (
          <Button
            kind="plain"
            busy={busy}
            label={trans.__('Forget %1', agent.name)}
            title={trans.__('Take it off this list')}
            act={() => during(() => reviews.api.forget(agent.id))}
          >
            {trans.__('Forget')}
          </Button>
        )}
      </div>
    </li>
  );
}
