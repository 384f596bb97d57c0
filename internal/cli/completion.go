package cli

import (
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lapse/internal/run/exit"
)

// shells write the script that completes verbs, flags and names, by the shell's name.
// https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md
var shells = map[string]func(*cobra.Command, io.Writer) error{
	"bash":       func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	"zsh":        (*cobra.Command).GenZshCompletion,
	"fish":       func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	"powershell": (*cobra.Command).GenPowerShellCompletionWithDesc,
}

func newCompletion() *cobra.Command {
	names := slices.Sorted(maps.Keys(shells))
	return &cobra.Command{
		Use:   "completion SHELL",
		Short: "Print a script that completes verbs, flags and names in a shell",
		Long: `Print a script for bash, zsh, fish or powershell. It completes verbs, flags, and names from the cluster:
namespaces, Services, nodes, runs.`,
		Example: `  source <(lapse completion bash)        # bash, with the package bash-completion
  source <(lapse completion zsh)         # zsh, after compinit
  lapse completion fish | source
  lapse completion powershell | Out-String | Invoke-Expression`,
		Args:      exactly(1, "a SHELL: "+strings.Join(names, ", ")),
		ValidArgs: names,
		RunE: func(cmd *cobra.Command, args []string) error {
			write := shells[args[0]]
			if write == nil {
				return exit.Usagef("one of: "+strings.Join(names, ", "), "no completion for %q", args[0])
			}
			return write(cmd.Root(), cmd.OutOrStdout())
		},
	}
}
