// Package polled is a second way to read replies: one thread, the pacing thread, reads those of many connections,
// instead of a goroutine of each. Such a request costs one wake-up of one thread instead of three: a reply waits in the
// kernel until the thread wakes for the next request, a millisecond at most, and the kernel's stamp (SO_TIMESTAMPNS)
// tells when it came. Only FIN and RST wake the thread at once, because an end has no stamp. Replies are read before
// timed-out requests are ended.
//
// It reads replies that are here whole: plain TCP, HTTP/1.1 or echoed text, up to 4 KiB. Everything else has its
// goroutine: TLS, HTTP/2, WebSocket, UDP, each connection's first request, longer replies.
//
// A stamp is of the wall clock, which may be set. It counts only if wall and monotonic clock went alike since the look
// a millisecond ago, and if it lies between request and reading. A reply without such a stamp is Delayed: answered, its
// duration not known. Then replies wake the thread for a while.
//
// It needs Linux 5.11 (epoll_pwait2). Elsewhere, or where seccomp forbids it, goroutines read, with the same results.
//
// CPU per request, by turns on two quiet cores (go test ./loadgen -run '^$' -bench Reused -benchtime 10000x): 45 to 58
// µs at 2000/s, 69 to 75 with goroutines; 26 to 27 µs at 20 000/s, 34 to 36 with goroutines. At the default rate of 200
// it gains nothing. At 2000/s one request in a hundred leaves 5 µs later. Above some 30 000/s one thread does what two
// did. A connection is free up to 1 ms later; FirstByte of a reply in several packets may be up to 1 ms late. While a
// prober runs, its node's kernel stamps all packets, as under tcpdump.
package polled
