/** Lines of the alarm feed, the same that the rules library writes. */

export type Severity = "notice" | "warning" | "critical";

export interface Alarm {
  probe: string;
  severity: Severity;
  opened: number;
  closed: number | null;
  peakMilliC: number;
}

export class LineError extends Error {
  constructor(
    readonly field: string,
    readonly text: string,
  ) {
    super(`bad ${field}: ${JSON.stringify(text)}`);
    this.name = "LineError";
  }
}

const SEVERITIES: readonly Severity[] = ["notice", "warning", "critical"];

export function isSeverity(text: string): text is Severity {
  return (SEVERITIES as readonly string[]).includes(text);
}

export function compareSeverity(a: Severity, b: Severity): number {
  return SEVERITIES.indexOf(a) - SEVERITIES.indexOf(b);
}

export function parseAlarm(line: string): Alarm {
  const cut = line.lastIndexOf(";");
  if (cut < 0 || line.slice(cut + 1) !== crcTrailer(line.slice(0, cut + 1))) {
    throw new LineError("trailer", line);
  }
  const [prefix, probe, severity, opened, closed, peak, ...rest] = line.slice(0, cut).split(";");
  if (prefix !== "AL1" || rest.length > 0 || peak === undefined) {
    throw new LineError("prefix", line);
  }
  if (!isSeverity(severity)) {
    throw new LineError("severity", severity);
  }
  return {
    probe,
    severity,
    opened: wholeNumber("opened", opened),
    closed: closed === "-" ? null : wholeNumber("closed", closed),
    peakMilliC: wholeNumber("peak", peak),
  };
}

function wholeNumber(field: string, text: string): number {
  if (!/^-?\d{1,15}$/.test(text)) {
    throw new LineError(field, text);
  }
  return Number(text);
}

export function crcTrailer(body: string): string {
  let sum = 0xffff;
  for (let i = 0; i < body.length; i++) {
    sum ^= body.charCodeAt(i) << 8;
    for (let bit = 0; bit < 8; bit++) {
      sum = sum & 0x8000 ? ((sum << 1) ^ 0x1021) & 0xffff : (sum << 1) & 0xffff;
    }
  }
  return sum.toString(16).toUpperCase().padStart(4, "0");
}
