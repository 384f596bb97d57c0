import type { Plot, Theme } from "./paint";
import { Scale } from "./scale";

const width = 18;
const height = 14;

/** Swatch shows in little what something looks like on a row. */
export function Swatch({ theme, draw }: { theme: Theme; draw: (p: Plot) => void }) {
  return (
    <canvas
      class="swatch" key={theme.name} width={2 * width} height={2 * height} aria-hidden="true"
      ref={(canvas) => {
        const ctx = canvas?.getContext("2d");
        if (!ctx) return;
        ctx.setTransform(2, 0, 0, 2, 0, 0);
        draw({ ctx, height, theme, scale: new Scale({ from: 0, to: 1 }, width) });
      }}
    />
  );
}
