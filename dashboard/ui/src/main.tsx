import { render } from "preact";
import { App } from "./app";
import { Compare, comparedNames } from "./compare";
import { embeddedText, unpack, whole } from "./embedded";
import { fetchDetails } from "./details";
import "./page.css";
import { wait } from "./gesture";
import { Run } from "./run";
import { RunsPage } from "./runspage";
import { type Connection, follow } from "./stream";

// The page keeps one copy of the run, and draws it at most once per frame, when it changed and is whole.
const run = new Run();
let connection: Connection = { phase: "loading" };
let drawing = false;
let shown: string | undefined; // the ID of the run that was drawn last

function draw(): void {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    // What the reader zoomed to or opened belongs to one run: another one starts afresh.
    const id = run.info?.id;
    if (shown && id && id !== shown) history.replaceState(null, "", location.pathname + location.search);
    shown = id ?? shown;
    render(<App key={id} run={run} connection={connection} />, document.getElementById("page")!);
  });
}

const news: (() => void)[] = []; // changes that have come and are not in the run yet
let flushing = 0; // the timer that takes them in

/** take changes the run and has it drawn, once the reader neither pans nor zooms: a gesture is not interrupted by news. */
function take(change: () => void): void {
  news.push(change);
  if (news.length === 1) takeWhenResting(performance.now());
}

function takeWhenResting(came: number): void {
  clearTimeout(flushing);
  const left = wait(came);
  if (left > 0) {
    flushing = window.setTimeout(() => takeWhenResting(came), left);
    return;
  }
  while (news.length) news.shift()!();
}

function connect(c: Connection): void {
  connection = c;
  draw();
}

/** showSaved shows the run that the document itself holds. */
async function showSaved(text: string): Promise<void> {
  connect({ phase: "loading" });
  try {
    const timeline = await unpack(text);
    run.apply(whole(timeline));
    const download = URL.createObjectURL(new Blob([JSON.stringify(timeline)], { type: "application/json" }));
    connect({ phase: "saved", download });
  } catch (e) {
    connect({ phase: "refused", reason: `The run saved in this report cannot be read: ${e instanceof Error ? e.message : e}` });
  }
}

/** followServer shows the run that the server tells of. */
function followServer(): void {
  const renew = fetchDetails(run, take, draw);
  run.onWant = () => queueMicrotask(renew);
  follow({
    delta(d) {
      take(() => {
        run.apply(d);
        if (d.more && !d.head) return;
        draw();
        renew();
      });
    },
    connection: connect,
  });
}

const saved = embeddedText();
const compared = comparedNames(location.search);
const page = document.getElementById("page")!;
if (compared.length) render(<Compare names={compared} />, page);
else if ("runs" in page.dataset) render(<RunsPage />, page); // the server says so (dashboard/page.go)
else if (saved !== undefined) void showSaved(saved);
else followServer();
