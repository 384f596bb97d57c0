package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lapse/internal/run/exit"
	"lapse/internal/run/terminal"
)

// verbGroups are the headings of `lapse --help`, and the verbs below each.
var verbGroups = []struct {
	title string
	verbs []string
}{
	{"Measure:", []string{"run", "routes", "guard", "gate", "preflight"}},
	{"Look:", []string{"report", "serve", "diff", "trend", "export", "explain"}},
	{"In the cluster:", []string{"image", "gen", "status", "attach", "stop", "retrieve", "delete"}},
	{"Check Lapse:", []string{"doctor", "selftest", "calibrate", "version"}},
	{"Your shell:", []string{"completion"}},
}

// runSections are the headings of the flags of `lapse run` and `lapse gen`, each with its first flag.
var runSections = []struct{ first, title string }{
	{"namespace", "Which cluster"},
	{"on-node", "What is measured"},
	{"rate", "How fast, and how long"},
	{"join", "The verdict"},
	{"out", "Output"},
	{"scheme", "Protocol"},
	{"hammer", "Load, and what is watched and predicted"},
	{"here", "From where"},
	{"image", "The Job"},
	{"output", "The report"},
}

// groupHelp puts verbs and flags under headings, and wraps them to the screen.
func groupHelp(root *cobra.Command) {
	for _, g := range verbGroups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(g.verbs, cmd.Name()) {
				cmd.GroupID = g.title
			}
		}
	}
	for _, t := range topics() {
		root.AddCommand(&cobra.Command{Use: t.name, Short: t.about, Long: t.text})
	}
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Hidden = true // --help says the same
		help.Args = func(_ *cobra.Command, args []string) error {
			of, rest, err := root.Find(args)
			if err != nil || of != root {
				return err
			}
			return noSuchVerb(root, rest)
		}
	}
	screen, usage := root.OutOrStdout(), root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		// Not a template: text/template calls methods by name, so the linker would keep every method.
		var text strings.Builder
		out := cmd.OutOrStderr()
		cmd.SetOut(&text)
		err := usage(cmd)
		cmd.SetOut(out)
		plain := strings.TrimRight(cmd.LocalFlags().FlagUsages(), " \n")
		sections := strings.TrimRight(flagSections(cmd, terminal.StyleOf(screen).Width), " \n")
		fmt.Fprint(out, strings.Replace(text.String(), plain, sections, 1))
		return err
	})
}

// nameExamples has the examples of the verbs below cmd call Lapse by the name that it was called by.
func nameExamples(cmd *cobra.Command, use string) {
	for _, below := range cmd.Commands() {
		below.Example = exampleOf.ReplaceAllString(below.Example, "${1}"+use+" ")
		nameExamples(below, use)
	}
}

// exampleOf finds where a line, or what comes after a pipe, calls Lapse.
var exampleOf = regexp.MustCompile(`(?m)(^ *|[|] )lapse `)

// flagSections returns the flags of a verb as its help shows them, in lines of at most width.
func flagSections(cmd *cobra.Command, width int) string {
	if cmd.Flags().Lookup("on-node") == nil || cmd.Flags().Lookup("rate") == nil {
		return cmd.LocalFlags().FlagUsagesWrapped(width)
	}
	var b strings.Builder
	section := pflag.NewFlagSet("", pflag.ContinueOnError)
	flush := func(next string) {
		section.SortFlags = false
		b.WriteString(section.FlagUsagesWrapped(width))
		section = pflag.NewFlagSet("", pflag.ContinueOnError)
		if next != "" {
			b.WriteString("\n " + next + ":\n")
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		for _, s := range runSections {
			if s.first == f.Name {
				flush(s.title)
			}
		}
		section.AddFlag(f)
	})
	flush("")
	return strings.TrimPrefix(b.String(), "\n")
}

// otherNames has what flags are called in other programs.
var otherNames = map[string][]string{
	"duration": {"for", "time"},
	"output":   {"format"},
	"rate":     {"qps", "rps"},
}

// flagError adds the flag that may have been meant to the error about one that does not exist.
func flagError(cmd *cobra.Command, err error) error {
	hint := "see `" + cmd.CommandPath() + " --help`"
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		names := &cobra.Command{SuggestionsMinimumDistance: 2}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names.AddCommand(&cobra.Command{
					Use: f.Name, SuggestFor: otherNames[f.Name], Run: func(*cobra.Command, []string) {},
				})
			}
		})
		if near := names.SuggestionsFor(unknown.GetSpecifiedName()); len(near) > 0 {
			hint = "did you mean --" + strings.Join(near, " or --") + "?"
		}
	}
	return exit.Usagef(hint, "%w", err)
}
