import { render } from "preact";
import { House } from "./data/house.ts";
import "./styles/base.css";
import "./styles/frame.css";
import "./styles/lists.css";
import "./styles/panels.css";
import { Dashboard } from "./ui/Dashboard.tsx";

/** The longest that the page waits to be drawn with its first rows: a frame without them takes
 * longer than they do, and they would wait for it. */
const PATIENCE_MS = 150;

const house = new House();

const draw = () => {
  clearTimeout(late);
  unsubscribe();
  render(<Dashboard house={house} />, document.getElementById("app")!);
};
const late = setTimeout(draw, PATIENCE_MS);
const unsubscribe = house.subscribe(() => house.hasNews && draw());
house.start();
