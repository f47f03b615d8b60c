/** A list of any length that only draws the rows in view. All rows are equally high. */

import type { ComponentChildren, CSSProperties } from "preact";
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from "preact/hooks";

interface Props {
  label: string;
  length: number;
  rowHeight: number;
  /** The place of the selected row, -1 for none. */
  selected: number;
  /** Whether the list keeps to its end as it grows. */
  following?: boolean;
  onFollowing?: (following: boolean) => void;
  onSelect: (place: number, open: boolean) => void;
  /** Told which rows are in view: from the first to before the last. */
  onRange?: (first: number, last: number) => void;
  classOf?: (place: number) => string;
  row: (place: number) => ComponentChildren;
  style?: CSSProperties;
}

const BEYOND = 8;
/** Rows drawn above and below the view, so that scrolling shows no empty stripe. */
const NEAR_END = 2;

export function VirtualList(props: Props) {
  const { length, rowHeight, selected, following = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const scrolled = useRef(0);
  const [, redraw] = useReducer<number, void>((drawn) => drawn + 1, 0);
  // Unknown until the box is there: a guess would have all rows drawn twice.
  const [room, setRoom] = useState(0);
  const end = Math.max(0, length * rowHeight - room);
  // Where the list will be once it has followed its end: the scroll event comes a frame later.
  const top = following ? end : Math.min(scrolled.current, end);
  const first = Math.floor(top / rowHeight);
  const last = Math.min(length, Math.ceil((top + room) / rowHeight));
  const from = Math.max(0, first - BEYOND);
  const until = Math.min(length, last + BEYOND);

  useLayoutEffect(() => {
    const measure = () => setRoom(box.current!.clientHeight);
    const observer = new ResizeObserver(measure);
    observer.observe(box.current!);
    measure();
    return () => observer.disconnect();
  }, []);

  useLayoutEffect(() => {
    if (following) box.current!.scrollTop = end;
  }, [following, end]);

  useLayoutEffect(() => {
    if (selected < 0) return;
    const here = box.current!;
    const above = selected * rowHeight;
    if (above < here.scrollTop) here.scrollTop = above;
    else if (above + rowHeight > here.scrollTop + here.clientHeight) {
      here.scrollTop = above + rowHeight - here.clientHeight;
    }
  }, [selected, rowHeight]);

  useEffect(() => props.onRange?.(first, last), [first, last]);

  const scroll = () => {
    const here = box.current!;
    scrolled.current = here.scrollTop;
    const atEnd = scrolled.current >= end - NEAR_END;
    if (atEnd !== following) props.onFollowing?.(atEnd);
    // A list that follows its end has been drawn there already.
    if (!atEnd || !following) redraw();
  };

  const rows = [];
  // Without keys: an element is used again for the row that takes its place, and none is moved.
  for (let place = from; place < until; place++) {
    rows.push(
      <div
        id={`row-${place}`}
        role="option"
        aria-selected={place === selected}
        aria-setsize={following ? -1 : length}
        aria-posinset={place + 1}
        class={`row ${props.classOf?.(place) ?? ""}`}
        style={{ height: `${rowHeight}px` }}
        onClick={() => props.onSelect(place, true)}
      >
        {props.row(place)}
      </div>,
    );
  }
  const drawn = selected >= from && selected < until;
  return (
    <div
      ref={box}
      class="list"
      role="listbox"
      tabIndex={0}
      aria-label={props.label}
      {...(drawn ? { "aria-activedescendant": `row-${selected}` } : {})}
      style={props.style ?? {}}
      onScroll={scroll}
    >
      <div class="list-height" role="presentation" style={{ height: `${length * rowHeight}px` }}>
        <div role="presentation" style={{ transform: `translateY(${from * rowHeight}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
