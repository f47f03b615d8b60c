/** Five lanes side by side on one clock. */

import { useMemo } from "preact/hooks";
import type { House } from "../data/house.ts";
import { brief, clock, count } from "../logic/words.ts";
import { LANES, type Lane } from "../model.ts";
import { useCommands, useLoaded } from "./hooks.ts";
import * as api from "../data/api.ts";
import { MomentPanel } from "./MomentPanel.tsx";
import { TroubleChip } from "./TroubleChip.tsx";
import { VirtualList } from "./VirtualList.tsx";

const ROW_PX = 24;
const PAUSE_MS = 1_000;
/** A longer silence is drawn as a line between two rows. */
export const LANE_TITLES: Record<Lane, string> = {
  steps: "Steps",
  console: "Console",
  network: "Network",
  server: "Server log",
  packets: "Packets",
  other: "Other",
};

export function Timeline({ house }: { house: House }) {
  const { listing, feed } = house;
  const length = house.shown;
  const number = house.selected.timeline;
  const row = number >= 0 ? feed.rows.get(number) : undefined;
  const place = listing.find(number);
  const moment = useLoaded(
    row && house.open ? (signal) => api.moment(house.agentId, row.id, signal) : undefined,
    [row?.id, house.open],
  );
  const related = useMemo(() => new Set(moment.value?.related.map(({ id }) => id)), [moment.value]);
  const lanes = LANES.filter((lane) => house.sieve.lanes.has(lane));

  const pick = (to: number, open = house.open) => {
    const kept = Math.max(0, Math.min(to, house.shown - 1));
    if (!house.shown) return;
    house.following = false;
    house.select("timeline", house.listing.number(kept), open);
  };
  useCommands(house, (command) => {
    // Asked anew: a second key may come before the first one has been drawn.
    const here = house.listing.find(house.selected.timeline);
    if (command.do === "move") {
      pick(here >= 0 ? here + command.by : command.by > 0 ? firstInView() : house.shown - 1);
    } else if (command.do === "edge" && command.to === "first") pick(0);
    else if (command.do === "edge") newest(house);
    else if (command.do === "open" && here >= 0) pick(here, true);
    else return false;
    return true;
  });

  const line = (at: number) => {
    const n = listing.number(at);
    const shown = feed.rows.get(n);
    if (!shown) return null;
    const time = clock(shown.at);
    const same =
      at > 0 && clock(feed.rows.at(listing.number(at - 1))).slice(0, 8) === time.slice(0, 8);
    return (
      <>
        <span class="time">
          <span class={same ? "faint" : ""}>{time.slice(0, 8)}</span>
          {time.slice(8)}
        </span>
        <span
          class={`cell ${shown.lane}`}
          style={{ gridColumn: `${lanes.indexOf(shown.lane) + 2} / -1` }}
        >
          <i class="mark" />
          <span class="text">{brief(shown)}</span>
        </span>
      </>
    );
  };
  const classOf = (at: number) => {
    const n = listing.number(at);
    const exchange = feed.rows.exchange(n);
    const same = row && exchange && exchange === feed.rows.exchange(number);
    const known = related.size > 0 && related.has(feed.rows.get(n)?.id ?? "");
    const silence = at > 0 && feed.rows.at(n) - feed.rows.at(listing.number(at - 1)) > PAUSE_MS;
    return `${feed.rows.level(n)}${same || known ? " related" : ""}${silence ? " after-silence" : ""}`;
  };

  return (
    <div class="page">
      <Toolbar house={house} shown={length} />
      <div class="split">
        <div class="pane timeline">
          <div class="lanes head" style={{ "--lanes": lanes.length }} aria-hidden="true">
            <span>Time</span>
            {lanes.map((lane) => (
              <span key={lane}>{LANE_TITLES[lane]}</span>
            ))}
          </div>
          <div class="body">
            <div class="lanes rules" style={{ "--lanes": lanes.length }} aria-hidden="true">
              <span />
              {lanes.map((lane) => (
                <span key={lane} />
              ))}
            </div>
            <VirtualList
              label="Timeline"
              length={length}
              rowHeight={ROW_PX}
              selected={place}
              following={house.following && house.pausedAt === undefined}
              onFollowing={(following) => {
                house.following = following;
                house.changed();
              }}
              onSelect={pick}
              classOf={classOf}
              row={line}
              style={{ "--lanes": lanes.length }}
            />
            {!length && <p class="empty-note">{emptyNote(house)}</p>}
            {!house.following && length > 0 && (
              <button
                type="button"
                class="jump"
                aria-keyshortcuts="G"
                onClick={() => newest(house)}
              >
                Newest ↓
              </button>
            )}
          </div>
        </div>
        {row && house.open && <MomentPanel house={house} row={row} moment={moment} />}
      </div>
    </div>
  );
}

function Toolbar({ house, shown }: { house: House; shown: number }) {
  const { rows, missed } = house.feed;
  const paused = house.pausedAt !== undefined;
  const lost = missed + rows.first;
  return (
    <div class="toolbar">
      <input
        type="search"
        placeholder="Filter by text"
        aria-label="Filter by text"
        aria-keyshortcuts="/"
        value={house.sieve.text}
        onInput={(event) => house.sift({ text: event.currentTarget.value })}
      />
      <div class="chips" role="group" aria-label="Lanes">
        {LANES.map((lane) => (
          <button
            key={lane}
            type="button"
            class="chip"
            aria-pressed={house.sieve.lanes.has(lane)}
            onClick={() => house.toggleLane(lane)}
          >
            {LANE_TITLES[lane]}
          </button>
        ))}
      </div>
      <TroubleChip house={house} />
      <span class="spring" />
      <span class="quiet count" data-rows={rows.next} data-shown={shown}>
        {count(shown, "row")}
        {lost > 0 && ` · ${lost.toLocaleString("en")} older ones gone`}
        {paused && ` · ${(house.listing.length - shown).toLocaleString("en")} waiting`}
      </span>
      <button
        type="button"
        aria-keyshortcuts="p"
        aria-pressed={paused}
        onClick={() => house.pause(!paused)}
      >
        {paused ? "Go on" : "Pause"}
      </button>
    </div>
  );
}

/** Follow the newest row, live. */
function newest(house: House): void {
  house.following = true;
  house.selected.timeline = -1;
  house.pause(false);
}

/** The place of the first row that is wholly in view. */
function firstInView(): number {
  const list = document.querySelector(".timeline [role=listbox]");
  return list ? Math.ceil(list.scrollTop / ROW_PX) : 0;
}

function emptyNote(house: House): string {
  if (house.feed.rows.next)
    return "No row passes the filter, or all are in lanes that are not shown.";
  if (house.connection === "gone") return "The session has ended; its timeline went with it.";
  return "Nothing has happened yet. Steps, console lines, requests and packets appear here as they do.";
}
