/** The pages of the packets' history as one growing list. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as api from "../data/api.ts";
import type { House } from "../data/house.ts";
import type { Packet } from "../model.ts";

interface History {
  packets: Packet[];
  total: number;
  refused: api.Refused | undefined;
  loading: boolean;
  /** Load the next page, if there is one and none is on its way. */
  more: () => void;
  /** Begin anew with the newest. */
  again: () => void;
}

const FRESH_MS = 1_000;
/** How often new packets make the first page be asked for again, at the most. */

interface State {
  packets: Packet[];
  total: number;
  next: string;
  refused: api.Refused | undefined;
  loading: boolean;
}

const EMPTY: State = { packets: [], total: 0, next: "", refused: undefined, loading: true };

export function usePackets(filter: string, house: House): History {
  const [state, setState] = useState<State>(EMPTY);
  const [round, setRound] = useState(0);
  const asking = useRef<AbortController | undefined>(undefined);

  const load = (after: string, kept: Packet[]) => {
    asking.current?.abort();
    const mine = (asking.current = new AbortController());
    api
      .packets(filter, after, mine.signal)
      .then((page) =>
        setState({
          packets: joined(kept, page.packets),
          total: page.total_count,
          next: page.has_more ? (page.next_cursor ?? "") : "",
          refused: undefined,
          loading: false,
        }),
      )
      .catch((error: unknown) => {
        if (mine.signal.aborted) return;
        setState((was) => ({ ...was, refused: error as api.Refused, loading: false }));
      })
      .finally(() => asking.current === mine && (asking.current = undefined));
  };
  useEffect(() => load("", []), [filter, round]);

  // The stream tells of packets by the way; only a list that shows its newest page follows.
  const seen = useRef(0);
  useEffect(() => {
    const timer = setInterval(() => {
      const { rows } = house.feed;
      let fresh = false;
      for (let n = Math.max(seen.current, rows.first); n < rows.next && !fresh; n++) {
        fresh = rows.lane(n) === "packets";
      }
      seen.current = rows.next;
      const list = document.querySelector(".packets [role=listbox]");
      if (fresh && !house.open && list && list.scrollTop === 0) setRound((n) => n + 1);
    }, FRESH_MS);
    return () => clearInterval(timer);
  }, [house]);

  return {
    ...state,
    more: () => {
      if (state.next && !asking.current) load(state.next, state.packets);
    },
    again: () => {
      setState(EMPTY);
      setRound((n) => n + 1);
    },
  };
}

/** Both lists without what stands in both, which paging over a growing history may give. */
function joined(kept: Packet[], page: Packet[]): Packet[] {
  const known = new Set(kept.map(({ id }) => id));
  return [...kept, ...page.filter(({ id }) => !known.has(id))];
}
