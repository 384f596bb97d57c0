// Package kubectl reads the words of a kubectl command as kubectl does, as far as Lapse asks: what it does, and to
// what.
package kubectl

import (
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/pflag"
)

// A Command is what the words of a kubectl command say.
type Command struct {
	Verb     string   // "drain"; empty if there is none
	Operands []string // what follows the verb: "restart", "deployment/web"
	Selector string   // of --selector
	All      bool     // --all was given
}

// ErrOther is of words that do not run kubectl.
var ErrOther = errors.New("it does not run kubectl")

// Read reads a command's words, beginning with kubectl or oc, or with a program that only runs it. It returns
// [ErrOther] if another program is run, and an error if there are flags that it does not know: the value of such a
// flag looks like an operand. https://kubernetes.io/docs/reference/kubectl/generated/
func Read(words []string) (Command, error) {
	words = Unwrap(words)
	if len(words) == 0 || !Is(words[0]) {
		return Command{}, ErrOther
	}
	flags, selector := flagsOf()
	if err := flags.Parse(words[1:]); err != nil {
		return Command{}, err
	}
	operands := flags.Args()
	if len(operands) > 0 && operands[0] == "adm" { // oc adm drain
		operands = operands[1:]
	}
	command := Command{Selector: *selector, All: flags.Changed("all")}
	if len(operands) > 0 {
		command.Verb, command.Operands = operands[0], operands[1:]
	}
	return command, nil
}

// Is reports whether a program is kubectl, or OpenShift's oc.
func Is(program string) bool {
	return slices.Contains([]string{"kubectl", "k", "oc", "kubectl.exe"}, filepath.Base(program))
}

// Unwrap leaves out programs that only run another one.
func Unwrap(words []string) []string {
	for len(words) > 0 && slices.Contains([]string{"sudo", "doas", "env", "time", "nice", "nohup", "timeout", "stdbuf",
		"xargs"}, filepath.Base(words[0])) {
		next := slices.IndexFunc(words[1:], Is)
		if next < 0 {
			return words
		}
		words = words[1+next:]
	}
	return words
}

// flagsOf returns kubectl's own flags, and those of the verbs that Lapse knows.
func flagsOf() (flags *pflag.FlagSet, selector *string) {
	flags = pflag.NewFlagSet("kubectl", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	for _, name := range []string{ // of every verb
		"as", "as-group", "as-uid", "as-user-extra", "cache-dir", "certificate-authority", "client-certificate",
		"client-key", "cluster", "context", "kubeconfig",
		"kuberc", "log-flush-frequency", "password", "profile", "profile-output", "request-timeout", "tls-server-name",
		"token", "username", "vmodule",
	} {
		flags.String(name, "", "")
	}
	for _, name := range []string{ // of drain, cordon, delete and taint, of rollout and scale
		"chunk-size", "grace-period", "pod-selector", "skip-wait-for-delete-timeout", "timeout", "field-selector",
		"raw", "field-manager", "template",
		"to-revision", "revision", "replicas", "current-replicas", "resource-version",
	} {
		flags.String(name, "", "")
	}
	for short, name := range map[string]string{"n": "namespace", "s": "server", "v": "v", "o": "output",
		"f": "filename", "k": "kustomize"} {
		flags.StringP(name, short, "", "")
	}
	flags.String("user", "", "")
	selector = flags.StringP("selector", "l", "", "")
	for _, name := range []string{
		"disable-compression", "insecure-skip-tls-verify", "match-server-version", "warnings-as-errors",
		"delete-emptydir-data", "delete-local-data", "disable-eviction",
		"force", "ignore-daemonsets", "all", "ignore-not-found", "now", "wait", "overwrite",
		"allow-missing-template-keys", "show-managed-fields",
	} {
		flags.Bool(name, false, "")
	}
	for short, name := range map[string]string{"A": "all-namespaces", "i": "interactive", "R": "recursive",
		"w": "watch"} {
		flags.BoolP(name, short, false, "")
	}
	for name, alone := range map[string]string{"dry-run": "unchanged", "cascade": "background", "validate": "strict"} {
		flags.String(name, "", "")
		flags.Lookup(name).NoOptDefVal = alone // the value must follow an equals sign: --dry-run=client
	}
	return flags, selector
}
