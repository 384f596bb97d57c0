package run

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/timeline"
)

// A drained says from which nodes a wrapped command takes the Pods away, as far as its words tell.
type drained struct {
	nodes    []string // by name
	selector string   // and those with these labels
	unknown  string   // or that it may, and why it is not known from which; else empty
}

// drains reads a command's words. Of kubectl and oc it reads them as they do; a shell or a script may do anything.
func drains(words []string) drained {
	words = unwrap(words)
	if len(words) == 0 {
		return drained{}
	}
	program := filepath.Base(words[0])
	switch {
	case slices.Contains([]string{"kubectl", "k", "oc", "kubectl.exe"}, program):
		return kubectlDrains(words[1:])
	case slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh", "fish"}, program):
		return drained{unknown: program + " may drain any node"}
	case isScript(words[0]):
		return drained{unknown: "the script " + program + " may drain any node"}
	case mentionsDrain(words):
		return drained{unknown: "it speaks of a drain"}
	}
	return drained{}
}

// unwrap leaves out programs that only run another one.
func unwrap(words []string) []string {
	for len(words) > 0 && slices.Contains([]string{"sudo", "doas", "env", "time", "nice", "nohup", "timeout", "stdbuf", "xargs"}, filepath.Base(words[0])) {
		next := slices.IndexFunc(words[1:], func(w string) bool {
			return slices.Contains([]string{"kubectl", "k", "oc"}, filepath.Base(w))
		})
		if next < 0 {
			return words
		}
		words = words[1+next:]
	}
	return words
}

// mentionsDrain reports whether one of the words is about taking Pods from nodes.
func mentionsDrain(words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(strings.ToLower(w), "drain") })
}

// isScript reports whether name is a program that a shell or another interpreter reads.
func isScript(name string) bool {
	path, err := exec.LookPath(name)
	if err != nil {
		return false
	}
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	var begin [2]byte
	_, err = io.ReadFull(file, begin[:])
	return err == nil && string(begin[:]) == "#!"
}

// kubectlDrains reads the arguments of kubectl, or of oc with its "adm". What cordons, drains, taints or deletes nodes takes Pods
// away from them, now or soon.
// https://kubernetes.io/docs/reference/kubectl/generated/
func kubectlDrains(args []string) drained {
	flags, selector := kubectlFlags()
	if err := flags.Parse(args); err != nil {
		if mentionsDrain(args) {
			return drained{unknown: "its flags are not those that Lapse knows"}
		}
		return drained{}
	}
	operands := flags.Args()
	if len(operands) > 0 && operands[0] == "adm" {
		operands = operands[1:]
	}
	if len(operands) == 0 {
		return drained{}
	}
	verb, operands := operands[0], operands[1:]
	switch verb {
	case "drain", "cordon":
		if len(operands) == 0 && *selector == "" {
			return drained{unknown: "it names none"}
		}
		return drained{nodes: nodeNames(operands), selector: *selector}
	case "taint":
		if !slices.ContainsFunc(operands, func(w string) bool { return strings.HasSuffix(w, ":NoExecute") }) {
			return drained{}
		}
		operands = slices.DeleteFunc(operands, func(w string) bool { return strings.ContainsAny(w, ":=") })
		fallthrough
	case "delete":
		return ofNodes(operands, *selector, flags.Changed("all"))
	}
	if mentionsDrain([]string{verb}) { // a plugin
		return drained{unknown: "it speaks of a drain"}
	}
	return drained{}
}

// nodeNames are the names in a list of nodes, of which each may be written node/NAME.
func nodeNames(operands []string) []string {
	var names []string
	for _, operand := range operands {
		if kind, name, found := strings.Cut(operand, "/"); found && isNodeKind(kind) {
			operand = name
		}
		names = append(names, operand)
	}
	return names
}

func isNodeKind(kind string) bool {
	return slices.Contains([]string{"node", "nodes", "no"}, strings.ToLower(kind))
}

// ofNodes reads what `kubectl delete` and `taint` take: a kind and names, or KIND/NAME each.
func ofNodes(operands []string, selector string, all bool) drained {
	if len(operands) > 0 && isNodeKind(operands[0]) {
		if all {
			return drained{unknown: "it means all nodes"}
		}
		return drained{nodes: operands[1:], selector: selector}
	}
	var d drained
	for _, operand := range operands {
		if kind, name, found := strings.Cut(operand, "/"); found && isNodeKind(kind) {
			d.nodes = append(d.nodes, name)
		}
	}
	return d
}

// kubectlFlags are kubectl's own flags, and those of the verbs that take Pods from nodes. All must be known, for a flag's value
// looks like an operand otherwise.
func kubectlFlags() (flags *pflag.FlagSet, selector *string) {
	flags = pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for _, name := range []string{ // of every verb
		"as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "kubeconfig",
		"kuberc", "log-flush-frequency", "password", "profile", "profile-output", "request-timeout", "tls-server-name", "token", "username", "vmodule",
	} {
		flags.String(name, "", "")
	}
	for _, name := range []string{ // of drain, cordon, delete and taint
		"chunk-size", "grace-period", "pod-selector", "skip-wait-for-delete-timeout", "timeout", "field-selector", "raw", "field-manager", "template",
	} {
		flags.String(name, "", "")
	}
	for short, name := range map[string]string{"n": "namespace", "s": "server", "v": "v", "o": "output", "f": "filename", "k": "kustomize"} {
		flags.StringP(name, short, "", "")
	}
	flags.String("user", "", "")
	selector = flags.StringP("selector", "l", "", "")
	for _, name := range []string{
		"disable-compression", "insecure-skip-tls-verify", "match-server-version", "warnings-as-errors", "delete-emptydir-data", "delete-local-data", "disable-eviction",
		"force", "ignore-daemonsets", "all", "ignore-not-found", "now", "wait", "overwrite", "allow-missing-template-keys", "show-managed-fields",
	} {
		flags.Bool(name, false, "")
	}
	for short, name := range map[string]string{"A": "all-namespaces", "i": "interactive", "R": "recursive"} {
		flags.BoolP(name, short, false, "")
	}
	for name, alone := range map[string]string{"dry-run": "unchanged", "cascade": "background", "validate": "strict"} {
		flags.String(name, "", "")
		flags.Lookup(name).NoOptDefVal = alone // the value must follow an equals sign: --dry-run=client
	}
	return flags, selector
}

// AvoidDrained keeps the Job off the nodes that the command names, unless others are named with --avoid-node, and says where
// it cannot know them.
func (o *Options) AvoidDrained() {
	if o.Changed("avoid-node") || !o.InCluster() {
		return
	}
	d := drains(o.Command)
	o.AvoidNodes, o.avoidSelector = d.nodes, d.selector
	if d.unknown != "" {
		o.Notes = append(o.Notes, "which nodes `"+timeline.JoinCommand(maskCommand(o.Command))+"` takes Pods from is not known here ("+d.unknown+
			"):\nif it drains one, name it with --avoid-node NODE, or the Job may be evicted with it and end the run")
	}
}

// avoidSelected resolves the labels by which a wrapped `kubectl drain -l` names nodes.
func (o *Options) avoidSelected(ctx context.Context, c *cluster, log *slog.Logger) error {
	if o.avoidSelector == "" {
		return nil
	}
	selected, err := c.client.Nodes().List(ctx, metav1.ListOptions{LabelSelector: o.avoidSelector})
	if apierrors.IsForbidden(err) {
		log.Warn("no right to list nodes: name those that -l " + o.avoidSelector + " means with --avoid-node, or the Job may be evicted and end the run")
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the nodes that -l %s means: %w", o.avoidSelector, err)
	}
	for _, node := range selected.Items {
		o.AvoidNodes = append(o.AvoidNodes, node.Name)
	}
	return nil
}
