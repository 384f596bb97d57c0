package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lapse/docs"
	"lapse/internal/run/exit"
)

const explainHelp = `Explain prints the field guide's page of a cause, as a run names it: the symptom, why it
happens, how to tell it apart from similar causes, and the fix. Without a CAUSE it lists them.`

func newExplain() *cobra.Command {
	return &cobra.Command{
		Use:       "explain [CAUSE]",
		Short:     "Say what a cause means, and how to fix it",
		Long:      explainHelp,
		Example:   "  lapse explain route-outlives-pod",
		ValidArgs: docs.Causes(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listCauses(cmd.OutOrStdout())
			}
			if len(args) > 1 {
				return exit.Usagef("", "%s takes one CAUSE (got %d arguments)", cmd.CommandPath(), len(args))
			}
			name, _, _ := strings.Cut(args[0], "/") // a cause may have a reason: RULE/REASON
			page, ok := docs.Cause(name)
			if !ok {
				return exit.Usagef(nearCauses(name), "no such cause: %q", args[0])
			}
			_, err := io.WriteString(cmd.OutOrStdout(), page)
			return err
		},
	}
}

func listCauses(w io.Writer) error {
	for _, name := range docs.Causes() {
		page, _ := docs.Cause(name)
		if _, err := fmt.Fprintf(w, "%-26s %s\n", name, docs.Summary(page)); err != nil {
			return err
		}
	}
	return nil
}

// nearCauses returns a hint with the causes that share a word with name.
func nearCauses(name string) string {
	var near []string
	for _, cause := range docs.Causes() {
		for word := range strings.SplitSeq(name, "-") {
			if len(word) > 3 && strings.Contains(cause, word) {
				near = append(near, cause)
				break
			}
		}
	}
	if len(near) == 0 {
		return "`lapse explain` lists them"
	}
	return "did you mean " + strings.Join(near, " or ") + "?"
}
