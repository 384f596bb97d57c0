package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A Pod is one that was there during the run, by the API server.
type Pod struct {
	Name  string
	Node  string
	App   string
	Exits []PodExit
}

// A PodExit is how a container ended.
type PodExit struct {
	Container string
	Code      int
	Reason    string
	Finished  time.Time // to the second
}

// A podWatch follows the Pods of the namespace for the whole run.
type podWatch struct {
	cmd  *exec.Cmd
	pods map[string]*Pod
	done chan struct{}
}

// watchPods begins to follow the Pods; every change goes to a file as well.
func (s scope) watchPods(ctx context.Context, file string) (*podWatch, error) {
	w := &podWatch{
		cmd:  s.command(context.WithoutCancel(ctx), "get", "pods", "-w", "--output-watch-events", "-o", "json"),
		pods: map[string]*Pod{},
		done: make(chan struct{}),
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	save, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := w.cmd.Start(); err != nil {
		return nil, errors.Join(err, save.Close())
	}
	go func() {
		defer close(w.done)
		defer save.Close()
		events := json.NewDecoder(io.TeeReader(bufio.NewReader(out), save))
		for {
			var e podEvent
			if events.Decode(&e) != nil {
				return
			}
			w.see(e)
		}
	}()
	return w, nil
}

type podEvent struct {
	Object struct {
		Metadata struct {
			Name   string
			Labels map[string]string
		}
		Spec   struct{ NodeName string }
		Status struct {
			ContainerStatuses []struct {
				Name             string
				State, LastState struct {
					Terminated *struct {
						ExitCode   int
						Reason     string
						FinishedAt time.Time
					}
				}
			}
		}
	}
}

func (w *podWatch) see(e podEvent) {
	name := e.Object.Metadata.Name
	pod := w.pods[name]
	if pod == nil {
		pod = &Pod{Name: name}
		w.pods[name] = pod
	}
	pod.Node, pod.App = e.Object.Spec.NodeName, e.Object.Metadata.Labels["app"]
	for _, c := range e.Object.Status.ContainerStatuses {
		if t := c.LastState.Terminated; t != nil {
			pod.exit(PodExit{c.Name, t.ExitCode, t.Reason, t.FinishedAt})
		}
		if t := c.State.Terminated; t != nil {
			pod.exit(PodExit{c.Name, t.ExitCode, t.Reason, t.FinishedAt})
		}
	}
}

func (p *Pod) exit(e PodExit) {
	if !slices.Contains(p.Exits, e) {
		p.Exits = append(p.Exits, e)
	}
}

// end ends the watch and returns what it saw.
func (w *podWatch) end() (pods []Pod) {
	_ = w.cmd.Process.Kill()
	<-w.done
	_ = w.cmd.Wait() // that it was killed
	for _, pod := range w.pods {
		pods = append(pods, *pod)
	}
	slices.SortFunc(pods, func(a, b Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

func shortName(pod string) string {
	if match := generated.FindStringSubmatch(pod); match != nil {
		return match[1]
	}
	return pod
}
