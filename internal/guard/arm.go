package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lapse/internal/guard/gate"
	"lapse/internal/guard/lead"
)

const armPath = "/v1/arm"

// How long a Service can be armed.
const (
	DefaultArmed = 15 * time.Minute
	leastArmed   = time.Second
	mostArmed    = time.Hour
)

// An Armed says until when a Service is measured at the full rate, if no disruption comes.
type Armed struct {
	Service string    `json:"service"`
	Until   time.Time `json:"until"`
}

var errNotGuarded = errors.New(`it is not guarded: annotate it with lapse/guard: "on"`)

// mostWhy is how many bytes of a sign's name are kept: it may have names from a webhook.
const mostWhy = 200

// arm measures a Service at the full rate, as after a sign, and lets the other guards do so. why names the sign.
func (g *guard) arm(ctx context.Context, name, why string, length time.Duration) (Armed, error) {
	why = strings.ToValidUTF8(why[:min(len(why), mostWhy)], "")
	until := g.now().UTC().Add(length).Truncate(time.Second)
	if err := g.raise(ctx, name, why, length); err != nil {
		return Armed{}, err
	}
	if g.Leader != nil {
		if err := g.Leader.Pass(ctx, lead.Request{Service: name, Until: until, Why: why}); err != nil {
			return Armed{}, fmt.Errorf("%s: only one guard knows that it is armed: try again: %w", name, err)
		}
	}
	return Armed{name, until}, nil
}

// raise is arm for this guard alone.
func (g *guard) raise(ctx context.Context, name, why string, length time.Duration) error {
	g.mu.Lock()
	s := g.services[name]
	g.mu.Unlock()
	if s == nil {
		return fmt.Errorf("%s: %w", name, errNotGuarded)
	}
	s.mu.Lock()
	arm, problem := s.arm, s.status.Problem
	s.mu.Unlock()
	if arm == nil {
		return fmt.Errorf("%s is not measured: %s", name, cmp.Or(problem, "it is about to be"))
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := arm(ctx, why, length); err != nil {
		return fmt.Errorf("arm %s: %w", name, err)
	}
	return nil
}

// armToo does what other guards were asked to, each request once, until ctx ends. If it does not measure the Service
// yet, it does so when it can, until the request is over.
func (g *guard) armToo(ctx context.Context) {
	done := map[lead.Request]bool{}
	for wait(ctx, armTooEvery); ctx.Err() == nil; wait(ctx, armTooEvery) {
		passed := g.Leader.Passed()
		maps.DeleteFunc(done, func(r lead.Request, _ bool) bool { return !slices.Contains(passed, r) })
		for _, r := range passed {
			length := min(r.Until.Sub(g.now()), mostArmed)
			if done[r] || length <= 0 || len(r.Why) > mostWhy {
				continue
			}
			if err := g.raise(ctx, r.Service, r.Why, length); err != nil {
				g.Log.Debug("not armed as another guard has", "error", err)
				continue
			}
			done[r] = true
			g.Log.Info("armed, as another guard was asked to", "service", r.Service, "until", r.Until, "why", r.Why)
		}
	}
}

// armTooEvery is how often a guard looks for what it has read in the Lease, where that is each second.
const armTooEvery = 500 * time.Millisecond

// armByHand answers POST /v1/arm?service=NAMESPACE/NAME&for=15m.
func (g *guard) armByHand(w http.ResponseWriter, r *http.Request) {
	service, length, err := readArm(r.URL.RawQuery)
	if err != nil {
		gate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	armed, err := g.arm(r.Context(), service, "armed by hand: "+service, length)
	switch {
	case errors.Is(err, errNotGuarded):
		gate.Refuse(w, http.StatusNotFound, err.Error())
	case err != nil:
		gate.Refuse(w, http.StatusConflict, err.Error())
	default:
		gate.Reply(w, http.StatusOK, armed)
	}
}

func readArm(query string) (service string, length time.Duration, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", 0, err
	}
	for name, given := range values {
		if name != "service" && name != "for" || len(given) != 1 {
			return "", 0, errors.New("known are service=NAMESPACE/NAME and for=15m, once each")
		}
	}
	if service = values.Get("service"); strings.Count(service, "/") != 1 {
		return "", 0, errors.New("service= must be NAMESPACE/NAME")
	}
	length, err = time.ParseDuration(cmp.Or(values.Get("for"), DefaultArmed.String()))
	if err != nil || length < leastArmed || length > mostArmed {
		return "", 0, fmt.Errorf("for= must be from %v to %v, as in 15m", leastArmed, mostArmed)
	}
	return service, length, nil
}

// Arm asks the guard at a URL to measure a Service at the full rate for a length of time.
func Arm(
	ctx context.Context, client *http.Client, address, token, service string, length time.Duration,
) (Armed, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	asked := url.Values{"service": {service}, "for": {length.String()}}
	at := strings.TrimRight(address, "/") + armPath + "?" + asked.Encode()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, nil)
	if err != nil {
		return Armed{}, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	reply, err := client.Do(r)
	if err != nil {
		return Armed{}, silent(err)
	}
	defer reply.Body.Close()
	var said struct {
		Armed
		Error string `json:"error"`
	}
	err = json.NewDecoder(io.LimitReader(reply.Body, 64<<10)).Decode(&said)
	switch {
	case err == nil && reply.StatusCode == http.StatusOK:
		return said.Armed, nil
	case said.Error != "":
		return Armed{}, errors.New(said.Error)
	}
	return Armed{}, fmt.Errorf("%s is no guard: it answers %s", address, reply.Status)
}
