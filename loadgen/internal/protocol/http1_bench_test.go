//go:build unix

package protocol

import (
	"bufio"
	"strings"
	"testing"

	"lapse/loadgen/internal/wire"
)

// BenchmarkReadReply: the reader allocates nothing in the steady state.
func BenchmarkReadReply(b *testing.B) {
	const text = "HTTP/1.1 200 OK\r\nDate: Fri, 21 Nov 2025 05:00:00 GMT\r\nContent-Type: text/plain\r\nX-Pod: web-1\r\nContent-Length: 3\r\n\r\nok\n"
	source := strings.NewReader(text)
	br := bufio.NewReaderSize(source, wire.ReadBuffer)
	want := wanted{backendHeader: "x-pod"}
	var r Reply
	b.ReportAllocs()
	for b.Loop() {
		source.Reset(text)
		br.Reset(source)
		if err := r.read(br, &want); err != nil {
			b.Fatal(err)
		}
	}
}
