package spec

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"lapse/internal/kubectl"
	"lapse/internal/run/mask"
	"lapse/timeline"
)

// A drained says from which nodes a wrapped command removes Pods, as far as its words tell.
type drained struct {
	nodes    []string // by name
	selector string   // in addition, the nodes with these labels
	unknown  string   // why the nodes are not known, if it may drain some; else empty
}

// drains reads a command's words. It reads those of kubectl and oc as they do; a shell or a script may do anything.
func drains(words []string) drained {
	words = kubectl.Unwrap(words)
	if len(words) == 0 {
		return drained{}
	}
	if kubectl.Is(words[0]) {
		return kubectlDrains(words)
	}
	program := filepath.Base(words[0])
	switch {
	case slices.Contains([]string{"sh", "bash", "dash", "ash", "zsh", "ksh", "fish"}, program):
		return drained{unknown: program + " may drain any node"}
	case isScript(words[0]):
		return drained{unknown: "the script " + program + " may drain any node"}
	case mentionsDrain(words):
		return drained{unknown: "it mentions a drain"}
	}
	return drained{}
}

// mentionsDrain reports whether one of the words contains "drain".
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

// kubectlDrains reads a kubectl command. To cordon, drain, taint or delete a node removes Pods from it, now or soon.
func kubectlDrains(words []string) drained {
	command, err := kubectl.Read(words)
	if err != nil {
		if mentionsDrain(words[1:]) {
			return drained{unknown: "its flags are not those that Lapse knows"}
		}
		return drained{}
	}
	operands := command.Operands
	switch command.Verb {
	case "":
		return drained{}
	case "drain", "cordon":
		if len(operands) == 0 && command.Selector == "" {
			return drained{unknown: "it names none"}
		}
		return drained{nodes: nodeNames(operands), selector: command.Selector}
	case "taint":
		if !slices.ContainsFunc(operands, func(w string) bool { return strings.HasSuffix(w, ":NoExecute") }) {
			return drained{}
		}
		operands = slices.DeleteFunc(operands, func(w string) bool { return strings.ContainsAny(w, ":=") })
		fallthrough
	case "delete":
		return ofNodes(operands, command.Selector, command.All)
	}
	if mentionsDrain([]string{command.Verb}) { // a plugin
		return drained{unknown: "it mentions a drain"}
	}
	return drained{}
}

// nodeNames returns the names in a list of nodes. Each may be written node/NAME.
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

// ofNodes reads the operands of `kubectl delete` and `taint`: a kind and names, or KIND/NAME each.
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

// AvoidDrained keeps the Job off the nodes that the command drains, unless --avoid-node names others. It adds a note
// if it cannot know them.
func (o *Options) AvoidDrained() {
	if o.WasGiven("avoid-node") || !o.InCluster() {
		return
	}
	d := drains(o.Command)
	o.AvoidNodes, o.AvoidSelector = d.nodes, d.selector
	if d.unknown != "" {
		const note = "which nodes `%s` takes Pods from is not known here (%s):\n" +
			"if it drains one, name it with --avoid-node NODE, or the Job may be evicted with it and end the run"
		command := timeline.JoinCommand(mask.Command(o.Command))
		o.Notes = append(o.Notes, fmt.Sprintf(note, command, d.unknown))
	}
}
