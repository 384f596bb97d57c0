package docs

import (
	"strings"
	"testing"
)

func TestEachCauseHasAPageThatBeginsWithWhatItIs(t *testing.T) {
	causes := Causes()
	if len(causes) < 30 {
		t.Fatalf("only %d causes: %v", len(causes), causes)
	}
	for _, name := range causes {
		page, ok := Cause(name)
		if !ok || !strings.HasPrefix(page, "# "+name+"\n") {
			t.Errorf("%s: the page begins %.40q", name, page)
		}
		if summary := Summary(page); !strings.HasSuffix(summary, ".") || strings.Contains(summary, "\n") {
			t.Errorf("%s: %q", name, summary)
		}
	}
}

func TestWhatIsNoCauseHasNoPage(t *testing.T) {
	for _, name := range []string{"README", "../README", "", "no-such-cause"} {
		if _, ok := Cause(name); ok {
			t.Errorf("%q has a page", name)
		}
	}
}
