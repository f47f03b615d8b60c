/** The history of intercepted packets: filter, table and detail. */

import { useEffect, useState } from "preact/hooks";
import * as api from "../data/api.ts";
import type { House } from "../data/house.ts";
import { bytes, clock, count, milliseconds } from "../logic/words.ts";
import type { Packet } from "../model.ts";
import { FilterBox } from "./FilterBox.tsx";
import { useCommands } from "./hooks.ts";
import { PacketPanel } from "./PacketPanel.tsx";
import { usePackets } from "./packets.ts";
import { TokenForm } from "./TokenForm.tsx";
import { VirtualList } from "./VirtualList.tsx";

const ROW_PX = 26;
const HINT = "They may be any session's. The command `pilothouse token` prints the token for them.";

export function Packets({ house }: { house: House }) {
  const [filter, setFilter] = useState("");
  const history = usePackets(filter, house);
  const { packets, refused } = history;
  const find = () => packets.findIndex(({ id }) => id === house.selected.packets);
  const selected = find();

  const pick = (to: number, open = house.open) => {
    const packet = packets[Math.max(0, Math.min(to, packets.length - 1))];
    if (packet) house.select("packets", packet.id, open);
  };
  useCommands(house, (command) => {
    const here = find();
    if (command.do === "move") pick(here < 0 ? 0 : here + command.by);
    else if (command.do === "edge") pick(command.to === "first" ? 0 : packets.length - 1);
    else if (command.do === "open" && here >= 0) pick(here, true);
    else return false;
    return true;
  });
  // A selection near the end asks for the next page, as scrolling there does.
  useEffect(() => {
    if (selected >= packets.length - 5) history.more();
  }, [selected]);

  if (refused?.status === 401 || refused?.status === 403 || refused?.status === 429) {
    return (
      <TokenForm
        title="The packets are locked"
        hint={refused.status === 429 ? refused.hint : HINT}
        refused={api.interceptToken.value ? refused.message : undefined}
        onToken={(token) => {
          api.interceptToken.value = token;
          history.again();
        }}
      />
    );
  }
  return (
    <div class="page">
      <div class="toolbar top-aligned">
        <FilterBox applied={filter} refused={refused} onApply={setFilter} />
        <span class="quiet count">{count(history.total, "packet")}</span>
      </div>
      <div class="split">
        <div class="pane packets">
          <div class="packet head" aria-hidden="true">
            <span class="number">Id</span>
            <span>At</span>
            <span>Side</span>
            <span>Method</span>
            <span>URL</span>
            <span>Status</span>
            <span class="number">Time</span>
            <span class="number">Length</span>
          </div>
          <div class="body">
            <VirtualList
              label="Packets"
              length={packets.length}
              rowHeight={ROW_PX}
              selected={selected}
              onSelect={pick}
              onRange={(_, last) => last >= packets.length && history.more()}
              classOf={(place) => `packet ${toneOf(packets[place]!)}`}
              row={(place) => <Line packet={packets[place]!} />}
            />
            {!packets.length && <p class="empty-note">{note(history.loading, filter, refused)}</p>}
          </div>
        </div>
        {house.open && selected >= 0 && <PacketPanel house={house} id={house.selected.packets} />}
      </div>
    </div>
  );
}

function Line({ packet }: { packet: Packet }) {
  return (
    <>
      <span class="number quiet">{packet.id}</span>
      <span class="time">{clock(Date.parse(packet.time))}</span>
      <span class="quiet">{packet.direction}</span>
      <span>{packet.method ?? ""}</span>
      <span class="name" title={`${packet.server_name ?? ""}${packet.url ?? ""}`}>
        <span class="quiet">{packet.server_name}</span>
        {packet.url}
      </span>
      <span class="status">{packet.status ?? ""}</span>
      <span class="number quiet">{took(packet)}</span>
      <span class="number">{packet.length === null ? "" : bytes(packet.length)}</span>
    </>
  );
}

function took({ direction, duration_ms }: Packet): string {
  return direction === "response" && duration_ms !== null ? milliseconds(duration_ms) : "";
}

function toneOf({ status }: Packet): string {
  return !status ? "" : status >= 500 ? "error" : status >= 400 ? "warn" : "";
}

function note(loading: boolean, filter: string, refused: api.Refused | undefined): string {
  if (loading) return "";
  if (refused) return refused.position >= 0 ? "" : `${refused.message} ${refused.hint}`;
  return filter ? "No packet matches." : "No packet has been recorded yet.";
}
