import assert from "node:assert/strict";
import { test } from "node:test";

import { SwrCache } from "../src/cache.js";
import { ApiError, LarderClient, retryDelay } from "../src/client.js";

function clockedCache(capacity = 2) {
  const clock = { at: 0 };
  const cache = new SwrCache<number>({ fresh: 10, stale: 20, capacity, now: () => clock.at });
  return { cache, clock };
}

const answers = (...values: number[]) => {
  let calls = 0;
  const load = async () => values[Math.min(calls++, values.length - 1)];
  return { load, count: () => calls };
};

test("a stale value is given out while the new one is fetched", async () => {
  const { cache, clock } = clockedCache();
  const { load, count } = answers(1, 2);
  assert.equal(await cache.readThrough("a", load), 1);
  clock.at = 15;
  assert.equal(await cache.readThrough("a", load), 1);
  await new Promise((done) => setImmediate(done));
  assert.equal(await cache.readThrough("a", load), 2);
  assert.equal(count(), 2);
});

test("simultaneous reads share one load", async () => {
  const { cache } = clockedCache();
  const { load, count } = answers(7);
  await Promise.all([cache.readThrough("a", load), cache.readThrough("a", load)]);
  assert.equal(count(), 1);
});

test("the least recently used entry is evicted", async () => {
  const { cache } = clockedCache();
  const { load, count } = answers(1);
  for (const key of ["a", "b", "a", "c", "a"]) {
    await cache.readThrough(key, load);
  }
  assert.equal(count(), 3);
  assert.equal(cache.size, 2);
  assert.equal(cache.invalidate((key) => key === "a"), 1);
});

test("the server decides how long to wait, up to a minute", () => {
  assert.equal(retryDelay(1, new ApiError(429, 5)), 5_000);
  assert.equal(retryDelay(1, new ApiError(503, 900)), 60_000);
  assert.equal(retryDelay(3, new Error("reset")), 1_000);
});

test("an expired pass is renewed once for a refused request", async () => {
  let signIns = 0;
  const client = new LarderClient({
    base: "http://localhost",
    now: () => 0,
    signIn: async () => ({ token: `t${++signIns}`, expires: 1_000_000 }),
    fetcher: async (_url, init) => {
      const headers = init?.headers as Record<string, string>;
      const refused = headers.authorization === "Bearer t1";
      return new Response(refused ? null : '{"cursor":4,"lines":["junk"]}', {
        status: refused ? 401 : 200,
      });
    },
  });
  assert.deepEqual(await client.alarmsAfter(0), { cursor: 4, alarms: [], unreadable: 1 });
  assert.equal(signIns, 2);
});
