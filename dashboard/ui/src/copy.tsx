import { useEffect, useState } from "preact/hooks";

const shownFor = 2000; // ms

/** CopyButton copies a text, and says that it did. */
export function CopyButton({ name, text, testid }: { name: string; text: () => string; testid: string }) {
  const [state, setState] = useState<"" | "Copied" | "Could not copy">("");
  useEffect(() => {
    if (!state) return;
    const timer = setTimeout(() => setState(""), shownFor);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = (): void => void copyText(text()).then((done) => setState(done ? "Copied" : "Could not copy"));
  return <button type="button" data-testid={testid} onClick={copy}><span role="status">{state || name}</span></button>;
}

/** copyText puts a text on the clipboard, and reports whether it could. A page from another host may not use the clipboard itself. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text);
  }
}

function copySelected(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "unseen";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
