package faultserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
)

// client returns net/http's, which speaks HTTP/2 with prior knowledge where it is to.
func client(protocol string) *http.Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	if protocol == "sse" {
		transport.Protocols.SetHTTP1(true)
	} else {
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	return &http.Client{Transport: transport}
}

// ask asks s once, with an empty message where gRPC is spoken, and returns the status, what came of the body, and the
// grpc-status.
func ask(ctx context.Context, c *http.Client, s *Server) (status int, text, code string, err error) {
	_, rest, _ := strings.Cut(s.URL(), "://")
	request, err := http.NewRequestWithContext(ctx, "POST", "http://"+rest, bytes.NewReader(make([]byte, 5)))
	if err != nil {
		return 0, "", "", err
	}
	if s.config.Protocol == "sse" {
		request.Method, request.Body, request.ContentLength = "GET", nil, 0
	}
	answer, err := c.Do(request)
	if err != nil {
		return 0, "", "", err
	}
	defer answer.Body.Close()
	if s.config.Protocol == "sse" && answer.StatusCode == 200 { // which does not end
		text, err = bufio.NewReader(answer.Body).ReadString('\n')
	} else {
		var b []byte
		b, err = io.ReadAll(answer.Body)
		text = string(b)
	}
	code = answer.Trailer.Get("Grpc-Status") + answer.Header.Get("Grpc-Status")
	return answer.StatusCode, text, code, err
}

// net/http's client understands each protocol, and meets the faults for what they are.
func TestOtherProtocolsAreWhatTheySay(t *testing.T) {
	for protocol, good := range map[string]string{"h2c": body, "grpc": grpcMessage, "sse": "data: " + body} {
		tests := []struct {
			kind   Kind
			status int
			text   string
			code   string // of grpc
			fails  bool
		}{
			{"", 200, good, "0", false},
			{Goodbye, 200, good, "0", false},
			{Error, 503, body, "14", false},
			{Truncate, 200, "", "", true},
			{Reset, 0, "", "", true},
			{EOF, 0, "", "", true},
		}
		for _, test := range tests {
			t.Run(protocol+" "+string(test.kind), func(t *testing.T) {
				t.Parallel()
				config := Config{Protocol: protocol, Name: "pod-a", Faults: []Fault{{Kind: test.kind, To: time.Hour}}}
				if test.kind == "" {
					config.Faults = nil
				}
				s, err := Start(config)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				if protocol == "grpc" {
					test.text = map[Kind]string{Error: "", "": good, Goodbye: good}[test.kind]
					test.status = min(200, test.status)
				} else {
					test.code = ""
				}
				c := client(protocol)
				defer c.CloseIdleConnections()
				status, text, code, err := ask(t.Context(), c, s)
				switch {
				case test.fails && err == nil:
					t.Errorf("%d %q, and no error", status, text)
				case !test.fails && (err != nil || status != test.status || text != test.text || code != test.code):
					t.Errorf("%d %q %q %v, want %+v", status, text, code, err, test)
				}
			})
		}
	}
}

// A client that gives a stalled request up keeps its connection, and the end of the stall does not disturb the next
// request on it.
func TestStalledStreamsCanBeGivenUp(t *testing.T) {
	s, err := Start(Config{Protocol: "h2c"})
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&http2.Transport{AllowHTTP: true, StrictMaxConcurrentStreams: true}).NewClientConn(tcp) // a pool might open a second one, if it learns late that the first is free
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: conn}
	if _, _, _, err := ask(t.Context(), c, s); err != nil {
		t.Fatal(err)
	}
	answer := s.Stall()
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			for s.Count(Stall) <= i && ctx.Err() == nil {
				runtime.Gosched()
			}
			cancel()
		})
		if _, _, _, err := ask(ctx, c, s); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		cancel()
		watching.Wait()
	}
	answer()
	for range 3 {
		if status, _, _, err := ask(t.Context(), c, s); status != 200 || err != nil {
			t.Errorf("%d %v", status, err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := s.Answered(); s.Accepted() != 1 || s.Count(Stall) != 3 || n != 4 && n != 5 { // the last may have its answer before the server knows
		t.Errorf("%d connections, %d stalled, %d answered", s.Accepted(), s.Count(Stall), s.Answered())
	}
}

func TestUnknownProtocolsAreRefused(t *testing.T) {
	if _, err := Start(Config{Protocol: "gopher"}); err == nil {
		t.Error("it started")
	}
}
