// Package protocol says what is spoken on a connection: one file for each protocol, and a line in [Protocols]. A
// [Probe] is a target and how to ask it; compiled, it has a [Codec] that writes requests, reads replies and judges
// them, with a [Dialog] for each connection where the protocol keeps a state there.
package protocol
