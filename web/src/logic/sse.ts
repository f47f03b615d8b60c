/** Server-sent events out of pieces of text. */

export interface ServerEvent {
  event: string;
  data: string;
}

/** Feed it text as it comes; it gives the events that are complete. */
export class Events {
  #rest = "";

  push(piece: string): ServerEvent[] {
    const whole = this.#rest + piece;
    const end = whole.lastIndexOf("\n\n");
    if (end < 0) {
      this.#rest = whole;
      return [];
    }
    this.#rest = whole.slice(end + 2);
    return whole.slice(0, end).split("\n\n").flatMap(read);
  }
}

function read(block: string): ServerEvent[] {
  let event = "message";
  const data: string[] = [];
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length || event !== "message" ? [{ event, data: data.join("\n") }] : [];
}
