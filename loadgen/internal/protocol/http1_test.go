package protocol

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

func readAll(text string, want wanted) (Reply, error) {
	var r Reply
	err := r.read(bufio.NewReaderSize(strings.NewReader(text), wire.ReadBuffer), &want)
	return r, err
}

func TestRepliesAreReadByTheRules(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	tests := []struct {
		name, text string
		status     int
		last       bool
		err        error
	}{
		{"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 200, false, nil},
		{"length, cut", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", 200, false, wire.ErrTruncated},
		{"length, no body at all", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 200, false, wire.ErrTruncated},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 200, false, nil},
		{"chunked, with extension and trailer", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nab\r\n0\r\nSum: 1\r\n\r\n", 200, false, nil},
		{"chunked, cut within a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", 200, false, wire.ErrTruncated},
		{"chunked, cut before the last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", 200, false, wire.ErrTruncated},
		{"chunked, no number", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 200, false, wire.ErrMalformed},
		{"until closed", "HTTP/1.1 200 OK\r\n\r\nabc", 200, true, nil},
		{"HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", 200, true, nil},
		{"HTTP/1.0 kept", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n", 200, false, nil},
		{"said goodbye", "HTTP/1.1 200 OK\r\nconnection: foo, Close\r\nContent-Length: 0\r\n\r\n", 200, true, nil},
		{"no content", "HTTP/1.1 204 No Content\r\n\r\n", 204, false, nil},
		{"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", 304, false, nil},
		{"interim replies", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, false, nil},
		{"other protocol", "HTTP/1.1 101 Switching Protocols\r\n\r\n", 101, true, nil},
		{"nothing", "", 0, false, io.EOF},
		{"status line cut", "HTTP/1.1 20", 0, false, io.EOF},
		{"header cut", "HTTP/1.1 200 OK\r\nContent-Le", 200, false, io.EOF},
		{"another protocol", "SSH-2.0-OpenSSH_9.2\r\n", 0, false, wire.ErrMalformed},
		{"field without colon", "HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", 200, false, wire.ErrMalformed},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 200, false, wire.ErrMalformed},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", 200, false, wire.ErrMalformed},
		{"strange encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", 200, false, wire.ErrMalformed},
		{"long field", "HTTP/1.1 200 OK\r\nX: " + long + "\r\nContent-Length: 0\r\n\r\n", 200, false, nil},
		{"endless field", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat(long, 30) + "\r\n\r\n", 200, false, wire.ErrMalformed},
		{"endless header", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", headerLimit/6+1) + "\r\n", 200, false, wire.ErrMalformed},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := readAll(test.text, wanted{})
			if !errors.Is(err, test.err) || err == nil != (test.err == nil) {
				t.Fatalf("error %v, want %v", err, test.err)
			}
			if got.Status != test.status || err == nil && got.Last != test.last {
				t.Errorf("status %d last %v, want %d %v", got.Status, got.Last, test.status, test.last)
			}
		})
	}
}

func TestHeadHasNoBody(t *testing.T) {
	r, err := readAll("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", wanted{head: true})
	if err != nil || r.Status != 200 || r.Last {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestBackendIsReadFromItsHeader(t *testing.T) {
	r, err := readAll("HTTP/1.1 200 OK\r\nX-POD: web-1\r\nContent-Length: 0\r\n\r\n", wanted{backendHeader: "x-pod"})
	if err != nil || string(r.Backend) != "web-1" {
		t.Errorf("backend %q, %v", r.Backend, err)
	}
}

func TestExpectedBodyIsFoundAcrossChunks(t *testing.T) {
	const text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
	for want, found := range map[string]bool{"hello": true, "ell": true, "o": true, "hallo": false, "": true} {
		r, err := readAll(text, wanted{body: []byte(want)})
		if err != nil || r.bodyAsExpected != found {
			t.Errorf("%q found: %v, want %v (%v)", want, r.bodyAsExpected, found, err)
		}
	}
}

func TestReplyIsJudged(t *testing.T) {
	only201, err := ParseStatuses("201, 404")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		expect Statuses
		reply  Reply
		want   timeline.Class
	}{
		{Statuses{}, Reply{Status: 200, bodyAsExpected: true}, timeline.OK},
		{Statuses{}, Reply{Status: 302, bodyAsExpected: true}, timeline.OK},
		{Statuses{}, Reply{Status: 404, bodyAsExpected: true}, timeline.HTTP4xx},
		{Statuses{}, Reply{Status: 503, bodyAsExpected: true}, timeline.HTTP5xx},
		{Statuses{}, Reply{Status: 200}, timeline.Body},
		{Statuses{}, Reply{Status: 101, bodyAsExpected: true}, timeline.Body},
		{only201, Reply{Status: 200, bodyAsExpected: true}, timeline.Body},
		{only201, Reply{Status: 404, bodyAsExpected: true}, timeline.OK},
		{only201, Reply{Status: 500, bodyAsExpected: true}, timeline.HTTP5xx},
	}
	for _, test := range tests {
		d := httpExpectation{statuses: test.expect}
		if got, _ := d.Judge(&test.reply); got != test.want {
			t.Errorf("%+v is %v, want %v", test.reply, got, test.want)
		}
	}
}

func TestStatusListsAreChecked(t *testing.T) {
	for _, text := range []string{"2xx", "200-", "300-200", "99", "200,,201", "1000"} {
		if _, err := ParseStatuses(text); err == nil || !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
	set, err := ParseStatuses("200,204,300-399")
	if err != nil {
		t.Fatal(err)
	}
	for code, want := range map[int]bool{200: true, 201: false, 204: true, 299: false, 300: true, 399: true,
		400: false} {
		if set.Contains(code) != want {
			t.Errorf("%d: %v", code, !want)
		}
	}
}

// verdict is what can be said of a reply.
type verdict struct {
	status  int
	whole   bool
	last    bool
	backend string // the first X-Pod that says anything
	found   bool   // the body has what was looked for
	rest    string // what follows the reply
}

// question is what a reply is asked.
type question struct {
	method string
	needle []byte // to look for in the body
	slowly bool   // the reply comes byte by byte
}

// netHTTPVerdict reads as http.Transport does.
func netHTTPVerdict(data []byte, q question) verdict {
	br := bufio.NewReaderSize(bytes.NewReader(data), wire.ReadBuffer)
	for {
		resp, err := http.ReadResponse(br, &http.Request{Method: q.method})
		if err != nil || resp.StatusCode < 100 || resp.ProtoMajor != 1 {
			return verdict{}
		}
		if resp.StatusCode >= 100 && resp.StatusCode <= 199 && resp.StatusCode != 101 {
			continue
		}
		v := verdict{status: resp.StatusCode, last: resp.Close || resp.StatusCode == 101}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return verdict{}
		}
		rest, _ := io.ReadAll(br)
		v.whole, v.rest, v.found = true, string(rest), bytes.Contains(body, q.needle)
		for _, backend := range resp.Header.Values("X-Pod") {
			v.backend = cmp.Or(v.backend, strings.Trim(backend, " \t"))
		}
		return v
	}
}

func ourVerdict(data []byte, q question, r *Reply) verdict {
	var source io.Reader = bytes.NewReader(data)
	if q.slowly {
		source = iotest.OneByteReader(source)
	}
	br := bufio.NewReaderSize(source, wire.ReadBuffer)
	if err := r.read(br, &wanted{head: q.method == http.MethodHead, backendHeader: "x-pod",
		body: q.needle}); err != nil {
		return verdict{}
	}
	rest, _ := io.ReadAll(br)
	return verdict{status: r.Status, whole: true, last: r.Last, backend: string(r.Backend), found: r.bodyAsExpected,
		rest: string(rest)}
}

// Headers may be as large as net/http's client takes them (10 MiB), in lines that are not too long to hold.
func TestLargeHeadersAreReadAsByNetHTTP(t *testing.T) {
	large := func(lines, length int) []byte {
		return []byte("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("a", length-5)+"\r\n", lines) +
			"Content-Length: 2\r\n\r\nok")
	}
	for name, data := range map[string][]byte{
		"300 KB": large(300, 1000), "9 MiB": large(9<<10, 1<<10), "one line of 200 KB": large(1, 200_000),
	} {
		q := question{method: http.MethodGet, needle: []byte("ok")}
		if want, got := netHTTPVerdict(data, q), ourVerdict(data, q, new(Reply)); got != want || !got.whole {
			t.Errorf("%s: we say %+v, net/http %+v", name, got, want)
		}
	}
	if got := ourVerdict(large(1, lineLimit+2*wire.ReadBuffer), question{method: http.MethodGet},
		new(Reply)); got.whole {
		t.Error("a line too long to hold was read")
	}
}

func FuzzRepliesAreReadAsByNetHTTP(f *testing.F) {
	for _, seed := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Sum\r\n\r\n2;x\r\nab\r\n0\r\nSum: 1\r\n\r\nHTTP/1.1",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No\nConnection: close\n\n",
		"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nX: a\r\n b\r\n\tc\r\n\r\nbody",
		"HTTP/1.1 +20 x\r\nContent-Length : 5\r\nA: \x7f\r\n\r\n",
		"HTTP/2.0 200\r\nTransfer-Encoding: chunked \r\n \r\n\r\n0\r\n\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chun\u212Aed\r\nContent-Length: 1,1\r\nContent-Length: 01\r\n\r\n",
		"HTTP/1.1  200\r\n A: b\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: a, content-length\r\n\r\n0\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n",
		"HTTP/1.1 200 OK\r\nX-Pod: a\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 200 OK\r\nX-Pod:\r\nx-pod: b \r\nContent-Length: 3\r\n\r\nabc",
	} {
		f.Add([]byte(seed), false, false)
		f.Add([]byte(seed), true, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, head, slowly bool) {
		if len(data) > lineLimit {
			return // longer than what we read
		}
		q := question{method: http.MethodGet, slowly: slowly}
		if head {
			q.method = http.MethodHead
		}
		q.needle = data[len(data)/2:][:min(2, len(data)-len(data)/2)]
		var r Reply // of one reply after the other, as on a connection, for as long as that does not take too long
		for more, n := true, 0; more && n < 8; n++ {
			want, got := netHTTPVerdict(data, q), ourVerdict(data, q, &r)
			if got != want {
				t.Fatalf("%q\n%s: we say %+v, net/http %+v", data, q.method, got, want)
			}
			data, more = []byte(got.rest), got.whole && !got.last && got.rest != ""
		}
	})
}
