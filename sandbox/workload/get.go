package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// get is the other half of the image, for tests from inside a pod: it resolves and fetches as any program there
// would, on a fresh connection.
//
//	kubectl exec web-x2kzq -- /workload get http://web.shop/
//	200 web-7fm4p
func get(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, resp.StatusCode, resp.Header.Get("X-Pod"))
	return err
}
