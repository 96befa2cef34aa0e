import assert from "node:assert/strict";
import { test } from "node:test";

import { type Board, type BoardEvent, emptyBoard, needsSound, reduceBoard, visibleTiles } from "../src/board.js";
import { AlarmFeed } from "../src/feed.js";
import { describeBoard } from "../src/screen.js";
import { type Alarm, type Severity, crcTrailer, parseAlarm } from "../src/wire.js";

function alarmOf(probe: string, severity: Severity, opened = 100, closed: number | null = null): Alarm {
  return { probe, severity, opened, closed, peakMilliC: 9000 };
}

function play(...events: BoardEvent[]): Board {
  return events.reduce(reduceBoard, emptyBoard);
}

test("a worse alarm asks for attention again", () => {
  const board = play(
    { type: "arrived", alarm: alarmOf("walk-in-01", "warning") },
    { type: "seen", probe: "walk-in-01", person: "k" },
    { type: "arrived", alarm: alarmOf("walk-in-01", "critical") },
  );
  assert.equal(board.tiles["walk-in-01"].reopened, true);
  assert.equal(needsSound(board), true);
});

test("a muted probe shows up when it is critical", () => {
  const muted: BoardEvent = { type: "muted", probe: "pass-03", on: true };
  assert.equal(visibleTiles(play(muted, { type: "arrived", alarm: alarmOf("pass-03", "warning") })).length, 0);
  assert.equal(visibleTiles(play(muted, { type: "arrived", alarm: alarmOf("pass-03", "critical") })).length, 1);
});

test("the end of an earlier alarm does not remove a later one", () => {
  const board = play(
    { type: "arrived", alarm: alarmOf("chest-07", "notice", 500) },
    { type: "arrived", alarm: alarmOf("chest-07", "notice", 100, 400) },
  );
  assert.equal(visibleTiles(board).length, 1);
});

test("rows are worded for people", () => {
  const board = play({ type: "arrived", alarm: alarmOf("chest-07", "warning") });
  assert.deepEqual(describeBoard(board, 4000, false), ["chest-07: 9.0 °C since 1 h 5 min, open"]);
});

test("the sample line of the wire format is read", () => {
  const body = "AL1;chest-07;warning;1700000000;-;-9000;";
  assert.equal(crcTrailer("123456789"), "29B1");
  assert.equal(parseAlarm(body + crcTrailer(body)).peakMilliC, -9000);
});

test("the screen hears of an outage after three failures, and of its end", async () => {
  const heard: boolean[] = [];
  let down = true;
  const feed = new AlarmFeed(
    {
      alarmsAfter: async (cursor) => {
        if (down) throw new Error("down");
        return { cursor: cursor + 1, alarms: [], unreadable: 0 };
      },
    },
    { alarm: () => undefined, connection: (lost) => heard.push(lost) },
    { load: () => 0, save: () => undefined },
    { calm: 100, busy: 10, tolerance: 3, random: () => 0.5 },
  );
  assert.deepEqual([await feed.pollOnce(), await feed.pollOnce(), await feed.pollOnce()], [100, 200, 400]);
  down = false;
  assert.equal(await feed.pollOnce(), 100);
  assert.deepEqual(heard, [true, false]);
});
