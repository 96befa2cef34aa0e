import { SwrCache } from "./cache.js";
import { type Alarm, parseAlarm } from "./wire.js";

export interface ClientOptions {
  base: string;
  signIn: () => Promise<Pass>;
  fetcher?: typeof fetch;
  pause?: (ms: number) => Promise<void>;
  now?: () => number;
  attempts?: number;
}

export interface Pass {
  token: string;
  expires: number;
}

export interface FeedPage {
  cursor: number;
  alarms: Alarm[];
  unreadable: number;
}

export type Point = [taken: number, milliC: number];

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly retryAfter: number | null,
  ) {
    super(`answer ${status}`);
    this.name = "ApiError";
  }

  get temporary(): boolean {
    return this.status === 429 || this.status >= 500;
  }
}

const EARLY_RENEWAL_MS = 60_000;

export class LarderClient {
  private pass: Pass | null = null;
  private renewal: Promise<Pass> | null = null;
  private readonly charts: SwrCache<Point[]>;
  private readonly now: () => number;
  private readonly pause: (ms: number) => Promise<void>;

  constructor(private readonly options: ClientOptions) {
    this.now = options.now ?? Date.now;
    this.pause = options.pause ?? ((ms) => new Promise((done) => setTimeout(done, ms)));
    this.charts = new SwrCache({ fresh: 30_000, stale: 300_000, capacity: 40, now: this.now });
  }

  async alarmsAfter(cursor: number): Promise<FeedPage> {
    const page = await this.getJson<{ cursor: number; lines: string[] }>(`/v1/alarms?after=${cursor}`);
    const alarms: Alarm[] = [];
    let unreadable = 0;
    for (const line of page.lines) {
      try {
        alarms.push(parseAlarm(line));
      } catch {
        unreadable++;
      }
    }
    return { cursor: page.cursor, alarms, unreadable };
  }

  chart(probe: string, start: number, end: number): Promise<Point[]> {
    const query = new URLSearchParams({ probe, start: String(start), end: String(end) });
    return this.charts.readThrough(query.toString(), () => this.getJson<Point[]>(`/v1/chart?${query}`));
  }

  private async getJson<T>(path: string): Promise<T> {
    const attempts = this.options.attempts ?? 4;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.fetchOnce<T>(path);
      } catch (error) {
        if (error instanceof ApiError && error.status === 401 && attempt === 1) {
          this.pass = null;
          continue;
        }
        if (attempt >= attempts || (error instanceof ApiError && !error.temporary)) {
          throw error;
        }
        await this.pause(retryDelay(attempt, error));
      }
    }
  }

  private async fetchOnce<T>(path: string): Promise<T> {
    const { token } = await this.ensurePass();
    const answer = await (this.options.fetcher ?? fetch)(this.options.base + path, {
      headers: { authorization: `Bearer ${token}` },
    });
    if (!answer.ok) {
      const wait = answer.headers.get("retry-after");
      throw new ApiError(answer.status, wait === null ? null : Number(wait));
    }
    return (await answer.json()) as T;
  }

  /** Simultaneous callers share one sign-in. */
  private async ensurePass(): Promise<Pass> {
    if (this.pass !== null && this.pass.expires - this.now() > EARLY_RENEWAL_MS) {
      return this.pass;
    }
    this.renewal ??= this.options.signIn().finally(() => {
      this.renewal = null;
    });
    this.pass = await this.renewal;
    return this.pass;
  }
}

export function retryDelay(attempt: number, error: unknown): number {
  if (error instanceof ApiError && error.retryAfter !== null && error.retryAfter >= 0) {
    return Math.min(error.retryAfter * 1000, 60_000);
  }
  return Math.min(250 * 2 ** (attempt - 1), 8_000);
}
