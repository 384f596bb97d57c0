package cli

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// The manual page has every verb and flag that --help shows, and nothing in it is taken for a request to roff.
func TestManualHasEveryVerbAndFlag(t *testing.T) {
	root := newRoot("lapse", io.Discard, io.Discard)
	var page bytes.Buffer
	writeManual(&page, root)
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Hidden || !cmd.Runnable() {
			return
		}
		if !strings.Contains(page.String(), "\n.SS "+roff(cmd.UseLine())+"\n") {
			t.Errorf("no section %q", cmd.UseLine())
		}
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && f.Name != "help" && !strings.Contains(page.String(), `\fB`+roff("--"+f.Name)+`\fR`) {
				t.Errorf("%s: no flag --%s", cmd.Name(), f.Name)
			}
		})
		for _, below := range cmd.Commands() {
			check(below)
		}
	}
	for _, verb := range root.Commands() {
		check(verb)
	}
	for line := range strings.Lines(page.String()) {
		request, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case !strings.HasPrefix(line, ".") && !strings.HasPrefix(line, "'"):
		case !strings.Contains(".TH .SH .SS .B .I .BR .PP .TP .RS .RE .nf .fi", request):
			t.Errorf("%q is no request that this page has", line)
		}
	}
}

// `kubectl lapse` is what the plugin calls itself, wherever it names itself.
func TestPluginNamesItselfAsItIsCalled(t *testing.T) {
	for name, want := range map[string]string{
		"kubectl-lapse": "kubectl lapse", "kubectl-lapse.exe": "kubectl lapse", "lapse": "lapse", "lapse.exe": "lapse",
	} {
		var out bytes.Buffer
		root := newRoot(name, &out, io.Discard)
		root.SetArgs([]string{"run", "--help"})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "Usage:\n  "+want+" run [TARGET...]") {
			t.Errorf("%s: the usage of run does not begin with %q", name, want)
		}
		if want == "kubectl lapse" && strings.Contains(out.String(), "\n  lapse ") {
			t.Errorf("%s: an example calls lapse by its other name", name)
		}
	}
}
