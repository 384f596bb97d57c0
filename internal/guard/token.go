package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"strings"
	"time"

	"lapse/internal/guard/gate"
	"lapse/internal/hint/input"
)

// leastToken is how long a token must be: 16 bytes cannot be guessed over a network.
const leastToken = 16

const noToken = "no token is set: make a Secret that has one as `token`, and name it with " +
	"`lapse gen guard --token-secret NAME`, or its file with `lapse guard --token-file FILE`"

// ReadToken returns the token in a file.
func ReadToken(file string) (string, error) {
	text, err := input.File(file, 1<<20)
	token := strings.TrimSpace(string(text))
	unsendable := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case err != nil:
	case len(token) < leastToken:
		err = fmt.Errorf("%s has a token of %d bytes: the least are %d", file, len(token), leastToken)
	case strings.ContainsFunc(token, unsendable):
		err = fmt.Errorf("%s has a token with a blank or a letter that no HTTP header takes", file)
	}
	return token, err
}

// withToken lets only those POST who send the token: as a bearer token, or as the password of basic authentication,
// which an HTTP client makes of http://any:TOKEN@HOST/. The file is read each time, for a kubelet renews it.
func (g *guard) withToken(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		because := "" // which a stranger is not told
		w = noting{w, func(why string) { g.noteRefusal(cut(r.URL.Path), why+because) }}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			gate.Refuse(w, http.StatusMethodNotAllowed, "it takes POST, not "+cut(r.Method))
			return
		}
		if g.TokenFile == "" {
			gate.Refuse(w, http.StatusForbidden, noToken)
			return
		}
		token, err := ReadToken(g.TokenFile)
		switch {
		case err != nil:
			because = ": " + err.Error()
			gate.Refuse(w, http.StatusForbidden, "the guard cannot read its token")
		case !sends(r, token):
			w.Header().Add("WWW-Authenticate", `Bearer realm="lapse guard"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="lapse guard"`)
			why := "send the guard's token, as in Authorization: Bearer TOKEN"
			if r.Header.Get("Authorization") != "" {
				why = "what was sent is not the guard's token"
			}
			gate.Refuse(w, http.StatusUnauthorized, why)
		default:
			h(w, r)
		}
	}
}

// cut returns the beginning of what a stranger sends: it may have kilobytes.
func cut(text string) string { return text[:min(len(text), 100)] }

// sends reports whether a request has the token. How long it takes does not depend on what was sent.
func sends(r *http.Request, token string) bool {
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		_, sent, _ = r.BasicAuth()
	}
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// A noting is an answer that notes why a request is refused, if it is.
type noting struct {
	http.ResponseWriter
	note func(why string)
}

func (n noting) Refused(why string) { n.note(why) }

// A Refusal is a request to arm a Service, or of a hook, that was not understood, or whose sender had no right to it.
type Refusal struct {
	At     time.Time `json:"at"`
	Path   string    `json:"path"` // the beginning, as it was sent: anything
	Reason string    `json:"reason"`
}

// noteRefusal keeps a refusal for the status, and logs one a minute.
func (g *guard) noteRefusal(path, why string) {
	g.mu.Lock()
	now := g.now()
	g.refused = &Refusal{now, path, why}
	logs := now.Sub(g.logged) >= time.Minute
	if logs {
		g.logged = now
	}
	g.mu.Unlock()
	if logs {
		g.Log.Warn("a request was refused", "path", path, "reason", why)
	}
}
