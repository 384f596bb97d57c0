// Package layer says to which layer of the tests a test belongs. See CONTRIBUTING.md.
package layer

import "testing"

// Real skips a test in go test -short. It uses real sockets in real time, a browser, root's rights or another program:
// make test runs it.
func Real(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it needs real sockets, a browser or root's rights: make test runs it")
	}
}
