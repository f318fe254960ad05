import { ICall, ICellDiff } from './protocol';

/** The server's refusal, in its own words. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly body: { remedy?: string; diffs?: ICellDiff[]; call?: ICall }
  ) {
    super(message);
  }

  /** What happened, and what to do next. */
  get text(): string {
    return [this.message, this.body.remedy].filter(Boolean).join(' ');
  }
}

/** No answer came: the network is down, or the server is. */
export class Unanswered extends Error {
  /**
   * @param asked - Whether only something was asked for. A change may have been made all the same.
   */
  constructor(
    readonly asked: boolean,
    readonly cause?: unknown
  ) {
    super('no answer');
  }
}
