/** Numbers, times and rows as people read them. */

import type { Lane, Row } from "../model.ts";

export function bytes(count: number): string {
  if (count < 1000) return `${count} B`;
  for (const unit of ["kB", "MB", "GB"]) {
    count /= 1000;
    if (count < 999.5) return `${count < 9.95 ? count.toFixed(1) : Math.round(count)} ${unit}`;
  }
  return `${count.toFixed(1)} GB`;
}

export function milliseconds(span: number): string {
  if (span && span < 1) return `${span.toFixed(1)} ms`;
  if (span < 999.5) return `${Math.round(span)} ms`;
  return seconds(span / 1000);
}

export function seconds(span: number): string {
  if (span < 59.95)
    return `${span < 9.95 ? span.toFixed(1).replace(/\.0$/, "") : Math.round(span)} s`;
  const minutes = Math.round(span / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d`;
}

export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}

const two = (value: number) => String(value).padStart(2, "0");

/** Wall-clock time with milliseconds. */
export function clock(at: number): string {
  const time = new Date(at);
  const millis = String(time.getMilliseconds()).padStart(3, "0");
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${millis}`;
}

/** Epoch milliseconds of a time that is told as a number or in ISO 8601. */
export function epoch(at: number | string): number {
  return typeof at === "number" ? at : Date.parse(at);
}

/** A URL in its parts for reading: what tells it from its neighbours first. */
export function address(url: string): { name: string; host: string } {
  // Not by catching what URL throws: that is slow, and most texts that come here are none.
  const found = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]+)([^#]*)/i.exec(url);
  return found ? { name: found[2] || "/", host: found[1]! } : { name: url.slice(0, 120), host: "" };
}

/** A row in a few words: its lane says already whose words they are. */
export function brief(row: Row): string {
  const name = row.url ? address(row.url).name : "";
  if (row.lane === "network") {
    if (row.phase === "request") return `${row.method ?? "GET"} ${name}`;
    if (row.phase === "response") return `${row.status ?? ""} ${name}`;
    if (row.phase === "end")
      return `done${row.took ? ` in ${milliseconds(row.took)}` : ""} ${name}`;
  }
  if (row.lane === "packets" && row.method && row.url) {
    return `${row.method} ${name}${row.status ? ` → ${row.status}` : ""}`;
  }
  return row.text.replace(PREFIXES[row.lane], "").replace(row.lane === "steps" ? / ok$/ : "", "");
}

const PREFIXES: Record<Lane, RegExp> = {
  steps: /^step /,
  console: /^console \w+: /,
  network: /^$/,
  server: /^server \w+: /,
  packets: /^packet \d+ /,
  other: /^$/,
};
