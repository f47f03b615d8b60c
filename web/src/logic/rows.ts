/** Rows kept compactly: what lists ask of every row in typed columns, the rest as packed JSON.
 *
 * A page stays open for days. As objects, a hundred thousand rows would make every collection of
 * garbage walk through them; as bytes they cost their length, and only those in view are unpacked.
 */

import { LANES, LEVELS, type Lane, type Level, type Row } from "../model.ts";

const BLOCK = 4096;
const FIRST_BYTES = 1 << 18;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** BLOCK rows; the whole block is let go at once. */
class Block {
  readonly at = new Float64Array(BLOCK);
  readonly lane = new Uint8Array(BLOCK);
  readonly level = new Uint8Array(BLOCK);
  /** Hash of the exchange, 0 for none. */
  readonly exchange = new Uint32Array(BLOCK);
  readonly #ends = new Uint32Array(BLOCK);
  #bytes = new Uint8Array(FIRST_BYTES);
  length = 0;

  push(row: Row): void {
    const { at, lane, level, ...rest } = row;
    const n = this.length;
    this.at[n] = at;
    // What a newer server may call otherwise is neither lost nor taken for something else.
    this.lane[n] = LANES.indexOf(LANES.includes(lane) ? lane : "other");
    this.level[n] = LEVELS.indexOf(LEVELS.includes(level) ? level : "info");
    this.exchange[n] = row.req ? hash(row.req) : 0;
    const start = n ? this.#ends[n - 1]! : 0;
    const text = JSON.stringify(rest);
    // A UTF-16 unit takes three bytes of UTF-8 at the most.
    this.#reserve(start + text.length * 3);
    this.#ends[n] = start + encoder.encodeInto(text, this.#bytes.subarray(start)).written;
    this.length = n + 1;
    if (this.length === BLOCK) this.#bytes = this.#bytes.slice(0, this.#ends[n]);
  }

  row(n: number): Row {
    const start = n ? this.#ends[n - 1]! : 0;
    const rest = JSON.parse(decoder.decode(this.#bytes.subarray(start, this.#ends[n])));
    return { ...rest, at: this.at[n], lane: LANES[this.lane[n]!], level: LEVELS[this.level[n]!] };
  }

  #reserve(size: number): void {
    if (size <= this.#bytes.length) return;
    const larger = new Uint8Array(Math.max(size, this.#bytes.length * 2));
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}

/** FNV-1a over UTF-16 units; never 0. */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193);
  return value >>> 0 || 1;
}

/** All rows of one agent, numbered from 0 in the order in which they came. */
export class Rows {
  #blocks: Block[] = [];
  readonly #mostBlocks: number;
  /** The oldest row that is kept. */
  first = 0;
  /** The number that the next row gets. */
  next = 0;

  constructor(most = 64 * BLOCK) {
    this.#mostBlocks = Math.max(2, Math.ceil(most / BLOCK));
  }

  push(row: Row): number {
    let block = this.#blocks.at(-1);
    if (!block || block.length === BLOCK) {
      block = new Block();
      this.#blocks.push(block);
      if (this.#blocks.length > this.#mostBlocks) {
        this.#blocks.shift();
        this.first += BLOCK;
      }
    }
    block.push(row);
    return this.next++;
  }

  get(n: number): Row | undefined {
    return this.#block(n)?.row(n % BLOCK);
  }

  at(n: number): number {
    return this.#block(n)?.at[n % BLOCK] ?? 0;
  }

  lane(n: number): Lane {
    return LANES[this.#block(n)?.lane[n % BLOCK] ?? 0]!;
  }

  level(n: number): Level {
    return LEVELS[this.#block(n)?.level[n % BLOCK] ?? 0]!;
  }

  /** Hash of the exchange that a row belongs to, 0 for none. */
  exchange(n: number): number {
    return this.#block(n)?.exchange[n % BLOCK] ?? 0;
  }

  #block(n: number): Block | undefined {
    return n < this.first || n >= this.next
      ? undefined
      : this.#blocks[Math.floor((n - this.first) / BLOCK)];
  }
}
