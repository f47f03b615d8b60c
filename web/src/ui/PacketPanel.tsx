/** One exchange of the history: heads and bodies of both sides. */

import * as api from "../data/api.ts";
import type { House } from "../data/house.ts";
import { clock, milliseconds } from "../logic/words.ts";
import type { Header, PacketDetail, Side } from "../model.ts";
import { BodyView } from "./BodyView.tsx";
import { useLoaded } from "./hooks.ts";
import { Panel, Section } from "./Panel.tsx";

export function PacketPanel({ house, id }: { house: House; id: number }) {
  const { value, refused } = useLoaded((signal) => api.packet(id, signal), [id]);
  return (
    <Panel
      title="Packet"
      name={`packet:${id}`}
      note={value ? clock(Date.parse(value.timing.timestamp)) : ""}
      onClose={() => house.select("packets", id, false)}
    >
      {refused && <p class="bad">{`${refused.message} ${refused.hint}`}</p>}
      {value && (
        <>
          <p class="words">
            {value.method} {value.scheme}://{value.server.name}:{value.server.port}
            {value.url}
          </p>
          <p class="quiet">{summary(value)}</p>
          {value.error && <p class="bad">{value.error}</p>}
          <Half title="Request" side="request" detail={value} />
          <Half title="Response" side="response" detail={value} />
        </>
      )}
    </Panel>
  );
}

function summary(detail: PacketDetail): string {
  return [
    detail.status ? `status ${detail.status}` : "no answer",
    detail.timing.duration_ms === undefined ? "" : milliseconds(detail.timing.duration_ms),
    detail.type === "HTTP" ? detail.version : detail.type,
    detail.server.ip,
    detail.modified ? "modified" : "",
    detail.resend ? "sent again" : "",
  ]
    .filter(Boolean)
    .join(" · ");
}

function Half({ title, side, detail }: { title: string; side: Side; detail: PacketDetail }) {
  const headers = detail.headers[side];
  const text = detail.body?.[side] ?? "";
  const rest = detail.truncated?.[side];
  if (!headers.length && !text) return null;
  return (
    <>
      <Section title={`${title} headers`}>
        <dl class="facts-list">
          {headers.map(({ name, value }, n) => (
            <div key={n}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      </Section>
      {text && (
        <Section title={`${title} body`}>
          <BodyView
            text={text}
            mimeType={contentType(headers)}
            base64={detail.encoding?.[side] === "base64"}
            cut={rest !== undefined}
            {...(rest?.total ? { length: rest.total } : {})}
          />
        </Section>
      )}
    </>
  );
}

function contentType(headers: Header[]): string {
  return headers.find(({ name }) => name.toLowerCase() === "content-type")?.value ?? "";
}
