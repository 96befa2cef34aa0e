import { type Board, type BoardEvent, emptyBoard, needsSound, reduceBoard, visibleTiles } from "./board.js";
import { LarderClient, type ClientOptions } from "./client.js";
import { AlarmFeed, type CursorKeeper } from "./feed.js";

export interface Preferences {
  fahrenheit: boolean;
  chime: () => void;
  paint: (rows: string[], banner: string | null) => void;
}

/** Connects the feed, the board and whatever paints it. */
export class KitchenScreen {
  private board: Board = emptyBoard;
  private readonly feed: AlarmFeed;
  readonly client: LarderClient;

  constructor(
    options: ClientOptions,
    keeper: CursorKeeper,
    private readonly preferences: Preferences,
    private readonly now: () => number = () => Math.floor(Date.now() / 1000),
  ) {
    this.client = new LarderClient(options);
    this.feed = new AlarmFeed(
      this.client,
      {
        alarm: (alarm) => this.applyEvent({ type: "arrived", alarm }),
        connection: (lost) => this.applyEvent({ type: "connection", lost }),
      },
      keeper,
    );
  }

  open(): () => void {
    this.feed.start();
    return () => this.feed.stop();
  }

  applyEvent(event: BoardEvent): void {
    const next = reduceBoard(this.board, event);
    if (next === this.board) {
      return;
    }
    this.board = next;
    if (event.type === "arrived" && needsSound(next)) {
      this.preferences.chime();
    }
    this.preferences.paint(
      describeBoard(next, this.now(), this.preferences.fahrenheit),
      next.offline ? "No connection, the list may be old" : null,
    );
  }
}

export function describeBoard(board: Board, now: number, fahrenheit: boolean): string[] {
  return visibleTiles(board).map(({ alarm, seenBy }) => {
    const peak = formatTemperature(alarm.peakMilliC, fahrenheit);
    const who = seenBy === null ? "open" : `seen by ${seenBy}`;
    return `${alarm.probe}: ${peak} since ${describeAge(now - alarm.opened)}, ${who}`;
  });
}

export function formatTemperature(milliC: number, fahrenheit: boolean): string {
  const value = fahrenheit ? (milliC * 9) / 5000 + 32 : milliC / 1000;
  return `${value.toFixed(1)} °${fahrenheit ? "F" : "C"}`;
}

export function describeAge(seconds: number): string {
  if (seconds < 60) {
    return "just now";
  }
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function parseDegrees(text: string): number | null {
  const match = /^\s*(-?\d+(?:[.,]\d+)?)\s*°?\s*([cf]?)\s*$/i.exec(text);
  if (match === null) {
    return null;
  }
  const value = Number(match[1].replace(",", "."));
  const celsius = match[2].toLowerCase() === "f" ? ((value - 32) * 5) / 9 : value;
  return Math.round(celsius * 1000);
}
