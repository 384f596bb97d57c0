package guard

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"lapse/internal/guard/gate"
)

// leastToken is how long a token must be: 16 bytes cannot be guessed over a network.
const leastToken = 16

const noToken = "no token is set: make a Secret that has one as `token`, and name it with " +
	"`lapse gen guard --token-secret NAME`, or its file with `lapse guard --token-file FILE`"

// ReadToken returns the token in a file.
func ReadToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	token := strings.TrimSpace(string(text))
	if err == nil && len(token) < leastToken {
		err = fmt.Errorf("%s has a token of %d bytes: the least are %d", file, len(token), leastToken)
	}
	return token, err
}

// withToken lets only those ask who send the token: as a bearer token, or as the password of basic authentication,
// which an HTTP client makes of http://any:TOKEN@HOST/. The file is read each time, for a kubelet renews it.
func (g *guard) withToken(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, why string) {
			g.noteRefusal(r.URL.Path, why)
			gate.Refuse(w, status, why)
		}
		if g.TokenFile == "" {
			refuse(http.StatusForbidden, noToken)
			return
		}
		token, err := ReadToken(g.TokenFile)
		switch {
		case err != nil:
			g.Log.Error("nobody may arm a Service or call a hook", "error", err)
			refuse(http.StatusForbidden, "the guard cannot read its token")
		case !sends(r, token):
			w.Header().Add("WWW-Authenticate", `Bearer realm="lapse guard"`)
			w.Header().Add("WWW-Authenticate", `Basic realm="lapse guard"`)
			refuse(http.StatusUnauthorized, "send the guard's token, as in Authorization: Bearer TOKEN")
		default:
			h(w, r)
		}
	}
}

// sends reports whether a request has the token. How long it takes does not depend on what was sent.
func sends(r *http.Request, token string) bool {
	scheme, sent, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		_, sent, _ = r.BasicAuth()
	}
	a, b := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

// A Refusal is a request whose sender had no right to it.
type Refusal struct {
	At     time.Time `json:"at"`
	Path   string    `json:"path"` // as it was sent: anything
	Reason string    `json:"reason"`
}

// noteRefusal keeps a refusal for the status, and logs one a minute.
func (g *guard) noteRefusal(path, why string) {
	g.mu.Lock()
	now := g.now()
	g.refused = &Refusal{now, path[:min(len(path), 100)], why}
	logs := now.Sub(g.logged) >= time.Minute
	if logs {
		g.logged = now
	}
	g.mu.Unlock()
	if logs {
		g.Log.Warn("a request was refused", "path", path, "reason", why)
	}
}
