/** One row in full: its facts, its body, and what is related to it. */

import type { House } from "../data/house.ts";
import * as api from "../data/api.ts";
import { brief, clock } from "../logic/words.ts";
import type { Moment, Row } from "../model.ts";
import { BodyView } from "./BodyView.tsx";
import { useLoaded, type Loaded } from "./hooks.ts";
import { Panel, Section } from "./Panel.tsx";
import { LANE_TITLES } from "./Timeline.tsx";

interface Props {
  house: House;
  row: Row;
  moment: Loaded<Moment>;
}

/** Shown elsewhere in the panel. */
const TOLD = new Set(["text", "at", "kind", "seq", "timestamp"]);
/** Of use to whoever looks something up, and so shown last. */
const TECHNICAL = new Set([
  "ts",
  "targetId",
  "sessionId",
  "requestId",
  "frameId",
  "loaderId",
  "cdpTime",
  "wallTime",
]);

export function MomentPanel({ house, row, moment }: Props) {
  const { exchanges } = house.feed;
  const place = row.lane === "network" && row.req ? exchanges.find(row.req) : -1;
  const answered = place >= 0 && exchanges.get(place).answered > 0;
  const body = useLoaded(
    answered ? (signal) => api.body(house.agentId, row.req!, signal) : undefined,
    [row.id, answered],
  );
  const { value, refused } = moment;
  return (
    <Panel
      title={LANE_TITLES[row.lane]}
      name={row.key}
      note={clock(row.at)}
      onClose={() => house.select(house.view, house.selected[house.view], false)}
    >
      <p class={`words ${row.level}`}>{String(value?.facts["text"] ?? row.text)}</p>
      {refused && <p class="quiet">{`${refused.message} ${refused.hint}`}</p>}
      {value && value.related.length > 0 && (
        <Section title="Related">
          <ul class="related-rows">
            {value.related.map((other) => (
              <li key={other.id}>
                <button type="button" class={other.level} onClick={() => goTo(house, other)}>
                  <span class="quiet">{LANE_TITLES[other.lane]}</span>
                  <span class="text">{brief(other)}</span>
                  <span class="quiet">{offset(other.at - row.at)}</span>
                  {other.guess && <span class="quiet why">a guess: {other.why}</span>}
                </button>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {answered && (body.value || body.refused) && (
        <Section title="Response body">
          {body.value ? <BodyView {...body.value} /> : <p class="quiet">{body.refused!.message}</p>}
        </Section>
      )}
      {value && <Facts facts={value.facts} />}
    </Panel>
  );
}

function offset(ms: number): string {
  return `${ms < 0 ? "−" : "+"}${Math.abs(Math.round(ms)).toLocaleString("en")} ms`;
}

/** Select a row by its id; those near the one that names it are the likeliest. */
function goTo(house: House, wanted: Row): void {
  const { rows } = house.feed;
  for (let n = rows.next - 1; n >= rows.first; n--) {
    if (rows.at(n) === wanted.at && rows.get(n)!.id === wanted.id) {
      if (house.view !== "timeline") house.show("timeline");
      house.following = false;
      house.select("timeline", n, true);
      return;
    }
  }
}

function Facts({ facts }: { facts: Record<string, unknown> }) {
  const told = Object.entries(facts).filter(
    ([name, value]) => !TOLD.has(name) && value !== null && value !== "" && value !== undefined,
  );
  const tables = told.filter(([, value]) => isTable(value));
  const single = told.filter(([, value]) => !isTable(value));
  const last = ([name]: [string, unknown]) => Number(TECHNICAL.has(name));
  return (
    <>
      {single.length > 0 && (
        <Section title="Facts">
          <Table facts={single.sort((one, other) => last(one) - last(other))} />
        </Section>
      )}
      {tables.map(([name, value]) => (
        <Section key={name} title={name}>
          <Table facts={Object.entries(value as object)} />
        </Section>
      ))}
    </>
  );
}

/** An object of plain values, such as headers. */
function isTable(value: unknown): boolean {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((inner) => typeof inner !== "object");
}

function Table({ facts }: { facts: [string, unknown][] }) {
  return (
    <dl class="facts-list">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>
            {typeof value === "object" ? (
              <BodyView text={JSON.stringify(value)} mimeType="application/json" />
            ) : (
              String(value)
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}
