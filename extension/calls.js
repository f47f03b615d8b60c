/** What the server may ask for, and how its params become arguments of chrome.bookmarks. Pure. */

export const METHOD_NOT_FOUND = -32601;
export const INVALID_PARAMS = -32602;

const isText = (value) => typeof value === "string";
const isIndex = (value) => Number.isInteger(value) && value >= 0;

const TEXT = { fits: isText, form: "a string" };
const INDEX = { fits: isIndex, form: "a whole number from 0 up" };
const COUNT = { fits: (value) => isIndex(value) && value > 0, form: "a whole number from 1 up" };
const IDS = {
  fits: (value) => Array.isArray(value) && value.length > 0 && value.every(isText),
  form: "a list of ids, at least one",
};
const QUERY = {
  fits: (value) => isText(value) || isSearch(value),
  form: "a string, or an object of the strings query, url and title",
};

const byId = { needs: { id: TEXT }, args: ({ id }) => [id] };

const METHODS = {
  get: { needs: { ids: IDS }, args: ({ ids }) => [ids] },
  getChildren: byId,
  getSubTree: byId,
  getTree: { args: () => [] },
  getRecent: { needs: { number: COUNT }, args: ({ number }) => [number] },
  search: { needs: { query: QUERY }, args: ({ query }) => [query] },
  create: {
    takes: { parentId: TEXT, index: INDEX, title: TEXT, url: TEXT },
    args: (details) => [details],
  },
  update: {
    needs: { id: TEXT },
    takes: { title: TEXT, url: TEXT },
    args: ({ id, ...changes }) => [id, changes],
  },
  move: {
    needs: { id: TEXT },
    takes: { parentId: TEXT, index: INDEX },
    args: ({ id, ...destination }) => [id, destination],
  },
  remove: byId,
  removeTree: byId,
};

/** A call to make: its method, its params without absent ones, and Chrome's arguments; or a fault. */
export function readCall(method, params = {}) {
  if (!Object.hasOwn(METHODS, method)) {
    const known = Object.keys(METHODS).join(", ");
    const message = `There is no method ${JSON.stringify(method)}. There are: ${known}.`;
    return fault(METHOD_NOT_FOUND, message);
  }
  if (!isObject(params)) return fault(INVALID_PARAMS, `The params of ${method} must be an object.`);
  const { needs = {}, takes = {}, args } = METHODS[method];
  const kinds = { ...needs, ...takes };
  const given = Object.fromEntries(Object.entries(params).filter(([, value]) => value !== null));
  for (const name of Object.keys(needs)) {
    if (Object.hasOwn(given, name)) continue;
    return fault(INVALID_PARAMS, `${method} needs ${name}, ${kinds[name].form}.`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (!Object.hasOwn(kinds, name)) {
      const known = Object.keys(kinds).join(", ") || "nothing";
      const message = `${method} does not take ${JSON.stringify(name)}. It takes: ${known}.`;
      return fault(INVALID_PARAMS, message);
    }
    if (!kinds[name].fits(value)) {
      return fault(INVALID_PARAMS, `${name} of ${method} must be ${kinds[name].form}.`);
    }
  }
  return { method, params: given, args: args(given) };
}

export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isSearch(value) {
  if (!isObject(value)) return false;
  const entries = Object.entries(value);
  const known = ["query", "url", "title"];
  return entries.length > 0 && entries.every(([name, part]) => known.includes(name) && isText(part));
}

function fault(code, message) {
  return { fault: { code, message } };
}
