/** Bodies made readable. */

export interface Shown {
  kind: "json" | "form" | "text" | "hex" | "image" | "empty";
  /** Of an image, its address. */
  text: string;
  /** Names and values of a form. */
  fields?: [string, string][];
}

const MOST = 400_000;
/** Characters of a body that are laid out anew; a longer one is shown as it is. */

/** Not SVG, which is text and may be more than a picture. */
const DRAWN = /^image\/(png|jpeg|gif|webp|avif|bmp|x-icon|vnd\.microsoft\.icon)$/;

export function shown(text: string, mimeType: string, base64 = false, cut = false): Shown {
  if (!text) return { kind: "empty", text: "" };
  const type = mimeType.split(";")[0]!.trim().toLowerCase();
  if (base64 && DRAWN.test(type) && !cut) {
    return { kind: "image", text: `data:${type};base64,${text}` };
  }
  if (base64) return { kind: "hex", text: hex(text) };
  if (type === "application/x-www-form-urlencoded") {
    return { kind: "form", text, fields: [...new URLSearchParams(text)] };
  }
  if (text.length <= MOST && (type.includes("json") || /^\s*[[{]/.test(text))) {
    const json = indented(text);
    if (json !== undefined) return { kind: "json", text: json };
  }
  return { kind: "text", text };
}

/** JSON with two spaces a level, or undefined if it is none. Numbers keep all of their digits. */
export function indented(text: string): string | undefined {
  try {
    JSON.parse(text);
  } catch {
    return undefined;
  }
  // Token by token: JSON.parse and stringify would round a long number and drop a repeated name.
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
  let made = "";
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  tokens.forEach((token, n) => {
    const before = tokens[n - 1];
    if (token === "}" || token === "]") {
      depth--;
      made += before === "{" || before === "[" ? token : line() + token;
    } else {
      if (before === "{" || before === "[" || before === ",") made += line();
      made += token === ":" ? ": " : token;
      if (token === "{" || token === "[") depth++;
    }
  });
  return made;
}

/** Parts of JSON text for colouring: keys, strings, numbers and words, and what is between. */
export function coloured(json: string): { text: string; kind: string }[] {
  const parts: { text: string; kind: string }[] = [];
  const pattern = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)/g;
  let end = 0;
  for (const found of json.matchAll(pattern)) {
    if (found.index > end) parts.push({ text: json.slice(end, found.index), kind: "" });
    const kind = found[1] ? (found[2] ? "key" : "string") : found[3] ? "number" : "word";
    parts.push({ text: found[0], kind });
    end = found.index + found[0].length;
  }
  if (end < json.length) parts.push({ text: json.slice(end), kind: "" });
  return parts;
}

/** Sixteen bytes a line: offset, values, and the characters that can be shown. */
export function hex(base64: string): string {
  const binary = atob(base64);
  const lines: string[] = [];
  for (let at = 0; at < binary.length; at += 16) {
    const piece = [...binary.slice(at, at + 16)];
    const values = piece.map((c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join(" ");
    const seen = piece.map((c) => (c >= " " && c <= "~" ? c : "·")).join("");
    lines.push(`${at.toString(16).padStart(8, "0")}  ${values.padEnd(47)}  ${seen}`);
  }
  return lines.join("\n");
}
