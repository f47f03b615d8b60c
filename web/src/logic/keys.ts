/** The keyboard: which key does what. The help is made of the same list. */

export const VIEWS = ["timeline", "network", "packets", "page", "failures"] as const;
export type View = (typeof VIEWS)[number];

export type Command =
  | { do: "view"; view: View }
  | { do: "move"; by: number }
  | { do: "edge"; to: "first" | "last" }
  | { do: "open" | "close" | "filter" | "help" | "pause" | "theme" | "troubles" }
  | { do: "agent"; by: number };

interface Binding {
  keys: string[];
  shown: string;
  says: string;
  command: (key: string) => Command;
}

export const BINDINGS: Binding[] = [
  {
    keys: VIEWS.map((_, n) => String(n + 1)),
    shown: "1 – 5",
    says: "Timeline, Network, Packets, Page, Failures",
    command: (key) => ({ do: "view", view: VIEWS[Number(key) - 1]! }),
  },
  {
    keys: ["j", "ArrowDown"],
    shown: "j  ↓",
    says: "Next row",
    command: () => ({ do: "move", by: 1 }),
  },
  {
    keys: ["k", "ArrowUp"],
    shown: "k  ↑",
    says: "Row before",
    command: () => ({ do: "move", by: -1 }),
  },
  {
    keys: ["PageDown"],
    shown: "Page ↓",
    says: "A page down",
    command: () => ({ do: "move", by: 20 }),
  },
  {
    keys: ["PageUp"],
    shown: "Page ↑",
    says: "A page up",
    command: () => ({ do: "move", by: -20 }),
  },
  {
    keys: ["g", "Home"],
    shown: "g  Home",
    says: "First row",
    command: () => ({ do: "edge", to: "first" }),
  },
  {
    keys: ["G", "End"],
    shown: "G  End",
    says: "Newest row, and follow",
    command: () => ({ do: "edge", to: "last" }),
  },
  { keys: ["Enter"], shown: "Enter", says: "Open the row", command: () => ({ do: "open" }) },
  {
    keys: ["Escape"],
    shown: "Esc",
    says: "Close, or leave the filter",
    command: () => ({ do: "close" }),
  },
  { keys: ["/"], shown: "/", says: "Filter", command: () => ({ do: "filter" }) },
  {
    keys: ["e"],
    shown: "e",
    says: "Only errors and warnings",
    command: () => ({ do: "troubles" }),
  },
  { keys: ["p"], shown: "p", says: "Pause, or go on", command: () => ({ do: "pause" }) },
  { keys: ["["], shown: "[", says: "Session before", command: () => ({ do: "agent", by: -1 }) },
  { keys: ["]"], shown: "]", says: "Next session", command: () => ({ do: "agent", by: 1 }) },
  {
    keys: ["t"],
    shown: "t",
    says: "Light, dark, or as the system",
    command: () => ({ do: "theme" }),
  },
  { keys: ["?"], shown: "?", says: "This list", command: () => ({ do: "help" }) },
];

export interface Pressed {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
}

/** Where the key was pressed: a field keeps its letters, a button its Enter, and what is read the
 * keys that scroll it. */
export type Place = "field" | "button" | "reading" | "elsewhere";

const SCROLLING = new Set(["ArrowDown", "ArrowUp", "PageDown", "PageUp", "Home", "End"]);

export function commandOf(pressed: Pressed, place: Place): Command | undefined {
  if (pressed.ctrlKey || pressed.metaKey || pressed.altKey) return undefined;
  if (place === "field" && pressed.key !== "Escape") return undefined;
  if (place === "reading" && SCROLLING.has(pressed.key)) return undefined;
  if (place === "button" && pressed.key === "Enter") return undefined;
  return BINDINGS.find(({ keys }) => keys.includes(pressed.key))?.command(pressed.key);
}
