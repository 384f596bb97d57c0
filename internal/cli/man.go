package cli

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lapse/internal/run/version"
)

// newMan returns the verb that prints the manual page, for packages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page lapse(1)",
		Hidden: true,
		Args:   exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := bufio.NewWriter(cmd.OutOrStdout())
			writeManual(out, cmd.Root())
			return out.Flush()
		},
	}
}

// writeManual writes what --help says of all verbs as a manual page: https://man7.org/linux/man-pages/man7/man.7.html
func writeManual(w io.Writer, root *cobra.Command) {
	fmt.Fprintf(w, ".TH LAPSE 1 \"\" \"Lapse %s\" \"User Commands\"\n", roff(version.Version))
	fmt.Fprintf(w, ".SH NAME\nlapse \\- %s\n", roff(root.Short))
	fmt.Fprint(w, ".SH SYNOPSIS\n.B lapse\n.I VERB\n[\\fIARGUMENTS\\fR] [\\fIFLAGS\\fR]\n.SH DESCRIPTION\n")
	writeProse(w, root.Long)
	fmt.Fprint(w, ".SH VERBS\n")
	for _, verb := range root.Commands() {
		writeVerb(w, verb)
	}
	fmt.Fprint(w, ".SH EXIT STATUS\n")
	writeProse(w, exitCodes)
	fmt.Fprintf(w, ".SH SEE ALSO\n.BR kubectl (1)\n%s\n", roff(version.Homepage))
}

// writeVerb writes what a verb and those below it do.
func writeVerb(w io.Writer, cmd *cobra.Command) {
	if cmd.Hidden || !cmd.Runnable() {
		return
	}
	fmt.Fprintf(w, ".SS %s\n", roff(cmd.UseLine()))
	writeProse(w, cmp.Or(cmd.Long, cmd.Short))
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			writeFlag(w, f)
		}
	})
	if cmd.Example != "" {
		fmt.Fprint(w, ".PP\nExamples:\n")
		writeProse(w, cmd.Example)
	}
	for _, below := range cmd.Commands() {
		writeVerb(w, below)
	}
}

func writeFlag(w io.Writer, f *pflag.Flag) {
	kind, usage := pflag.UnquoteUsage(f)
	fmt.Fprint(w, ".TP\n")
	if f.Shorthand != "" {
		fmt.Fprintf(w, "\\fB%s\\fR, ", roff("-"+f.Shorthand))
	}
	fmt.Fprintf(w, "\\fB%s\\fR \\fI%s\\fR\n%s", roff("--"+f.Name), roff(kind), roff(usage))
	if isSet(f.DefValue) {
		fmt.Fprintf(w, " (default %s)", roff(f.DefValue))
	}
	fmt.Fprintln(w)
}

// isSet reports whether a flag's default is worth a word.
func isSet(value string) bool {
	return value != "" && value != "[]" && value != "0" && value != "0s" && value != "false"
}

// writeProse writes paragraphs. Lines that begin with a space stay as they are.
func writeProse(w io.Writer, text string) {
	fmt.Fprint(w, ".PP\n")
	kept := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if keep := strings.HasPrefix(line, " "); keep != kept && line != "" {
			kept = keep
			fmt.Fprintln(w, map[bool]string{true: ".RS\n.nf", false: ".fi\n.RE"}[keep])
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		fmt.Fprintln(w, line)
	}
	if kept {
		fmt.Fprint(w, ".fi\n.RE\n")
	}
}

// roff returns text as roff prints it.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\n", " ").Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		return `\&` + text
	}
	return text
}
