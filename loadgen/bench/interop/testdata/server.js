// A server of Node's own http2 and http: node server.js PLAIN SECURE EVENTS CERT KEY, where the first three are ports of 127.0.0.1.
const { readFileSync } = require("node:fs");
const http = require("node:http");
const http2 = require("node:http2");

const [plain, secure, events, cert, key] = process.argv.slice(2);

function serve(stream, headers) {
  stream.on("error", () => {}); // of a client that has left, or a reset of our own
  switch (headers[":path"]) {
    case "/grpc.health.v1.Health/Check":
      stream.respond({ ":status": 200, "content-type": "application/grpc", "x-pod": "pod-a" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(Buffer.from([0, 0, 0, 0, 2, 8, 1]));
      return;
    case "/large":
      stream.respond({ ":status": 200 });
      stream.end(Buffer.alloc(4 << 20));
      return;
    case "/closing": // each session ends gracefully after its fifth request
      stream.respond({ ":status": 200 });
      stream.end("bye");
      if (stream.id >= 9) stream.session.close();
      return;
    case "/reset":
      stream.close(http2.constants.NGHTTP2_INTERNAL_ERROR);
      return;
    case "/hints":
      stream.additionalHeaders({ ":status": 103, link: "</style.css>; rel=preload" });
  }
  stream.respond({ ":status": 200, "x-pod": "pod-a" });
  stream.end("hello");
}

const quiet = (server) => server.on("sessionError", () => {}).on("error", (e) => { throw e; });
// Three large answers that wait for their client pass the usual limit of 10 MB: Node then refuses further streams.
const maxSessionMemory = 1000;
quiet(http2.createServer({ maxSessionMemory })).on("stream", serve).listen(+plain, "127.0.0.1");
quiet(http2.createSecureServer({ maxSessionMemory, cert: readFileSync(cert), key: readFileSync(key) })).on("stream", serve).on("tlsClientError", () => {}).listen(+secure, "127.0.0.1");
http.createServer((request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream", "x-pod": "pod-a" });
  response.write(": welcome\n\n");
  response.write("event: news\ndata: hello\n\n");
}).listen(+events, "127.0.0.1");
