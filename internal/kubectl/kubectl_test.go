package kubectl

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestCommandIsReadAsKubectlReadsIt(t *testing.T) {
	for line, want := range map[string]Command{
		"kubectl drain node1 --ignore-daemonsets":           {Verb: "drain", Operands: []string{"node1"}},
		"kubectl --context prod -n drain get pods":          {Verb: "get", Operands: []string{"pods"}},
		"kubectl -n shop scale --replicas 0 deployment/web": {Verb: "scale", Operands: []string{"deployment/web"}},
		"kubectl rollout undo deployment/web --to-revision 3": {Verb: "rollout",
			Operands: []string{"undo", "deployment/web"}},
		"kubectl delete pods -l app=web": {Verb: "delete", Operands: []string{"pods"},
			Selector: "app=web"},
		"kubectl delete node --all":                   {Verb: "delete", Operands: []string{"node"}, All: true},
		"sudo -u admin timeout 60 oc adm drain node1": {Verb: "drain", Operands: []string{"node1"}},
		"kubectl": {},
	} {
		got, err := Read(strings.Fields(line))
		if err != nil || got.Verb != want.Verb || !slices.Equal(got.Operands, want.Operands) ||
			got.Selector != want.Selector || got.All != want.All {
			t.Errorf("%s: %+v, %v, want %+v", line, got, err, want)
		}
	}
	for _, line := range []string{"", "sleep 5", "sudo helm upgrade web"} {
		if _, err := Read(strings.Fields(line)); !errors.Is(err, ErrOther) {
			t.Errorf("%q: %v, want ErrOther", line, err)
		}
	}
	if _, err := Read(strings.Fields("kubectl drain --unheard-of x node1")); err == nil || errors.Is(err, ErrOther) {
		t.Errorf("an unknown flag gives %v, want its own error", err)
	}
}
