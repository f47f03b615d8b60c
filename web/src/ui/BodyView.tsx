/** A body, laid out for reading. */

import { useMemo, useState } from "preact/hooks";
import { coloured, shown } from "../logic/bodies.ts";
import { bytes } from "../logic/words.ts";

interface Props {
  text: string;
  mimeType: string;
  base64?: boolean;
  /** Whether this is only the beginning. */
  cut?: boolean;
  /** Bytes of the whole. */
  length?: number;
}

const AT_FIRST = 20_000;
/** Characters; the rest is shown when it is asked for. */

export function BodyView({ text, mimeType, base64 = false, cut = false, length }: Props) {
  const [whole, setWhole] = useState(false);
  const body = useMemo(() => shown(text, mimeType, base64, cut), [text, mimeType, base64, cut]);
  const piece = whole ? body.text : body.text.slice(0, AT_FIRST);
  if (body.kind === "empty") return <p class="quiet">Empty</p>;
  if (body.kind === "image")
    return <img class="drawn" src={body.text} alt={`${mimeType}, as a browser draws it`} />;
  if (body.kind === "form") {
    return (
      <dl class="facts-list">
        {body.fields!.map(([name, value], n) => (
          <div key={n}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    );
  }
  return (
    <>
      <pre class={`code ${body.kind}`}>
        {body.kind === "json"
          ? coloured(piece).map(({ text: part, kind }, n) => (
              <span key={n} class={kind}>
                {part}
              </span>
            ))
          : piece}
      </pre>
      {piece.length < body.text.length && (
        <button type="button" onClick={() => setWhole(true)}>
          Show all of {bytes(body.text.length)}
        </button>
      )}
      {cut && (
        <p class="quiet">The beginning{length ? ` of ${bytes(length)}` : ""}; more is not shown.</p>
      )}
    </>
  );
}
