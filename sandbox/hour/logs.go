package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"lapse/sandbox/drill"
)

// logs are those of all servers, held open: the kubelet deletes them with their Pods.
type logs struct {
	pattern string
	end     chan struct{}
	ended   sync.WaitGroup

	mu   sync.Mutex
	open map[string]*os.File // by path
	err  error
}

// openLogs opens each log soon after its container has started, until close is called.
func openLogs(c *drill.Cluster) *logs {
	l := &logs{
		pattern: filepath.Join(c.Dir, "nodes", "*", "var/log/pods", namespace+"_*", "*", "*.log"),
		end:     make(chan struct{}), open: map[string]*os.File{},
	}
	l.ended.Go(func() {
		for {
			select {
			case <-time.After(200 * time.Millisecond): // every server serves for longer
				l.look()
			case <-l.end:
				return
			}
		}
	})
	return l
}

func (l *logs) look() {
	paths, _ := filepath.Glob(l.pattern) // the pattern is right
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, path := range paths {
		if l.open[path] != nil {
			continue
		}
		file, err := os.Open(path)
		switch {
		case err == nil:
			l.open[path] = file
		case !errors.Is(err, os.ErrNotExist):
			l.err = err
		}
	}
}

func (l *logs) close() {
	close(l.end)
	l.ended.Wait()
	for _, file := range l.open {
		file.Close()
	}
}

var answeredLine = regexp.MustCompile(` has answered (\d+) requests`)

// answered returns how many requests all servers have answered: those that have ended say so in their log.
func (l *logs) answered(ctx context.Context, c *drill.Cluster) (sum int, err error) {
	live, err := c.Kubectl(ctx, "-n", namespace, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
	if err != nil {
		return 0, err
	}
	pods := strings.Fields(live)
	for _, pod := range pods {
		text, err := c.Kubectl(ctx, "get", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+":8080/proxy/count")
		if err != nil {
			return 0, err
		}
		var count struct{ Served int }
		if err := json.Unmarshal([]byte(text), &count); err != nil {
			return 0, fmt.Errorf("the count of %s: %w", pod, err)
		}
		sum += count.Served
	}
	l.look()
	l.mu.Lock()
	defer l.mu.Unlock()
	serving := 0
	for path, file := range l.open {
		text, err := io.ReadAll(file)
		if err != nil {
			return 0, err
		}
		if match := answeredLine.FindSubmatch(text); match != nil {
			n, _ := strconv.Atoi(string(match[1]))
			sum += n
		} else if serving++; serving > len(pods) {
			return 0, fmt.Errorf("%s does not say how many requests were answered", path)
		}
	}
	if serving < len(pods) {
		return 0, fmt.Errorf("%d Pods serve, and %d logs are of such", len(pods), serving)
	}
	return sum, l.err
}
