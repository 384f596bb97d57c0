package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// switches are what a server's behaviour can be changed by while it runs, by a request to it:
//
//	/ready/off    /ready/on      /readyz says no, or what it says by itself
//	/healthy/off  /healthy/on    the same for /healthz
//	/broken/on    /broken/off    every answer is a 503
//	/crash/3                     the process exits at once with this code
//	/eat/100                     it takes 100 MiB of memory, and keeps them
type switches struct {
	notReady, unhealthy, broken atomic.Bool
	ends                        func() // called before the process exits; may be nil

	mu    sync.Mutex
	eaten [][]byte // guarded by mu
}

func (s *switches) register(mux *http.ServeMux) {
	for path, set := range map[string]func(){
		"/ready/off":   func() { s.notReady.Store(true) },
		"/ready/on":    func() { s.notReady.Store(false) },
		"/healthy/off": func() { s.unhealthy.Store(true) },
		"/healthy/on":  func() { s.unhealthy.Store(false) },
		"/broken/on":   func() { s.broken.Store(true) },
		"/broken/off":  func() { s.broken.Store(false) },
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			set()
			fmt.Fprintln(w, path)
		})
	}
	mux.HandleFunc("/crash/{code}", number("code", s.crash))
	mux.HandleFunc("/eat/{mib}", number("mib", s.eat))
}

func (s *switches) crash(code int) {
	if s.ends != nil {
		s.ends()
	}
	os.Exit(code)
}

// number handles a path that ends in a number.
func number(name string, do func(int)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.PathValue(name))
		if err != nil || n < 0 {
			http.Error(w, fmt.Sprintf("%q is no number", r.PathValue(name)), http.StatusBadRequest)
			return
		}
		do(n)
		fmt.Fprintln(w, r.URL.Path)
	}
}

// eat takes memory and writes to each page of it: what is not written to, the kernel does not hand out.
func (s *switches) eat(mib int) {
	for range mib {
		piece := make([]byte, 1<<20)
		for i := 0; i < len(piece); i += os.Getpagesize() {
			piece[i] = 1
		}
		s.mu.Lock()
		s.eaten = append(s.eaten, piece)
		s.mu.Unlock()
	}
}

// peerAnswers reports whether a URL, on which the readiness depends, answers with a 2xx within a second.
func peerAnswers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode/100 == 2
}
