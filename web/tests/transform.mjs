import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";

export async function load(url, context, next) {
  if (!url.endsWith(".ts")) return next(url, context);
  const { transformWithOxc } = await import("vite");
  const path = fileURLToPath(url);
  const { code } = await transformWithOxc(await readFile(path, "utf8"), path, { sourcemap: false });
  return { format: "module", source: code, shortCircuit: true };
}
