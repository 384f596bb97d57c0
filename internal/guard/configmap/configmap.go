// Package configmap keeps in a ConfigMap what is known of the last runs of a guard, whose directory goes with its Pod:
// the line of history of each, and what the gate answers about it.
//
//	data:
//	  history.ndjson: |    as in a directory of runs
//	    {"history":1,"run":"lapse-20261126-101500-ab3d",…}
//	  gate.ndjson: |
//	    {"run":"lapse-20261126-101500-ab3d","verdict":"pass",…}
package configmap

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/internal/kube"
)

const (
	MostRuns  = 200       // are kept, the newest of each Service before others
	mostBytes = 512 << 10 // of all of them; the API server takes 1 MiB

	historyKey = "history.ndjson"
	gateKey    = "gate.ndjson"
)

// A Run is what is kept of a run.
type Run struct {
	Line history.Line
	Gate gate.Run // its zero value if only the line could be read
}

// A Map is a ConfigMap that is there. Any goroutine may use it.
type Map struct {
	ConfigMaps kube.ConfigMaps
	Name       string
	Log        *slog.Logger
	Damaged    func(error) // gets what is wrong with the ConfigMap's text: somebody has edited it

	asking  sync.Mutex // one question at a time
	version string     // of the ConfigMap as it is known; empty: it has to be read

	mu   sync.Mutex
	runs []Run // oldest first: those that were read or added
}

// Known returns the runs that were read or added, oldest first.
func (m *Map) Known() []Run {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.runs)
}

// Await reads the ConfigMap once the API server can. An error is its refusal, or that what it has cannot be read.
func (m *Map) Await(ctx context.Context) error {
	for told := false; ; told = true {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := m.Read(call)
		cancel()
		_, newer := errors.AsType[*history.VersionError](err)
		if err == nil || newer || refused(err) || ctx.Err() != nil {
			return err
		}
		if !told {
			m.Log.Warn("the earlier runs are not known yet", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// refused reports whether an error is that of an API server that will not answer otherwise when it is asked again.
func refused(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= 400 && code < 500
}

// Read reads the ConfigMap, and adds its runs to those that are known.
func (m *Map) Read(ctx context.Context) error {
	m.asking.Lock()
	defer m.asking.Unlock()
	return m.read(ctx)
}

func (m *Map) read(ctx context.Context) error {
	object, err := m.ConfigMaps.Get(ctx, m.Name, metav1.GetOptions{})
	if err != nil {
		return m.failed("read", err)
	}
	runs, err := parse(object.Data)
	if _, newer := errors.AsType[*history.VersionError](err); newer {
		return m.failed("read", err)
	}
	if err != nil {
		m.Damaged(m.failed("read all of", err))
	}
	m.version = object.ResourceVersion
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runs = merged(runs, m.runs)
	return nil
}

// Add writes the ConfigMap with more runs: with one write, unless another guard or somebody else has written it since.
// What they have added stays, and what they have damaged is mended.
func (m *Map) Add(ctx context.Context, runs []Run) (err error) {
	m.asking.Lock()
	defer m.asking.Unlock()
	m.mu.Lock()
	m.runs = merged(m.runs, runs)
	m.mu.Unlock()
	for range 3 {
		if m.version == "" {
			if err = m.read(ctx); err != nil {
				return err
			}
		}
		err = m.write(ctx)
		if err == nil {
			return nil
		}
		if m.version = ""; !apierrors.IsConflict(err) {
			break
		}
	}
	return m.failed("write", err)
}

func (m *Map) write(ctx context.Context) error {
	m.mu.Lock()
	data, kept, err := encode(m.runs)
	m.runs = kept
	m.mu.Unlock()
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]string{"resourceVersion": m.version}, "data": data,
	})
	if err != nil {
		return err
	}
	object, err := m.ConfigMaps.Patch(ctx, m.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err == nil {
		m.version = object.ResourceVersion
	}
	return err
}

func (m *Map) failed(what string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%s the ConfigMap %s, which `lapse gen guard` prints: %w", what, m.Name, err)
	}
	return fmt.Errorf("%s the ConfigMap %s: %w", what, m.Name, err)
}

// merged returns the runs of two lists that are kept, oldest first.
func merged(a, b []Run) []Run {
	all := slices.Clone(a)
	for _, r := range b {
		same := func(o Run) bool { return o.Line.Run == r.Line.Run && o.Line.Service == r.Line.Service }
		if i := slices.IndexFunc(all, same); i < 0 {
			all = append(all, r)
		} else if r.Gate.ID != "" {
			all[i] = r
		}
	}
	slices.SortStableFunc(all, func(a, b Run) int {
		return cmp.Or(a.Line.T0.Compare(b.Line.T0), cmp.Compare(a.Line.Run, b.Line.Run))
	})
	for len(all) > MostRuns {
		all = withoutOldest(all)
	}
	return all
}

// withoutOldest returns runs, oldest first, without the first one that is not the newest of its Service: that is what
// the gate answers for. If there is none, the first one goes.
func withoutOldest(runs []Run) []Run {
	newest := map[string]int{}
	for i, r := range runs {
		newest[r.Line.Service] = i
	}
	for i, r := range runs {
		if newest[r.Line.Service] != i {
			return slices.Concat(runs[:i], runs[i+1:])
		}
	}
	return runs[1:]
}

// encode returns a ConfigMap's data, and the runs that are in it: those that fit.
func encode(runs []Run) (data map[string]string, kept []Run, err error) {
	for kept = runs; ; kept = withoutOldest(kept) {
		var lines, gates bytes.Buffer
		for _, r := range kept {
			if err := history.Write(&lines, r.Line); err != nil {
				return nil, runs, err
			}
			if r.Gate.ID == "" {
				continue
			}
			if err := json.NewEncoder(&gates).Encode(r.Gate); err != nil {
				return nil, runs, err
			}
		}
		if lines.Len()+gates.Len() <= mostBytes {
			return map[string]string{historyKey: lines.String(), gateKey: gates.String()}, kept, nil
		}
	}
}

// parse returns the runs in a ConfigMap's data, and what is wrong with it.
func parse(data map[string]string) (runs []Run, err error) {
	lines, unread, err := history.Read(strings.NewReader(data[historyKey]))
	for _, u := range unread {
		err = errors.Join(err, fmt.Errorf("%s: %w", historyKey, u))
	}
	gates := map[string]gate.Run{}
	number := 0
	for text := range strings.Lines(data[gateKey]) {
		number++
		var r gate.Run
		if wrong := json.Unmarshal([]byte(text), &r); wrong != nil || !r.Valid() {
			wrong = cmp.Or(wrong, errors.New("it is no verdict of a run"))
			err = errors.Join(err, fmt.Errorf("%s: line %d: %w", gateKey, number, wrong))
			continue
		}
		gates[r.ID] = r
	}
	for _, l := range lines {
		runs = append(runs, Run{l, gates[l.Run]})
	}
	return runs, err
}
