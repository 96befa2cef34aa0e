export interface CacheOptions {
  /** For so long an entry is used as it is. */
  fresh: number;
  /** For so long after that it is used while a new value is fetched. */
  stale: number;
  capacity: number;
  now?: () => number;
}

interface Entry<T> {
  value: T;
  stored: number;
}

/** Old values now, new values soon; the least recently used goes first. */
export class SwrCache<T> {
  private readonly entries = new Map<string, Entry<T>>();
  private readonly pending = new Map<string, Promise<T>>();
  private readonly now: () => number;

  constructor(private readonly options: CacheOptions) {
    this.now = options.now ?? Date.now;
  }

  async readThrough(key: string, load: () => Promise<T>): Promise<T> {
    const entry = this.entries.get(key);
    if (entry === undefined) {
      return this.reload(key, load);
    }
    const age = this.now() - entry.stored;
    if (age > this.options.fresh + this.options.stale) {
      this.entries.delete(key);
      return this.reload(key, load);
    }
    this.touch(key, entry);
    if (age > this.options.fresh) {
      this.reload(key, load).catch(() => undefined);
    }
    return entry.value;
  }

  invalidate(matches: (key: string) => boolean): number {
    let removed = 0;
    for (const key of [...this.entries.keys()]) {
      if (matches(key)) {
        this.entries.delete(key);
        removed++;
      }
    }
    return removed;
  }

  get size(): number {
    return this.entries.size;
  }

  private reload(key: string, load: () => Promise<T>): Promise<T> {
    const running = this.pending.get(key);
    if (running !== undefined) {
      return running;
    }
    const started = load()
      .then((value) => {
        this.touch(key, { value, stored: this.now() });
        this.evictOverflow();
        return value;
      })
      .finally(() => this.pending.delete(key));
    this.pending.set(key, started);
    return started;
  }

  private touch(key: string, entry: Entry<T>): void {
    this.entries.delete(key);
    this.entries.set(key, entry);
  }

  private evictOverflow(): void {
    for (const key of this.entries.keys()) {
      if (this.entries.size <= this.options.capacity) {
        return;
      }
      this.entries.delete(key);
    }
  }
}
