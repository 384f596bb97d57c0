package screen

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"lapse/internal/hint"
)

// A browser gets the page under the address that is printed, also where that is a name.
func TestThePageAnswersToTheAddressThatIsPrinted(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.0.0.2:0"} {
		t.Run(addr, func(t *testing.T) {
			a, err := Listen(addr)
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			_, closePage := a.Serve(t.Context(), &said)
			defer closePage()
			url := strings.TrimSpace(strings.TrimPrefix(said.String(), "page: "))
			host, _, _ := net.SplitHostPort(addr)
			if !strings.HasPrefix(url, "http://"+host+":") {
				t.Errorf("printed %q", url)
			}
			response, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != http.StatusOK {
				body, _ := io.ReadAll(response.Body)
				t.Errorf("%s answers %s %s", url, response.Status, body)
			}
		})
	}
}

// The page must know the name it is asked for by, so it cannot be served on all addresses at once.
func TestAllAddressesAtOnceAreRefusedForThePage(t *testing.T) {
	for _, host := range []string{"0.0.0.0", "[::]", "", "[::ffff:0.0.0.0]"} {
		_, err := Listen(host + ":0")
		if err == nil {
			t.Errorf("%q is taken", host)
			continue
		}
		if hint := fmt.Sprint(hint.Of(err)); !strings.Contains(hint, "--dashboard 127.0.0.1:0") {
			t.Errorf("%q: hint %q", host, hint)
		}
	}
}
