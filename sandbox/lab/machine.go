package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"lapse/sandbox/drill"
)

// A machine is what the sandbox that is up runs on.
type machine struct {
	dir   string // the sandbox's state directory
	state drill.State
	log   io.Writer // what the runner does
}

// heal continues what a runner that was killed has left stopped, and ends its cuts.
func (m machine) heal(ctx context.Context) error {
	for _, c := range m.state.Processes {
		if state, start, err := stat(c.PID); err == nil && start == c.Start && state == 'T' {
			if err := send([]int{c.PID}, syscall.SIGCONT); err != nil {
				return err
			}
			fmt.Fprintf(m.log, "%s was stopped: it goes on\n", c.Name)
		}
	}
	for _, node := range nodeNames(m.state) {
		uncut := "nft list tables | grep ' " + cutTable + "' | sed 's/^/delete /' | nft -f -"
		if err := errors.Join(m.plug(ctx, node), m.inNode(ctx, node, "", "bash", "-c", uncut)); err != nil {
			return err
		}
	}
	return m.endOutside(ctx)
}

// plug puts a node's cable in.
func (m machine) plug(ctx context.Context, node string) error {
	return m.inNode(ctx, "cp", "", "ip", "link", "set", "to-"+node, "up")
}

// inNode runs a command in a node's network.
func (m machine) inNode(ctx context.Context, node, stdin string, command ...string) error {
	cmd := m.sandbox().On(ctx, node, command...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s in %s: %w: %s", strings.Join(command, " "), node, err, out)
	}
	return nil
}

// restart has the sandbox end a component, if it runs, and start it again as it was.
func (m machine) restart(ctx context.Context, component ...string) error {
	return m.runSandbox(ctx, "restart", strings.Join(component, "-"))
}

func (m machine) sandbox() *drill.Cluster { return &drill.Cluster{Dir: m.dir} }

// endOutside ends the load balancer and the ingress, where they run.
func (m machine) endOutside(ctx context.Context) (err error) {
	state, err := m.sandbox().State()
	for _, c := range state.Processes {
		if c.Name == "lb" || c.Name == "ingress" {
			err = errors.Join(err, m.runSandbox(ctx, c.Name, "down"))
		}
	}
	return err
}

// outsideState reads what the load balancer or the ingress says of itself.
func (m machine) outsideState(file string, into any) error {
	data, err := os.ReadFile(filepath.Join(m.dir, file))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// runSandbox runs the sandbox's program.
func (m machine) runSandbox(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(m.dir, "bin", "sandbox"),
		append([]string{"--dir", m.dir}, args...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("sandbox %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// A cut of a node from others is a table in that node's netfilter, which begins like this and ends with the play's
// namespace; a cut from all is its cable.
const cutTable = "lapse-cut-"

// nodeNames returns the names of the nodes.
func nodeNames(s drill.State) (names []string) {
	for i := range s.Nodes {
		names = append(names, "node"+strconv.Itoa(i+1))
	}
	return names
}

// stat returns a process's state and start, as in proc_pid_stat(5).
func stat(pid int) (state byte, start uint64, err error) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	if len(fields) < 20 {
		return 0, 0, fmt.Errorf("process %d: not a stat line", pid)
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0][0], start, err
}

func send(pids []int, s syscall.Signal) error {
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil {
			return fmt.Errorf("signal process %d: %w", pid, err)
		}
	}
	return nil
}
