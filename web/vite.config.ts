import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative } from "node:path";
import { defineConfig, type Plugin } from "vite";

const HERE = import.meta.dirname;
const SITE = join(HERE, "../src/pilothouse/dashboard/site");

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true, recursive: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));

const digest = (path: string) => createHash("sha256").update(readFileSync(path)).digest("hex");

/** Notes from which sources the site was built, so that `make check` sees without Node whether it
 * is fresh. */
const sealed: Plugin = {
  name: "seal",
  apply: "build",
  closeBundle() {
    const sources = ["index.html", "package-lock.json", "tsconfig.json", "vite.config.ts"].map(
      (name) => join(HERE, name),
    );
    const listed = (root: string, paths: string[]) =>
      Object.fromEntries(
        paths.map((path) => [relative(root, path).replaceAll("\\", "/"), digest(path)]).sort(),
      );
    const seal = {
      sources: listed(HERE, [...sources, ...filesIn(join(HERE, "src"))]),
      built: listed(
        SITE,
        filesIn(SITE).filter((path) => !path.endsWith("seal.json")),
      ),
    };
    writeFileSync(join(SITE, "seal.json"), `${JSON.stringify(seal, null, 1)}\n`);
  },
};

export default defineConfig({
  root: HERE,
  plugins: [sealed],
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: SITE,
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    // The policy of the page allows no data: URL but in pictures.
    assetsInlineLimit: 0,
    cssCodeSplit: false,
    reportCompressedSize: false,
  },
  // For work on the page itself: `npm run dev` beside `pilothouse serve`.
  server: { proxy: { "/api": "http://127.0.0.1:4000" } },
});
