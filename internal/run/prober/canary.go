package prober

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// ServeCanary is the server of the Pods of `lapse routes`. It answers every request with the name of this Pod, until
// serveOn after the end of ctx.
func ServeCanary(ctx context.Context, address string, serveOn time.Duration) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("the Pod's name: %w", err)
	}
	answer := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Pod", host)
		w.Header().Set("Content-Length", strconv.Itoa(len(canaryBody)))
		_, _ = io.WriteString(w, canaryBody) // fails only if the client has closed the connection
	}
	server := &http.Server{Addr: address, ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(answer)}
	failed := make(chan error, 1)
	go func() { failed <- server.ListenAndServe() }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	select {
	case <-time.After(serveOn):
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	}
	return server.Close()
}

const canaryBody = "ok\n"
