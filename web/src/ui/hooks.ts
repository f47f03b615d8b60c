/** What components share. */

import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";
import { Refused } from "../data/api.ts";
import type { Handler, House } from "../data/house.ts";

/** Draw a component anew whenever the house has changed. */
export function useHouse(house: House): void {
  const [, redraw] = useReducer<number, void>((drawn) => drawn + 1, 0);
  useLayoutEffect(() => house.subscribe(() => redraw()), [house]);
}

/** Carry out keyboard commands for as long as the component is there. */
export function useCommands(house: House, handler: Handler): void {
  const newest = useRef(handler);
  newest.current = handler;
  useEffect(() => house.handle((command) => newest.current(command)), [house]);
}

export interface Loaded<T> {
  value?: T;
  refused?: Refused;
}

/** What a request answers; asked anew when one of `on` changes, and given up when no longer used. */
export function useLoaded<T>(
  load: ((signal: AbortSignal) => Promise<T>) | undefined,
  on: readonly unknown[],
): Loaded<T> {
  const [loaded, setLoaded] = useState<Loaded<T>>({});
  useEffect(() => {
    setLoaded({});
    if (!load) return;
    const stopped = new AbortController();
    load(stopped.signal)
      .then((value) => setLoaded({ value }))
      .catch((error: unknown) => {
        if (stopped.signal.aborted) return;
        setLoaded({ refused: error instanceof Refused ? error : new Refused(0, String(error)) });
      });
    return () => stopped.abort();
  }, on);
  return loaded;
}
