// Package dashboard shows a run as a page in the browser, while it goes on and afterwards. The same page shows a run
// that is saved in its own document (see ui/src/embedded.ts), without any server.
//
// The run's owner puts what there is to show into a [Store], as JSON values under keys. Viewers
// load the page, and follow the state and its changes over a WebSocket.
// Putting never waits for a viewer: it changes a map in memory, and each viewer's own goroutine
// comes by four times a second to see what is new. A viewer that reads slowly or not at all costs
// one goroutine, one message and one socket buffer until its write deadline ends it.
//
//	store := dashboard.NewStore()
//	go dashboard.Serve(ctx, listener, store, dashboard.Options{})
//	store.Put("verdict", verdict)
//
// # Protocol, version 1
//
//	GET /                                 the page
//	GET /api/v1/snapshot                  {protocol, epoch, seq, entries: {KEY: value, …}}
//	GET /api/v1/stream?epoch=E&since=SEQ  WebSocket; the server sends text messages, each one a delta:
//	                                      {protocol, epoch, seq, reset?, more?, head?, put?: {KEY: value},
//	                                      delete?: [KEY]}
//	GET /api/v1/details?part=PART&…       the same for what the state does not hold; at most 64 at once
//	GET /timeline.json                    the whole run as a download, if it is known
//
// Every change of the store raises its sequence number seq. A delta takes whoever holds the state
// at its former seq (the snapshot's, or the delta's before) to its own seq. Deltas are idempotent: a put replaces the
// whole value under its key, a delete of an unknown key is nothing, and only the latest value of a
// key is ever sent, however often it changed in between. Epoch names one store; a restarted server
// has another.
//
// A viewer that lost its connection resumes with the last epoch and seq it saw. If the server can not continue from
// there (another epoch, or so far behind that deletions were forgotten) the first delta carries reset: drop
// everything, what follows is the whole state. A large state comes in several messages, all but the last with more
// set, so that a page can wait with drawing. What may be very long (events, Pods and series) comes last: the message
// with head set says that all else is there, and may be drawn.
//
// The first delta comes at once, further ones at most every 250 ms, and an empty one at least every 5 s as a sign of
// life: a viewer that receives nothing for 12 s should reconnect. Viewers send nothing; a message
// from one ends its connection. Members not described here must be ignored. A reader must refuse a
// protocol it does not know.
//
// The state of a run with many targets holds groups of them: what the page shows first. Targets and their series are
// details, which a viewer asks for when it shows them, and again as often as it likes to have them anew.
//
// The keys, and the JSON Schema of the messages, are in docs/reference/stream.md. Values have the shapes of
// timeline.json; instants are integer nanoseconds after t0.
//
// # Who may look
//
// The page shows names and messages from a cluster, so it answers only requests addressed to a
// loopback name or a host of its options (otherwise a hostile site could rebind its own name to
// 127.0.0.1 and read everything), and opens the WebSocket only to pages of the same origin. There is no
// authentication: listen on a loopback address, and let `kubectl port-forward` authorize.
package dashboard
