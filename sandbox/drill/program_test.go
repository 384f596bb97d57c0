package drill

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestSeriesFlags(t *testing.T) {
	for _, test := range []struct {
		args string
		want []string // modes
	}{
		{"", []string{"iptables", "nftables"}},
		{"-modes=", []string{""}},
		{"-modes ipvs -n 3 -rate 7 -judge old", []string{"ipvs"}},
	} {
		s := Series{Modes: List{"iptables", "nftables"}, N: 3, Rate: 7}
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		s.Flags(flags, "runs in each mode")
		if err := flags.Parse(strings.Fields(test.args)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.Modes, test.want) || s.N != 3 || s.Rate != 7 || s.Lapse != "../bin/lapse" {
			t.Errorf("%q gives %+v, want the modes %q", test.args, s, test.want)
		}
	}
}

func TestPublishWritesOnlyIntoTheFolderForTheTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "docs", "measured")
	for _, out := range []string{"", dir} {
		f := Files{Out: out}
		if err := f.Publish("table.md", ""); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(dir, "table.md"))
		if written := err == nil; written != (out != "") {
			t.Errorf("with the folder %q: written is %v (%v)", out, written, err)
		}
	}
}

func TestBaseIsNamedForTheTime(t *testing.T) {
	f := Files{Runs: "runs"}
	if got := f.Base("lab"); !regexp.MustCompile(`^runs/lab-\d{8}-\d{6}$`).MatchString(got) {
		t.Error(got)
	}
}

func TestOpenSaysWhichStepFailed(t *testing.T) {
	s := Series{Sandbox: "false"}
	if _, err := s.Open(context.Background(), "iptables", io.Discard); err == nil ||
		!strings.HasPrefix(err.Error(), "sandbox down: ") {
		t.Error(err)
	}
	t.Setenv("LAPSE_SANDBOX_DIR", t.TempDir())
	if _, err := s.Open(context.Background(), "", io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a mode it takes the sandbox that is up, there is none: %v", err)
	}
}
