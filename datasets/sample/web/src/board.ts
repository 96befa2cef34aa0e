import { type Alarm, compareSeverity } from "./wire.js";

export interface Tile {
  alarm: Alarm;
  seenBy: string | null;
  /** Set when the alarm got worse after somebody had seen it. */
  reopened: boolean;
}

export interface Board {
  tiles: Record<string, Tile>;
  muted: string[];
  offline: boolean;
}

export type BoardEvent =
  | { type: "arrived"; alarm: Alarm }
  | { type: "seen"; probe: string; person: string }
  | { type: "muted"; probe: string; on: boolean }
  | { type: "connection"; lost: boolean };

export const emptyBoard: Board = { tiles: {}, muted: [], offline: false };

export function reduceBoard(board: Board, event: BoardEvent): Board {
  switch (event.type) {
    case "arrived":
      return { ...board, tiles: placeAlarm(board.tiles, event.alarm) };
    case "seen":
      return { ...board, tiles: markSeen(board.tiles, event.probe, event.person) };
    case "muted": {
      const others = board.muted.filter((probe) => probe !== event.probe);
      return { ...board, muted: event.on ? [...others, event.probe] : others };
    }
    case "connection":
      return board.offline === event.lost ? board : { ...board, offline: event.lost };
  }
}

function placeAlarm(tiles: Board["tiles"], alarm: Alarm): Board["tiles"] {
  const before = tiles[alarm.probe];
  if (alarm.closed !== null) {
    if (before === undefined || before.alarm.opened !== alarm.opened) {
      return tiles;
    }
    const { [alarm.probe]: _gone, ...rest } = tiles;
    return rest;
  }
  const sameCase = before !== undefined && before.alarm.opened === alarm.opened;
  const worse = sameCase && compareSeverity(alarm.severity, before.alarm.severity) > 0;
  const tile: Tile = {
    alarm,
    seenBy: sameCase && !worse ? before.seenBy : null,
    reopened: worse && before.seenBy !== null,
  };
  return { ...tiles, [alarm.probe]: tile };
}

function markSeen(tiles: Board["tiles"], probe: string, person: string): Board["tiles"] {
  const tile = tiles[probe];
  if (tile === undefined || tile.seenBy !== null) {
    return tiles;
  }
  return { ...tiles, [probe]: { ...tile, seenBy: person, reopened: false } };
}

/** Worst first, then the one that has been open for longest. */
export function visibleTiles(board: Board): Tile[] {
  return Object.values(board.tiles)
    .filter((tile) => tile.alarm.severity === "critical" || !board.muted.includes(tile.alarm.probe))
    .sort(
      (a, b) =>
        compareSeverity(b.alarm.severity, a.alarm.severity) || a.alarm.opened - b.alarm.opened,
    );
}

export function needsSound(board: Board): boolean {
  return visibleTiles(board).some(
    (tile) => tile.seenBy === null && (tile.reopened || tile.alarm.severity !== "notice"),
  );
}
