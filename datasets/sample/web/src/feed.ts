import type { FeedPage } from "./client.js";
import type { Alarm } from "./wire.js";

export interface FeedSource {
  alarmsAfter(cursor: number): Promise<FeedPage>;
}

export interface FeedListener {
  alarm(alarm: Alarm): void;
  connection(lost: boolean): void;
}

export interface CursorKeeper {
  load(): number;
  save(cursor: number): void;
}

export interface FeedOptions {
  calm: number;
  busy: number;
  /** Failures in a row after which the screen is told. */
  tolerance: number;
  random?: () => number;
}

const defaults: FeedOptions = { calm: 10_000, busy: 2_000, tolerance: 3 };

/** Asks for new alarms, more often while there are any. */
export class AlarmFeed {
  private failures = 0;
  private timer: ReturnType<typeof setTimeout> | null = null;
  private stopped = true;

  constructor(
    private readonly source: FeedSource,
    private readonly listener: FeedListener,
    private readonly keeper: CursorKeeper,
    private readonly options: FeedOptions = defaults,
  ) {}

  start(): void {
    if (this.stopped) {
      this.stopped = false;
      this.schedule(0);
    }
  }

  stop(): void {
    this.stopped = true;
    if (this.timer !== null) {
      clearTimeout(this.timer);
      this.timer = null;
    }
  }

  /** One round; returns the time until the next one. */
  async pollOnce(): Promise<number> {
    let page: FeedPage;
    try {
      page = await this.source.alarmsAfter(this.keeper.load());
    } catch {
      return this.noteFailure();
    }
    if (this.failures >= this.options.tolerance) {
      this.listener.connection(false);
    }
    this.failures = 0;
    page.alarms.forEach((alarm) => this.listener.alarm(alarm));
    this.keeper.save(page.cursor);
    return page.alarms.length > 0 ? this.options.busy : this.options.calm;
  }

  private noteFailure(): number {
    this.failures++;
    if (this.failures === this.options.tolerance) {
      this.listener.connection(true);
    }
    const longest = this.options.calm * 6;
    const wait = Math.min(this.options.calm * 2 ** (this.failures - 1), longest);
    return wait * (0.75 + (this.options.random ?? Math.random)() / 2);
  }

  private schedule(delay: number): void {
    this.timer = setTimeout(async () => {
      const next = await this.pollOnce();
      if (!this.stopped) {
        this.schedule(next);
      }
    }, delay);
  }
}
