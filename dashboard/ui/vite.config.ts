import { defineConfig } from "vite";

// The built page is committed and embedded in the Go binary. File names carry no hash, so that a
// rebuild of the same source changes nothing; the server's ETags tell browsers of a new one.
export default defineConfig({
  base: "./",
  build: {
    outDir: "../dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    assetsInlineLimit: 0,
    rolldownOptions: {
      output: { entryFileNames: "page.js", chunkFileNames: "[name].js", assetFileNames: "page[extname]" },
    },
  },
  // `npm run dev` takes the data from `go run ./dashboard/internal/shoot dev`.
  server: {
    proxy: {
      "/api": { target: "http://127.0.0.1:7070", ws: true, changeOrigin: true },
      "/timeline.json": "http://127.0.0.1:7070",
    },
  },
});
