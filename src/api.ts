import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import {
  AgentState,
  IAgent,
  ICall,
  ICellDiff,
  IClient,
  IProposal,
  IState,
  Level,
  ROOT,
  Verdict
} from './protocol';
import { Refused, Unanswered } from './refused';

export interface IConnectRequest {
  client: string;
  agent: string;
  permission: Level;
  paths: string[];
  /** Seconds, or null if it is good until it is revoked. */
  expires_in: number | null;
}

export interface IConnection {
  id: string;
  token: string;
  configuration: string;
  where: string;
}

/** The panel's requests. Token, XSRF and base URL are ServerConnection's work. */
export class Api {
  constructor(readonly settings: ServerConnection.ISettings) {}

  state(): Promise<IState> {
    return this._ask('state');
  }

  /** The diffs of a call, as far as they fit into one answer; or only that of one cell. */
  async diffs(callId: string, cellId?: string): Promise<ICellDiff[]> {
    const query = cellId === undefined ? '' : `?cell_id=${id(cellId)}`;
    const { diffs } = await this._ask<{ diffs: ICellDiff[] }>(
      `calls/${id(callId)}${query}`
    );
    return cellId === undefined ? diffs : diffs.filter(each => each.cell_id === cellId);
  }

  review(
    callId: string,
    action: Verdict,
    more: { cell_id?: string; force?: boolean } = {}
  ): Promise<ICall> {
    return this._ask(`calls/${id(callId)}`, 'POST', { action, ...more });
  }

  /** End what the agent of a call runs, and nothing of others. */
  interrupt(callId: string): Promise<ICall> {
    return this._ask(`calls/${id(callId)}`, 'POST', { action: 'interrupt' });
  }

  /** Only these calls: others may have come since somebody looked. */
  reviewAll(
    action: Verdict,
    calls: readonly string[]
  ): Promise<{ calls: ICall[]; conflicts: { call: string; message: string }[] }> {
    return this._ask('review', 'POST', { action, calls });
  }

  setState(agentId: string, state: AgentState): Promise<IAgent> {
    return this._ask(`agents/${id(agentId)}`, 'PATCH', { state });
  }

  stopAll(): Promise<{ agents: IAgent[] }> {
    return this._ask('agents', 'PATCH', { state: 'stopped' });
  }

  forget(agentId: string): Promise<void> {
    return this._ask(`agents/${id(agentId)}`, 'DELETE');
  }

  async proposalDiffs(proposalId: string): Promise<ICellDiff[]> {
    const answer = await this._ask<{ diffs: ICellDiff[] }>(`proposals/${id(proposalId)}`);
    return answer.diffs;
  }

  decide(
    proposalId: string,
    action: 'merge' | 'discard',
    more: { cells?: string[]; force?: boolean } = {}
  ): Promise<IProposal> {
    return this._ask(`proposals/${id(proposalId)}`, 'POST', { action, ...more });
  }

  clients(): Promise<{ clients: IClient[]; highest: Level }> {
    return this._ask('clients');
  }

  connect(request: IConnectRequest): Promise<IConnection> {
    return this._ask('connect', 'POST', request);
  }

  private async _ask<T>(path: string, method = 'GET', body?: object): Promise<T> {
    let response: Response;
    let text: string;
    try {
      response = await ServerConnection.makeRequest(
        URLExt.join(this.settings.baseUrl, ROOT, path),
        { method, ...(body && { body: JSON.stringify(body) }) },
        this.settings
      );
      text = await response.text();
    } catch (error) {
      throw new Unanswered(method === 'GET', error);
    }
    let data: unknown;
    try {
      data = text ? JSON.parse(text) : undefined;
    } catch {
      data = undefined; // a proxy's page, or Jupyter's
    }
    if (!response.ok) {
      const said = (data ?? {}) as Refused['body'] & { code?: string; message?: string };
      throw new Refused(
        response.status,
        said.code ?? '',
        said.message ?? `${response.status} ${response.statusText}`,
        said
      );
    }
    return data as T;
  }
}

function id(text: string): string {
  return encodeURIComponent(text);
}
