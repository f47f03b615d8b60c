/** Where the bars of a waterfall stand: time on one axis, with long idle stretches cut out. */

export interface Span {
  began: number;
  /** When the answer's head came; 0 if it has not. */
  answered: number;
  /** 0 while it is under way. */
  ended: number;
}

/** A stretch of time without long idleness, and the part of the width that shows it (0 to 1). */
export interface Stretch {
  from: number;
  to: number;
  left: number;
  right: number;
}

export interface Tick {
  x: number;
  /** Milliseconds since the first request that is shown. */
  offset: number;
}

export interface Bar {
  left: number;
  /** Until the head of the answer came. */
  waiting: number;
  /** From there to the end. */
  loading: number;
}

const IDLE_MS = 1_500;
/** What is idle for longer is cut out. */
const GAP = 0.02;
const LEAST_MS = 20;
const TICKS = 4;
const ROOM = 0.19;
/** Of the width, for the label of a tick. */

/** The axis on which all of the spans fit. */
export function axis(spans: readonly Span[], now: number): Stretch[] {
  const busy = spans
    .map((span) => ({ from: span.began, to: Math.max(span.began, end(span, now)) }))
    .sort((one, other) => one.from - other.from);
  const joined: { from: number; to: number }[] = [];
  for (const span of busy) {
    const last = joined.at(-1);
    if (last && span.from - last.to <= IDLE_MS) last.to = Math.max(last.to, span.to);
    else joined.push({ ...span });
  }
  for (const stretch of joined) stretch.to = Math.max(stretch.to, stretch.from + LEAST_MS);
  const total = joined.reduce((sum, stretch) => sum + stretch.to - stretch.from, 0);
  // Many gaps share a third of the width at the most.
  const gap = joined.length > 1 ? Math.min(GAP, 0.33 / (joined.length - 1)) : 0;
  const width = 1 - gap * (joined.length - 1);
  let left = 0;
  return joined.map((stretch) => {
    const right = left + ((stretch.to - stretch.from) / total) * width;
    const placed = { ...stretch, left, right };
    left = right + gap;
    return placed;
  });
}

/** Until when a bar reaches. Of an answer whose body nobody reads, Chrome never tells the end. */
function end({ answered, ended }: Span, now: number): number {
  return ended || answered || now;
}

/** Where a time stands on the axis. */
export function position(stretches: readonly Stretch[], at: number): number {
  for (const { from, to, left, right } of stretches) {
    if (at <= from) return left;
    if (at <= to) return left + ((at - from) / (to - from)) * (right - left);
  }
  return stretches.at(-1)?.right ?? 0;
}

export function bar(stretches: readonly Stretch[], span: Span, now: number): Bar {
  const last = end(span, now);
  const left = position(stretches, span.began);
  const middle = position(stretches, span.answered ? Math.min(span.answered, last) : last);
  const right = position(stretches, last);
  return { left, waiting: middle - left, loading: right - middle };
}

/** A few round times over the axis; the first begins at zero. */
export function ticks(stretches: readonly Stretch[]): Tick[] {
  const first = stretches[0];
  if (!first) return [];
  const total = stretches.reduce((sum, { from, to }) => sum + to - from, 0);
  const step = roundStep(total / TICKS);
  const made: Tick[] = [];
  for (const stretch of stretches) {
    let offset = Math.ceil((stretch.from - first.from) / step) * step;
    for (; first.from + offset < stretch.to; offset += step) {
      const x = position(stretches, first.from + offset);
      // Labels need room beside each other, also where a detail leaves little of it, and the one of
      // a tick at the very end would hang over the edge.
      if (x <= 1 - ROOM && x - (made.at(-1)?.x ?? -1) >= ROOM) made.push({ x, offset });
    }
  }
  return made;
}

/** The nearest of 1, 2, 5, 10, 20, 50 … that is not smaller. */
export function roundStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least)!;
}
