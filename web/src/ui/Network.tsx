/** The browser's requests as a waterfall. */

import { useState } from "preact/hooks";
import * as api from "../data/api.ts";
import type { House } from "../data/house.ts";
import { matches } from "../logic/listing.ts";
import { axis, bar, ticks, type Stretch } from "../logic/waterfall.ts";
import { address, count, milliseconds } from "../logic/words.ts";
import type { Exchange } from "../logic/exchanges.ts";
import { useCommands, useLoaded } from "./hooks.ts";
import { MomentPanel } from "./MomentPanel.tsx";
import { TroubleChip } from "./TroubleChip.tsx";
import { VirtualList } from "./VirtualList.tsx";

const ROW_PX = 28;

export function Network({ house }: { house: House }) {
  const { exchanges, rows } = house.feed;
  const [range, setRange] = useState<[number, number]>([0, 40]);
  const [following, setFollowing] = useState(true);
  const places = sifted(house);
  const chosen = house.selected.network;
  const selected = places.indexOf(chosen);
  const exchange = selected >= 0 ? exchanges.get(chosen) : undefined;
  const row = exchange && rows.get(answerOf(house, exchange));
  const moment = useLoaded(
    row && house.open ? (signal) => api.moment(house.agentId, row.id, signal) : undefined,
    [row?.id, house.open],
  );

  // The newest row's time, not this machine's clock, which may be another.
  const now = rows.next ? rows.at(rows.next - 1) : 0;
  const inView = places.slice(range[0], range[1]).map((place) => exchanges.get(place));
  const stretches = axis(inView, now);

  const pick = (to: number, open = house.open) => {
    if (!places.length) return;
    setFollowing(false);
    house.select("network", places[Math.max(0, Math.min(to, places.length - 1))]!, open);
  };
  useCommands(house, (command) => {
    const here = places.indexOf(house.selected.network);
    if (command.do === "move") pick(here < 0 ? range[0] : here + command.by);
    else if (command.do === "edge") pick(command.to === "first" ? 0 : places.length - 1);
    else if (command.do === "open" && here >= 0) pick(here, true);
    else return false;
    return true;
  });

  return (
    <div class="page">
      <div class="toolbar">
        <input
          type="search"
          placeholder="Filter by URL"
          aria-label="Filter by URL"
          aria-keyshortcuts="/"
          value={house.sieve.text}
          onInput={(event) => house.sift({ text: event.currentTarget.value })}
        />
        <TroubleChip house={house} />
        <span class="spring" />
        <span class="quiet count">{count(places.length, "request")}</span>
      </div>
      <div class="split">
        <div class="pane network">
          <div class="exchange head" aria-hidden="true">
            <span>Name</span>
            <span>Method</span>
            <span>Status</span>
            <span>Type</span>
            <span class="number">Time</span>
            <Axis stretches={stretches} />
          </div>
          <div class="body">
            <VirtualList
              label="Requests"
              length={places.length}
              rowHeight={ROW_PX}
              selected={selected}
              following={following}
              onFollowing={setFollowing}
              onSelect={pick}
              onRange={(first, last) => setRange([first, last])}
              classOf={(place) => `exchange ${toneOf(exchanges.get(places[place]!))}`}
              row={(place) => (
                <Line
                  house={house}
                  exchange={exchanges.get(places[place]!)}
                  stretches={stretches}
                  now={now}
                />
              )}
            />
            {!places.length && (
              <p class="empty-note">
                {exchanges.length
                  ? "No request passes the filter."
                  : "The browser has sent no request yet."}
              </p>
            )}
          </div>
        </div>
        {row && house.open && <MomentPanel house={house} row={row} moment={moment} />}
      </div>
    </div>
  );
}

interface LineProps {
  house: House;
  exchange: Exchange;
  stretches: Stretch[];
  now: number;
}

function Line({ house, exchange, stretches, now }: LineProps) {
  const request = house.feed.rows.get(exchange.row);
  const { name, host } = address(request?.url ?? "");
  const { left, waiting, loading } = bar(stretches, exchange, now);
  const percent = (part: number) => `${(part * 100).toFixed(2)}%`;
  return (
    <>
      <span class="name" title={request?.url}>
        {name} <span class="quiet">{host}</span>
      </span>
      <span>{request?.method ?? ""}</span>
      <span class="status">{exchange.failed ? "failed" : exchange.status || "…"}</span>
      <span class="quiet">{request?.type?.toLowerCase() ?? ""}</span>
      <span class="number">{took(exchange)}</span>
      <span class="track">
        <i class="waiting" style={{ left: percent(left), width: percent(waiting) }} />
        <i class="loading" style={{ left: percent(left + waiting), width: percent(loading) }} />
      </span>
    </>
  );
}

function Axis({ stretches }: { stretches: Stretch[] }) {
  return (
    <span class="axis">
      {ticks(stretches).map(({ x, offset }) => (
        <span key={offset} style={{ left: `${(x * 100).toFixed(2)}%` }}>
          {milliseconds(offset)}
        </span>
      ))}
    </span>
  );
}

/** Places of the exchanges that pass the filter. */
function sifted(house: House): number[] {
  const { exchanges, rows } = house.feed;
  const text = house.sieve.text.trim().toLowerCase();
  const places: number[] = [];
  for (let place = exchanges.first; place < exchanges.length; place++) {
    if (house.sieve.troubles && !toneOf(exchanges.get(place))) continue;
    if (text && !matches(rows.get(exchanges.get(place).row)!, text)) continue;
    places.push(place);
  }
  return places;
}

/** The row that tells most: the answer's where there is one. */
function answerOf(house: House, exchange: Exchange): number {
  const { rows } = house.feed;
  const key = rows.exchange(exchange.row);
  for (let n = exchange.last; n > exchange.row; n--) {
    if (rows.exchange(n) === key && rows.get(n)!.phase === "response") return n;
  }
  return exchange.last;
}

function took({ began, answered, ended }: Exchange): string {
  const end = ended || answered;
  return end ? milliseconds(end - began) : "";
}

function toneOf({ failed, status }: Exchange): string {
  return failed || status >= 500 ? "error" : status >= 400 ? "warn" : "";
}
