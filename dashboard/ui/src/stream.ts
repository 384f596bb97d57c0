import { type Delta, PROTOCOL } from "./run";

/** How the page stands with its server. */
export type Connection =
  | { phase: "loading" }
  | { phase: "connected"; missed?: Missed }
  | { phase: "disconnected"; since: number } // milliseconds since 1970
  | { phase: "refused"; reason: string }
  | { phase: "saved"; download: string }; // the run is in the document; download is its timeline.json

/** The time in which nothing came, in milliseconds since 1970, and whether the stream went on where it had stopped. */
export interface Missed { from: number; to: number; resumed: boolean }

export interface Listener {
  delta(d: Delta): void;
  connection(c: Connection): void;
}

const silence = 12_000; // ms without any message, then the connection counts as broken
const firstWait = 200; // ms before the first attempt to reconnect
const longestWait = 2_000;

/**
 * follow reads the state from the server this page came from, then its changes for as long as the
 * page is open. It resumes where it stopped, whatever becomes of the connection.
 */
export function follow(on: Listener): void {
  let at: { epoch: string; seq: number } | undefined;
  let wait = firstWait;
  let since: number | undefined; // when the connection broke
  let epoch: string | undefined; // of the state that was followed until then

  const take = (d: Delta): void => {
    if (d.protocol !== PROTOCOL) throw new Refused(`The server speaks protocol ${d.protocol}, this page ${PROTOCOL}: reload it.`);
    at = { epoch: d.epoch, seq: d.seq };
    on.delta(d);
  };
  const connected = (): void => {
    wait = firstWait;
    const missed = since === undefined || !epoch ? undefined : { from: since, to: Date.now(), resumed: epoch === at?.epoch };
    since = undefined;
    on.connection({ phase: "connected", ...(missed && { missed }) });
  };

  const loop = async (): Promise<never> => {
    for (;;) {
      let refused: string | undefined;
      try {
        await stream(at, take, connected);
      } catch (e) {
        refused = e instanceof Refused ? e.message : undefined;
      }
      if (since === undefined) [since, epoch] = [Date.now(), at?.epoch];
      on.connection(refused ? { phase: "refused", reason: refused } : { phase: "disconnected", since });
      await sleep(wait);
      wait = Math.min(wait * 2, longestWait);
    }
  };
  on.connection({ phase: "loading" });
  void loop();
}

class Refused extends Error {}

/** stream follows one WebSocket until it breaks or falls silent, from where another one stopped, or from the beginning. */
function stream(at: { epoch: string; seq: number } | undefined, take: (d: Delta) => void, connected: () => void): Promise<void> {
  const url = new URL("api/v1/stream", location.href);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.search = at ? new URLSearchParams({ epoch: at.epoch, since: String(at.seq) }).toString() : "";
  url.hash = "";
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    let watchdog = 0;
    let first = true;
    const end = (error?: unknown): void => {
      clearTimeout(watchdog);
      socket.onmessage = socket.onclose = null;
      socket.close();
      error ? reject(error) : resolve();
    };
    const alive = (): void => {
      clearTimeout(watchdog);
      watchdog = window.setTimeout(end, silence);
    };
    alive();
    socket.onclose = () => end();
    socket.onmessage = (message) => {
      alive();
      try {
        take(JSON.parse(message.data));
      } catch (e) {
        end(e);
        return;
      }
      if (first) connected();
      first = false;
    };
  });
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
