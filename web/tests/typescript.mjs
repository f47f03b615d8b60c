// Lets Node run TypeScript: newer ones do it by themselves, Node 20 needs the builder's help.
import { register } from "node:module";

if (!process.features.typescript) register(new URL("./transform.mjs", import.meta.url));
