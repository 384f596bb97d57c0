// Package flagger answers the webhooks of Flagger, which rolls out versions: how a Service gets through the rollout of
// a Canary.
//
//	event, confirm-rollout ──> since when the rollout is ──> the gate's answer for all since then ──> 200 or 409
//
// Flagger takes 200 to 202 for yes, and all else for no: rollout is the hook that holds a rollout back, so it says no
// only to a failure; rollback ends a rollout, so it says yes only to a failure; confirm-* say yes only to a pass. What
// Flagger sends is in its pkg/controller/webhook.go. It does not tell the hash of the Canary's Pods.
package flagger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/internal/guard/gate"
)

// Path is where the hooks are, by the type of the webhook in the Canary.
const Path = "/v1/hook/flagger/"

// Hooks answers all hooks at [Path]. Who serves it checks who asks.
type Hooks struct {
	// Answer answers as the gate does.
	Answer func(gate.Query) (a gate.Answer, problem string)
	// Arm measures a Service at the full rate. why names the sign.
	Arm func(ctx context.Context, service, why string) error
	Now func() time.Time

	mu       sync.Mutex
	rollouts rollouts
}

// A payload is what Flagger sends: CanaryWebhookPayload of flagger.app/v1beta1.
type payload struct {
	Name      string            `json:"name"` // of the Canary
	Namespace string            `json:"namespace"`
	Phase     string            `json:"phase"`
	Checksum  string            `json:"checksum"` // of what is rolled out; while that begins, of what was before
	Metadata  map[string]string `json:"metadata"` // of the webhook in the Canary; event adds what has happened
}

func (h *Hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, q, err := read(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		gate.Refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	switch hook := strings.TrimPrefix(r.URL.Path, Path); hook {
	case "event":
		if !slices.Contains(phases, p.Phase) {
			gate.Refuse(w, http.StatusBadRequest, fmt.Sprintf("unknown phase %.40q: known are %q", p.Phase, phases))
			return
		}
		h.event(r.Context(), w, p, q)
	case "confirm-rollout":
		h.begin(p)
		if h.arm(r.Context(), w, p, q) {
			q.Since, q.NonePasses = h.Now(), true // nothing of the rollout has happened: may it begin?
			h.reply(w, q, func(s gate.State) bool { return s == gate.Pass })
		}
	case "rollout":
		h.since(&q, p)
		h.reply(w, q, func(s gate.State) bool { return s != gate.Fail })
	case "rollback":
		h.since(&q, p)
		h.reply(w, q, func(s gate.State) bool { return s == gate.Fail })
	case "confirm-promotion", "confirm-traffic-increase":
		if !h.since(&q, p) {
			const why = "when this rollout began is not known: its events were not sent here, or another of the " +
				"guard's Pods has taken over since; a new revision begins another one"
			gate.Reply(w, http.StatusConflict, gate.Answer{State: gate.Inconclusive, Reason: why})
			return
		}
		h.reply(w, q, func(s gate.State) bool { return s == gate.Pass })
	default:
		gate.Refuse(w, http.StatusNotFound, "known are event, confirm-rollout, rollout, confirm-traffic-increase, "+
			"confirm-promotion and rollback")
	}
}

// read reads what Flagger sends, and what the gate is asked for it.
func read(body io.Reader) (p payload, q gate.Query, err error) {
	if err := json.NewDecoder(body).Decode(&p); err != nil {
		return p, q, fmt.Errorf("this is not what Flagger sends: %w", err)
	}
	name := cmp.Or(p.Metadata["service"], p.Name)
	none, given := p.Metadata["none"]
	switch {
	case p.Name == "" || p.Namespace == "":
		return p, q, errors.New("this is not what Flagger sends: it names no Canary")
	case strings.Contains(name, "/"):
		return p, q, errors.New("metadata service: the name of a Service in the Canary's namespace")
	case given && none != "pass":
		return p, q, errors.New("metadata none: pass is all that it can be")
	}
	return p, gate.Query{Service: p.Namespace + "/" + name, NonePasses: given}, nil
}

// event notes when a rollout begins and ends, and arms the Service while it goes on.
func (h *Hooks) event(ctx context.Context, w http.ResponseWriter, p payload, q gate.Query) {
	begins := p.begins()
	switch {
	case begins:
		h.begin(p)
	case p.ends():
		h.mu.Lock()
		delete(h.rollouts, p.canary())
		h.mu.Unlock()
	}
	if (begins || p.changes()) && !h.arm(ctx, w, p, q) {
		return
	}
	gate.Reply(w, http.StatusOK, map[string]string{"service": q.Service})
}

func (h *Hooks) begin(p payload) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rollouts.begin(p.canary(), rollout{since: h.Now(), whole: true})
}

// since makes a query one about the rollout. It reports whether it is known when that began.
func (h *Hooks) since(q *gate.Query, p payload) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rollouts.of(p.canary(), p.Checksum, h.Now())
	q.Since = r.since
	return r.whole
}

// arm arms the Service of a rollout. If it cannot it says so, and reports false.
func (h *Hooks) arm(ctx context.Context, w http.ResponseWriter, p payload, q gate.Query) bool {
	if _, unknown := h.Answer(gate.Query{Service: q.Service, Since: h.Now()}); unknown != "" {
		gate.Refuse(w, http.StatusNotFound, unknown)
		return false
	}
	if err := h.Arm(ctx, q.Service, "Flagger rolls out "+p.canary()); err != nil {
		gate.Refuse(w, http.StatusConflict, err.Error())
		return false
	}
	return true
}

// reply answers with the gate's answer, as a yes to some states. Its status is none of 429 and 5xx: Flagger loses their
// bodies.
func (h *Hooks) reply(w http.ResponseWriter, q gate.Query, yes func(gate.State) bool) {
	a, unknown := h.Answer(q)
	switch {
	case unknown != "":
		gate.Refuse(w, http.StatusNotFound, unknown)
	case yes(a.State):
		gate.Reply(w, http.StatusOK, a)
	default:
		gate.Reply(w, http.StatusConflict, a)
	}
}
