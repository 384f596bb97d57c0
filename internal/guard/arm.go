package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lapse/internal/guard/gate"
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

// arm measures a Service at the full rate, as after a sign. why names the sign.
func (g *guard) arm(ctx context.Context, name, why string, length time.Duration) (Armed, error) {
	g.mu.Lock()
	s, until := g.services[name], g.now().UTC().Add(length).Truncate(time.Second)
	g.mu.Unlock()
	if s == nil {
		return Armed{}, fmt.Errorf("%s: %w", name, errNotGuarded)
	}
	s.mu.Lock()
	arm, problem := s.arm, s.status.Problem
	s.mu.Unlock()
	if arm == nil {
		return Armed{}, fmt.Errorf("%s is not measured: %s", name, cmp.Or(problem, "it is about to be"))
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := arm(ctx, why, length); err != nil {
		return Armed{}, fmt.Errorf("arm %s: %w", name, err)
	}
	return Armed{name, until}, nil
}

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
