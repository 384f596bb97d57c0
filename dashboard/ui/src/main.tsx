import { render } from "preact";
import { App } from "./app";
import "./page.css";
import { Run } from "./run";
import { type Connection, follow } from "./stream";

// The page keeps one copy of the run, and draws it at most once per frame, when it changed and is whole.
const run = new Run();
let connection: Connection = { phase: "loading" };
let drawing = false;

function draw(): void {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    // What the reader zoomed to or opened belongs to one run: another one starts afresh.
    render(<App key={run.info?.id} run={run} connection={connection} />, document.getElementById("page")!);
  });
}

follow({
  delta(d) {
    run.apply(d);
    if (!d.more) draw();
  },
  connection(c) {
    connection = c;
    draw();
  },
});
