package places

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"lapse/internal/layer"
)

// Half-open connections lock nobody out, and end no request that is under way, over HTTP and over TLS.
func TestConnectionsWithoutARequestMakeRoom(t *testing.T) {
	layer.Real(t)
	for _, encrypted := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %v", encrypted), func(t *testing.T) {
			began, finish := make(chan bool), make(chan bool)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/long" {
					began <- true
					<-finish
				}
				fmt.Fprint(w, "answered")
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.Listener = Limit(server.Config, server.Listener, 8)
			if encrypted {
				server.StartTLS()
			} else {
				server.Start()
			}
			defer server.Close()
			long := make(chan string)
			go func() { long <- get(t, server.Client(), server.URL+"/long") }()
			<-began
			for range 300 {
				c, err := net.Dial("tcp", server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprint(c, "GET / HTTP/1.1\r\n")
			}
			if got := get(t, server.Client(), server.URL); got != "answered" {
				t.Errorf("behind 300 half-open connections: %q", got)
			}
			close(finish)
			if got := <-long; got != "answered" {
				t.Errorf("the request that was under way: %q", got)
			}
		})
	}
}

// Where every place has a request, a connection waits until the answer to one has been sent.
func TestConnectionWaitsWhereAllPlacesHaveARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "answered") })}
		ln := pipes{accept: make(chan net.Conn), sending: make(chan bool)}
		done := make(chan bool)
		go func() {
			defer close(done)
			_ = server.Serve(Limit(server, ln, 1)) // http.ErrServerClosed
		}()
		ask := func() *bufio.Reader {
			c, accepted := net.Pipe()
			t.Cleanup(func() { c.Close() })
			ln.accept <- pipe{accepted, ln.sending}
			go fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			return bufio.NewReader(c)
		}
		first := ask()
		synctest.Wait() // the handler has returned, and the server waits to send its answer
		second := ask()
		synctest.Wait()
		for i, c := range []*bufio.Reader{first, second} {
			ln.sending <- true
			r, err := http.ReadResponse(c, nil)
			if err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
			if body, err := io.ReadAll(r.Body); string(body) != "answered" {
				t.Errorf("connection %d: %q, %v", i, body, err)
			}
		}
		server.Close()
		<-done
	})
}

// pipes is a listener whose connections send when the test lets them.
type pipes struct {
	accept  chan net.Conn
	sending chan bool
}

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.accept
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	close(p.accept)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

type pipe struct {
	net.Conn
	sending chan bool
}

func (p pipe) Write(b []byte) (int, error) {
	<-p.sending
	return p.Conn.Write(b)
}

func get(t *testing.T, client *http.Client, url string) string {
	resp, err := client.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}
