package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"lapse/sandbox/drill"
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
	end  func() error
	pods map[string]*Pod
}

// watchPods begins to follow the Pods; every change goes to a file as well.
func (s scope) watchPods(ctx context.Context, file string) (*podWatch, error) {
	save, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	w, changes := &podWatch{pods: map[string]*Pod{}}, json.NewEncoder(save)
	end, err := s.cluster.Watch(context.WithoutCancel(ctx), func(c drill.Change) {
		_ = changes.Encode(c) // for a reader
		w.see(c)
	}, "pods", "--namespace", s.namespace)
	if err != nil {
		return nil, errors.Join(err, save.Close())
	}
	w.end = func() error { return errors.Join(end(), save.Close()) }
	return w, nil
}

func (w *podWatch) see(c drill.Change) {
	var o struct {
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
	if json.Unmarshal(c.Object, &o) != nil {
		return
	}
	name := o.Metadata.Name
	pod := w.pods[name]
	if pod == nil {
		pod = &Pod{Name: name}
		w.pods[name] = pod
	}
	pod.Node, pod.App = o.Spec.NodeName, o.Metadata.Labels["app"]
	for _, c := range o.Status.ContainerStatuses {
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

// ended ends the watch and returns what it saw. A scenario may have ended it before, with the API server.
func (w *podWatch) ended() (pods []Pod) {
	_ = w.end()
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
