package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"lapse/correlate/compare"
	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/internal/image"
	"lapse/internal/report"
	"lapse/internal/report/trend"
	"lapse/internal/run/access"
	"lapse/loadgen"
	"lapse/timeline"
)

// completeWithin is how long a shell waits for the API server.
const completeWithin = 3 * time.Second

// values returns what a word of the command line may be: a list, of which the shell keeps what begins like it.
type values func(cmd *cobra.Command) []string

// flagValues are the values of flags, by name. A list of them is separated by commas where lists[name].
var flagValues = map[string]values{
	"namespace":     namespaces,
	"context":       contexts,
	"on-node":       nodes,
	"from":          func(cmd *cobra.Command) []string { return append([]string{"all"}, nodes(cmd)...) },
	"avoid-node":    nodes,
	"node":          nodes,
	"fail-if":       func(*cobra.Command) []string { return gateMetrics() },
	"fail-if-worse": func(*cobra.Command) []string { return strings.Split(compare.Keys(), ", ") },
	"scheme":        func(*cobra.Command) []string { return schemes() },
	"target": func(*cobra.Command) []string {
		return []string{string(timeline.New), string(timeline.Reused), string(timeline.Held)}
	},
	"output": formats,
	"into":   func(*cobra.Command) []string { return image.Loaders() },
	"color":  func(*cobra.Command) []string { return []string{"auto", "always", "never"} },
}

var lists = map[string]bool{"from": true, "avoid-node": true, "fail-if-worse": true, "target": true}

// dirVerbs take directories of runs.
var dirVerbs = []string{"report", "serve", "diff", "trend", "export"}

// argValues are the arguments of verbs, by the verb's name.
var argValues = map[string]values{
	"run": services, "gen": services, "preflight": services,
	"report": runDirs, "serve": runDirs, "diff": runDirs, "export": runDirs,
	"trend":  func(*cobra.Command) []string { found, _ := filepath.Glob("runs"); return found },
	"attach": runsInCluster, "stop": runsInCluster, "retrieve": runsInCluster, "delete": runsInCluster,
}

// addCompletions lets a shell ask for the names of what there is.
// https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md
func addCompletions(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		addCompletions(cmd)
		for flag, of := range flagValues {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			if err := cmd.RegisterFlagCompletionFunc(flag, completeFlag(flag, of)); err != nil {
				panic(err) // registered twice
			}
		}
		if of, ok := argValues[cmd.Name()]; ok {
			cmd.ValidArgsFunction = completeArg(of)
		}
	}
}

func completeFlag(flag string, of values) cobra.CompletionFunc {
	then := cobra.ShellCompDirectiveNoFileComp
	if flag == "fail-if" || lists[flag] {
		then |= cobra.ShellCompDirectiveNoSpace // more may follow
	}
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		head := ""
		if comma := strings.LastIndexByte(word, ','); comma >= 0 && lists[flag] {
			head = word[:comma+1]
		}
		return startingWith(word, head, of(cmd)), then
	}
}

// completeArg completes arguments. A directory of a run may be anywhere: if none is known, the shell looks for files.
func completeArg(of values) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		found := startingWith(word, "", of(cmd))
		if len(found) == 0 && slices.Contains(dirVerbs, cmd.Name()) {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// startingWith returns those of all that word may become, behind head.
func startingWith(word, head string, all []string) (found []string) {
	for _, value := range all {
		if strings.HasPrefix(head+value, word) {
			found = append(found, head+value)
		}
	}
	slices.Sort(found)
	return found
}

func gateMetrics() (names []string) {
	for _, m := range verdict.GateMetrics {
		names = append(names, m.Name)
	}
	return names
}

func schemes() (names []string) {
	for _, p := range loadgen.Protocols {
		names = append(names, p.Scheme)
	}
	return names
}

func formats(cmd *cobra.Command) (names []string) {
	if cmd.Name() == "trend" {
		return strings.Split(trend.Names(), ", ")
	}
	all := report.Formats
	if cmd.Name() == "diff" {
		all = report.DiffFormats()
	}
	for _, f := range all {
		names = append(names, f.Name)
	}
	return names
}

// runDirs are the runs under runs/, the newest first.
func runDirs(*cobra.Command) (dirs []string) {
	found, _ := filepath.Glob("runs/*/facts.lapse")
	for _, f := range found {
		dirs = append(dirs, filepath.Dir(f))
	}
	return dirs
}

// kubeOf is the cluster that the flags typed so far name.
func kubeOf(cmd *cobra.Command) access.Kube {
	value := func(flag string) string {
		if f := cmd.Flag(flag); f != nil {
			return f.Value.String()
		}
		return ""
	}
	return access.Kube{Kubeconfig: value("kubeconfig"), Context: value("context"), Namespace: value("namespace")}
}

// askCluster asks the cluster. Nothing can be said to somebody who presses Tab: an error is no names.
func askCluster(cmd *cobra.Command, names func(context.Context, *access.Cluster) ([]string, error)) []string {
	ctx, cancel := context.WithTimeout(cmp.Or(cmd.Context(), context.Background()), completeWithin)
	defer cancel()
	kube := kubeOf(cmd)
	c, err := kube.Connect(ctx)
	if err != nil {
		return nil
	}
	list, err := names(ctx, c)
	if err != nil {
		return nil
	}
	return list
}

func namespaces(cmd *cobra.Command) []string {
	return askCluster(cmd, func(ctx context.Context, c *access.Cluster) (names []string, err error) {
		list, err := c.Client.Namespaces().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		return names, nil
	})
}

func nodes(cmd *cobra.Command) []string {
	return askCluster(cmd, func(ctx context.Context, c *access.Cluster) (names []string, err error) {
		list, err := c.Client.Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, n := range list.Items {
			names = append(names, n.Name)
		}
		return names, nil
	})
}

func services(cmd *cobra.Command) []string {
	return askCluster(cmd, func(ctx context.Context, c *access.Cluster) (names []string, err error) {
		list, err := c.Client.Services(c.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, s := range list.Items {
			names = append(names, "svc/"+s.Name)
		}
		return names, nil
	})
}

func runsInCluster(cmd *cobra.Command) []string {
	return askCluster(cmd, func(ctx context.Context, c *access.Cluster) (names []string, err error) {
		runs, err := deploy.List(ctx, c.Deploy(nil), c.Namespace)
		for _, r := range runs {
			names = append(names, r.Name)
		}
		return names, err
	})
}

func contexts(cmd *cobra.Command) []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = os.ExpandEnv(kubeOf(cmd).Kubeconfig)
	config, err := rules.Load()
	if err != nil {
		return nil
	}
	var names []string
	for name := range config.Contexts {
		names = append(names, name)
	}
	return names
}
