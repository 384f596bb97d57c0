package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/internal/kube/kubetest"
)

// authorizer is a cluster in which the user may do all but what refused names, as "verb resource/subresource".
func authorizer(rules []authv1.ResourceRule, refused ...string) (client *fake.Clientset, asked *int) {
	client, asked = fake.NewClientset(), new(int)
	client.PrependReactor("create", "selfsubjectrulesreviews", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, &authv1.SelfSubjectRulesReview{Status: authv1.SubjectRulesReviewStatus{ResourceRules: rules}}, nil
	})
	client.PrependReactor("create", "selfsubjectaccessreviews", func(action ktesting.Action) (bool, runtime.Object, error) {
		*asked++
		review := action.(ktesting.CreateAction).GetObject().(*authv1.SelfSubjectAccessReview).DeepCopy()
		attributes := review.Spec.ResourceAttributes
		what := strings.TrimSuffix(attributes.Verb+" "+attributes.Resource+"/"+attributes.Subresource, "/")
		review.Status.Allowed = true
		for _, refusal := range refused {
			if refusal == what {
				review.Status.Allowed = false
			}
		}
		return true, review, nil
	})
	return client, asked
}

func TestNothingIsMissingWithAllRights(t *testing.T) {
	client, _ := authorizer(nil)
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{Nodes: true}); err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestMissingRightsNameTheCommandThatAsksForThem(t *testing.T) {
	client, _ := authorizer(nil, "create jobs", "create pods/portforward", "watch endpointslices", "list nodes")
	missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{Nodes: true})
	if err != nil {
		t.Fatal(err)
	}
	failure := NoRights(missing)
	for _, want := range []string{
		"4 rights are missing",
		"kubectl auth can-i create jobs.batch -n shop ",
		"kubectl auth can-i create pods --subresource=portforward -n shop ",
		"kubectl auth can-i watch endpointslices.discovery.k8s.io -n shop ",
		"kubectl auth can-i list nodes ",
	} {
		if !strings.Contains(failure.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, failure)
		}
	}
	wantHint(t, failure, "admin")
}

func TestNodesAreNotAskedForUnlessWanted(t *testing.T) {
	client, _ := authorizer(nil, "list nodes", "create clusterroles")
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{}); err != nil || len(missing) > 0 {
		t.Errorf("missing %v, %v", missing, err)
	}
	missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{Nodes: true})
	if err != nil || len(missing) != 2 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestARunDoesWithoutWhatOnlyMakesCausesBetter(t *testing.T) {
	for _, tt := range []struct {
		refused          []string
		unwatched, needs []string
		nodes            bool
	}{
		{nil, nil, nil, true},
		{[]string{"list nodes", "create clusterroles"}, []string{"nodes"}, nil, false},
		{[]string{"watch deployments", "get deployments", "list poddisruptionbudgets"}, []string{"deployments", "poddisruptionbudgets"}, nil, true},
		{[]string{"list nodes", "create jobs", "watch pods"}, []string{"nodes"}, []string{"create jobs", "watch pods"}, false},
	} {
		client, _ := authorizer(nil, tt.refused...)
		missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{Nodes: true})
		if err != nil {
			t.Fatal(err)
		}
		config := exampleConfig()
		config.NodesAccess = true
		unwatched, needed := config.Without(missing)
		var needs []string
		for _, m := range needed {
			needs = append(needs, m.Verb+" "+m.Resource)
		}
		if !slices.Equal(unwatched, tt.unwatched) || !slices.Equal(needs, tt.needs) || config.NodesAccess != tt.nodes {
			t.Errorf("without %q: unwatched %q, needed %q, nodes %v", tt.refused, unwatched, needs, config.NodesAccess)
		}
		granted := fmt.Sprint(config.Objects().Role.Rules)
		for _, resource := range []string{"pods", "deployments", "replicasets", "statefulsets", "daemonsets", "poddisruptionbudgets"} {
			if strings.Contains(granted, resource) == slices.Contains(unwatched, resource) {
				t.Errorf("without %q: the agent's Role is %s", tt.refused, granted)
			}
		}
	}
}

// Where the API server serves EvictionRequests, the agent may read them if the user may.
func TestTheAgentReadsEvictionRequestsWhereTheyAreServed(t *testing.T) {
	for _, tt := range []struct {
		served    bool
		refused   []string
		unwatched []string
		granted   bool
	}{
		{false, []string{"watch evictionrequests"}, nil, false},
		{true, []string{"watch evictionrequests"}, []string{"evictionrequests"}, false},
		{true, nil, nil, true},
	} {
		client, _ := authorizer(nil, tt.refused...)
		missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{EvictionRequests: tt.served})
		if err != nil {
			t.Fatal(err)
		}
		config := exampleConfig()
		config.EvictionRequests = tt.served
		unwatched, needed := config.Without(missing)
		granted := strings.Contains(fmt.Sprint(config.Objects().Role.Rules), "[lifecycle.k8s.io] [evictionrequests]")
		if !slices.Equal(unwatched, tt.unwatched) || len(needed) > 0 || granted != tt.granted {
			t.Errorf("%+v: unwatched %q, needed %v, granted %v", tt, unwatched, needed, granted)
		}
	}
}

func TestOneQuestionIsEnoughForAnAdministrator(t *testing.T) {
	all := []authv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	client, asked := authorizer(all)
	if _, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{}); err != nil || *asked != 0 {
		t.Errorf("asked %d times, %v", *asked, err)
	}
}

func TestRulesForNamedObjectsDoNotCount(t *testing.T) {
	named := []authv1.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ResourceNames: []string{"one"}}}
	client, _ := authorizer(named, "create jobs")
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{}); err != nil || len(missing) != 1 {
		t.Errorf("missing %v, %v", missing, err)
	}
}

func TestUnreachableClusterIsAnErrorNotAMissingRight(t *testing.T) {
	client := fake.NewClientset()
	down := errors.New("connection refused")
	client.PrependReactor("create", "*", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, down })
	if missing, err := CheckRights(t.Context(), kubetest.Client(client), "shop", Needs{}); !errors.Is(err, down) || missing != nil {
		t.Errorf("missing %v, %v", missing, err)
	}
}

// The documentation lists the rights that are checked, as something that can be applied.
func TestRightsAreDocumented(t *testing.T) {
	const path = "../docs/reference/rights.md"
	want := rightsPage(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is stale: go test ./deploy -run Documented -update (+is -should be)\n%s", path, diff)
	}
}

func rightsPage(t *testing.T) string {
	t.Helper()
	var page bytes.Buffer
	page.WriteString("<!-- Generated by deploy/rights_test.go: go test ./deploy -run Documented -update -->\n" + `# Rights

What ` + "`lapse run svc/…`" + ` needs of the cluster. Lapse checks it before it creates anything, and lists all that
is missing at once. The agent is Lapse in the Job's Pod; only rights that one has can be granted to it. The role
` + "`admin`" + ` in the Service's namespace has all but the last table's; or apply the Role below.

| in the namespace | right | for |
|---|---|---|
`)
	lanes := slices.DeleteFunc(neededRights(Needs{}), func(r Right) bool { return r.Lane == "" })
	writeRights(&page, neededRights(Needs{}), lanes)
	writeRights(&page, neededRights(Needs{Secret: true}), neededRights(Needs{}))
	page.WriteString(`
Without these flags the right to create Secrets is not needed; the right to read them never is.

To measure from several nodes (` + "`--from`, `lapse routes`" + `) these are needed as well, that to nodes in the cluster:

| resource | right | for |
|---|---|---|
`)
	writeRights(&page, neededRights(Needs{Probers: true}), neededRights(Needs{}))
	page.WriteString(`
Who applies what ` + "`lapse gen --from`" + ` prints grants the Job more, each by its name: to patch the probers' Secret, and to get and delete their DaemonSet. The role ` + "`admin`" + ` has these.

And for ` + "`lapse routes`" + `:

| in the namespace | right | for |
|---|---|---|
`)
	writeRights(&page, neededRights(Needs{Canary: true}), neededRights(Needs{}))
	page.WriteString(`
Whoever runs ` + "`lapse routes`" + ` may also list EndpointSlices in ` + "`kube-system`" + `, or DNS lag is not measured: ` + "`kubectl auth can-i list endpointslices.discovery.k8s.io -n kube-system`" + `. Whoever starts a run may get the ConfigMap ` + "`kube-proxy`" + ` there, on EKS also ` + "`kube-proxy-config`" + `, or its minSyncPeriod is taken to be 1 s. The Job needs neither right.

With ` + "`--control-plane`" + `, whoever starts a run may get EndpointSlice ` + "`kubernetes`" + ` in ` + "`default`" + `, or its Service is asked, not each API server; so may a guard. ` + "`/livez` and `/readyz`" + ` are open to all by default (` + "`system:public-info-viewer`" + `).

These make causes more precise: who scaled, rolled out, drained or tainted what, and which budget held it up. The run goes on without them, and says so.

| in the namespace | right | for |
|---|---|---|
`)
	writeRights(&page, lanes, nil)
	page.WriteString(`
| in the cluster | right | for |
|---|---|---|
`)
	writeRights(&page, neededRights(Needs{Nodes: true}), neededRights(Needs{}))
	page.WriteString(`
Services of several namespaces (` + "`--on-node`, `-A`" + `) need the rights to ClusterRoles and their bindings in any case, and these in each other namespace with measured Services;
for ` + "`-A`" + ` only those to read, in all namespaces at once (` + "`kubectl auth can-i list pods -A`" + `):

| in each namespace | right | for |
|---|---|---|
`)
	writeRights(&page, elsewhereRights(Needs{}), nil)
	page.WriteString(`
` + "`lapse gen guard`" + ` grants a guard these: in one namespace, as the role ` + "`admin`" + ` may, or in all, with those to read nodes, ` + "`evictionrequests.lifecycle.k8s.io`" + ` and the ConfigMaps ` + "`kube-proxy`" + ` and ` + "`kube-proxy-config`" + ` (of EKS), without which minSyncPeriod is taken to be 1 s. In one namespace, add that for ` + "`evictionrequests`" + ` where these are served: ` + "`lapse run`" + ` does if you may. Without that to create Events it writes none.

| in each namespace | right | for |
|---|---|---|
`)
	writeRights(&page, guardRights(), nil)
	page.WriteString(`
In its own namespace, without ` + "`--claim`" + `, it may create Leases, and get and patch the Lease ` + "`lapse-guard`" + ` and the ConfigMap ` + "`lapse-guard-history`" + `; with ` + "`--from`" + ` the Secret ` + "`lapse-guard-probers`" + `.

What else is tried may fail: to delete ServiceAccount, Role and RoleBinding at once, not with the Job; to list nodes, for the Job's place; to list
ClusterRoles, and delete those of a crash. ` + "`lapse status`" + ` and ` + "`lapse delete`" + ` say which kinds they may not list.

As a Role:

` + "```yaml\n")
	role := &rbacv1.Role{TypeMeta: typeMeta(rbacV1, "Role"), ObjectMeta: metav1.ObjectMeta{Name: "lapse-user"}, Rules: asRules(neededRights(Needs{Secret: true}))}
	var text strings.Builder
	if err := WriteYAML(&text, role); err != nil {
		t.Fatal(err)
	}
	page.WriteString(blockList.ReplaceAllStringFunc(text.String(), oneLine) + "```\n")
	return page.String()
}

// guardRights returns the rights of a guard.
func guardRights() (rights []Right) {
	for _, rule := range guardRules() {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				purpose := "to measure, and to find causes"
				if len(rule.Verbs) == 1 {
					purpose = "to write Events on what was measured"
				}
				rights = append(rights, Right{Verb: verb, Group: rule.APIGroups[0], Resource: resource, For: purpose})
			}
		}
	}
	return rights
}

// blockList matches a list of plain values in YAML, with its key.
var blockList = regexp.MustCompile(`(?m)^.*\w:(\n *- [\w/."-]+)+$`)

// oneLine returns a list of YAML on the line of its key.
func oneLine(list string) string {
	lines := strings.Split(list, "\n")
	for i := range lines[1:] {
		_, lines[i+1], _ = strings.Cut(lines[i+1], "- ")
	}
	return lines[0] + " [" + strings.Join(lines[1:], ", ") + "]"
}

// writeRights writes the rights that are not among known: a row for all objects with the same verbs and purpose.
func writeRights(page *bytes.Buffer, rights, known []Right) {
	rights = slices.DeleteFunc(slices.Clone(rights), func(r Right) bool { return slices.Contains(known, r) })
	for _, row := range alike(grouped(rights), func(g groupedRight) string { return g.purpose + g.allVerbs() }) {
		var names []string
		for _, g := range row {
			names = append(names, "`"+strings.TrimSuffix(g.resource+"."+g.group, ".")+"`")
		}
		purpose, _, _ := strings.Cut(row[0].purpose, ": ") // the page gives the reason once
		fmt.Fprintf(page, "| %s | %s | %s |\n", strings.Join(names, ", "), row[0].allVerbs(), purpose)
	}
}

type groupedRight struct {
	group, resource, purpose string
	verbs                    []string
}

func (g groupedRight) allVerbs() string { return strings.Join(g.verbs, ", ") }

// alike puts together what has the same key, where the first of it stood.
func alike(all []groupedRight, key func(groupedRight) string) (groups [][]groupedRight) {
	at := map[string]int{}
	for _, g := range all {
		i, known := at[key(g)]
		if !known {
			i = len(groups)
			at[key(g)], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], g)
	}
	return groups
}

// grouped puts the verbs of the same resource together.
func grouped(rights []Right) []groupedRight {
	var all []groupedRight
	for _, r := range rights {
		resource := strings.TrimSuffix(r.Resource+"/"+r.Subresource, "/")
		if n := len(all); n == 0 || all[n-1].resource != resource {
			all = append(all, groupedRight{group: r.Group, resource: resource, purpose: r.For})
		}
		last := &all[len(all)-1]
		last.verbs = append(last.verbs, r.Verb)
	}
	return all
}

func asRules(rights []Right) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, row := range alike(grouped(rights), func(g groupedRight) string { return g.group + " " + g.allVerbs() }) {
		rule := rbacv1.PolicyRule{APIGroups: []string{row[0].group}, Verbs: row[0].verbs}
		for _, g := range row {
			rule.Resources = append(rule.Resources, g.resource)
		}
		rules = append(rules, rule)
	}
	return rules
}
