/** What a person enters: the pairing code, the port and the profile's name. Pure. */

export const DEFAULT_PORT = 8765;

/** 128 bits in Crockford's base 32, as `pilothouse pair` shows them. */
const CODE_LENGTH = 26;
const CODE_GROUP = 4;
const ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const READ_AS = { I: "1", L: "1", O: "0" };

const LONGEST_NAME = 60;

/** What was typed as `{ code }`, or `{ problem, args }`: a message's key and what fills its gaps. */
export function readCode(typed) {
  const code = Array.from(typed.normalize("NFKC").toUpperCase())
    .filter((letter) => !/[\s\p{Dash}]/u.test(letter))
    .map((letter) => READ_AS[letter] ?? letter);
  if (code.length === 0) return { problem: "codeMissing", args: [] };
  const wrong = code.find((letter) => !ALPHABET.includes(letter));
  if (wrong !== undefined) return { problem: "codeLetter", args: [wrong] };
  if (code.length !== CODE_LENGTH) {
    return { problem: "codeLength", args: [String(CODE_LENGTH), String(code.length)] };
  }
  return { code: code.join("") };
}

/** A code in groups, to be read by people. */
export function showCode(code) {
  return code.match(new RegExp(`.{1,${CODE_GROUP}}`, "g"))?.join("-") ?? "";
}

/** A port as `{ port }`, or `{ problem, args }`. */
export function readPort(typed) {
  const text = String(typed).normalize("NFKC").trim();
  const port = /^\d{1,5}$/.test(text) ? Number(text) : 0;
  return port >= 1 && port <= 65535 ? { port } : { problem: "portWrong", args: [] };
}

/** A name without blanks around it; an empty one becomes the default. */
export function readName(typed, profileId) {
  return typed.trim().slice(0, LONGEST_NAME) || defaultName(profileId);
}

/** A name that tells this Chrome from others until a person gives it a better one. */
export function defaultName(profileId) {
  return `Chrome ${profileId.slice(0, 4)}`;
}
