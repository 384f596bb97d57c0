package places

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Half-open connections lock nobody out, and end no request that is under way, over HTTP and over TLS.
func TestConnectionsWithoutARequestMakeRoom(t *testing.T) {
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

// Where every place has a request, a connection waits until one is over.
func TestConnectionWaitsWhereAllPlacesHaveARequest(t *testing.T) {
	began, finish := make(chan bool), make(chan bool)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			began <- true
			<-finish
		}
	}))
	server.Listener = Limit(server.Config, server.Listener, 1)
	server.Start()
	defer server.Close()
	ask := func(path string) net.Conn {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
		return c
	}
	first := ask("/long")
	defer first.Close()
	<-began
	second := ask("/")
	defer second.Close()
	finish <- true
	for _, c := range []net.Conn{first, second} {
		if r, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("%v, %v", r, err)
		}
	}
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
