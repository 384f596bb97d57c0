package loadgen

import (
	"time"
)

// What the packages below keep to themselves, and peers in these tests go by.
const (
	dnsPayload         = 1232     // bytes in a DNS answer
	http2FrameHeader   = 9        // bytes
	http2FrameSize     = 16 << 10 // bytes, the most that a peer must take
	http2Window        = 1 << 20  // bytes of a body that a server may send ahead
	grpcPrefix         = 5        // bytes before a message
	longestGRPCMessage = 32 << 10 // bytes
	searchedBytes      = 1 << 20  // of a body or stream, for the expected text
	mostUnread         = 64 << 10 // bytes on a connection of HTTP/2 on which nothing comes back
	wallTolerance      = 10 * time.Microsecond
)
