package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/hint"
	"lapse/kube"
)

// A Right is one thing someone may do in a cluster.
type Right struct {
	Verb, Group, Resource, Subresource string
	Cluster                            bool   // not in a namespace
	For                                string // what Lapse needs it for
	Lane                               string // the resource that is not watched without it; empty: nothing can be measured
}

// A MissingRight is a right that the user of the kubeconfig does not have.
type MissingRight struct {
	Right
	Namespace string // empty: all
	Reason    string // the authorizer's, if it gave one
}

// CanI is the command that asks the cluster the same question.
func (m MissingRight) CanI() string {
	resource := m.Resource
	if m.Group != "" {
		resource += "." + m.Group
	}
	line := "kubectl auth can-i " + m.Verb + " " + resource
	if m.Subresource != "" {
		line += " --subresource=" + m.Subresource
	}
	switch {
	case m.Cluster:
		return line
	case m.Namespace == metav1.NamespaceAll:
		return line + " -A"
	}
	return line + " -n " + m.Namespace
}

// A RightsError says which rights are missing for a run in the cluster.
type RightsError struct{ Missing []MissingRight }

func (e *RightsError) Error() string {
	lines := []string{fmt.Sprintf("%d rights are missing to run Lapse in the cluster:", len(e.Missing))}
	for _, missing := range e.Missing {
		lines = append(lines, fmt.Sprintf("  %s   # %s", missing.CanI(), missing.For))
	}
	return strings.Join(lines, "\n")
}

// NoRights returns a [RightsError], with what to do about it.
func NoRights(missing []MissingRight) error {
	return hint.Add("ask for the role \"admin\" in this namespace, or for just these rights, or let someone who has them apply the output of `lapse gen`; or measure a URL from here", &RightsError{missing})
}

// Without makes the configuration do without those of the missing rights that it can do without. It returns the resources that will not
// be watched, and the rights without which nothing can be measured.
func (c *Config) Without(missing []MissingRight) (unwatched []string, needed []MissingRight) {
	for _, m := range missing {
		switch {
		case m.Lane == "":
			needed = append(needed, m)
		case !slices.Contains(unwatched, m.Lane):
			unwatched = append(unwatched, m.Lane)
		}
	}
	c.Unread = unwatched
	c.NodesAccess = c.NodesAccess && !slices.Contains(unwatched, nodes)
	return unwatched, needed
}

// nodes are what a ClusterRole is for.
const nodes = "nodes"

// Needs are what not every run needs.
type Needs struct {
	Nodes   bool // the agent shall read nodes
	Secret  bool // something travels in a Secret
	Probers bool // probers run on nodes
	Canary  bool // a Service of the run's own is measured

	Namespaces    []string // others that the agent shall read
	AllNamespaces bool     // the agent shall read all
}

// several reports whether the agent shall read more than its own namespace.
func (n Needs) several() bool { return n.AllNamespaces || len(n.Namespaces) > 0 }

// CheckRights reports which rights for a run in the namespace the user lacks; none missing is nil. Some of these it can do without: see
// [Config.Without].
// The error is set only if the cluster could not be asked.
//
// Among them is what the agent itself may do: nobody can grant a right they do not have.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
func CheckRights(ctx context.Context, client kube.Client, namespace string, need Needs) ([]MissingRight, error) {
	missing, err := lacking(ctx, client, namespace, neededRights(need))
	if err != nil {
		return nil, err
	}
	for _, other := range need.Namespaces {
		more, err := lacking(ctx, client, other, elsewhereRights())
		if err != nil {
			return nil, err
		}
		missing = append(missing, more...)
	}
	if need.AllNamespaces {
		more, err := lacking(ctx, client, metav1.NamespaceAll, readRights())
		if err != nil {
			return nil, err
		}
		missing = append(missing, more...)
	}
	return missing, nil
}

// lacking are those of the rights that the user does not have in a namespace; empty: in all.
func lacking(ctx context.Context, client kube.Client, namespace string, rights []Right) (missing []MissingRight, err error) {
	known := knownRules(ctx, client, namespace)
	for _, right := range rights {
		if !right.Cluster && covered(known, right) {
			continue
		}
		status, err := ask(ctx, client, namespace, right)
		if err != nil {
			return nil, err
		}
		if !status.Allowed {
			missing = append(missing, MissingRight{right, namespace, status.Reason})
		}
	}
	return missing, nil
}

// neededRights lists what the user of the command line needs. What is not on it is done where it may be: the Role and its like
// are deleted at once, not when the Job takes them along; nodes are looked at to place the Job; ClusterRoles that a crash
// left behind are deleted.
func neededRights(need Needs) []Right {
	var rights rightList
	add := rights.add
	const rbac = rbacv1.GroupName
	add("to run the agent", "batch", "jobs", "", "create", "get", "list", "watch", "patch", "delete")
	add("to let the agent read", "", "serviceaccounts", "", "create")
	add("to let the agent read", rbac, "roles", "", "create")
	add("to let the agent read", rbac, "rolebindings", "", "create")
	if need.Secret {
		add("to hand headers, --hammer and --echo to the agent", "", "secrets", "", "create")
	}
	if need.Canary {
		add("to bring a Service of its own", "apps", "deployments", "", "create", "get", "delete")
		add("to bring a Service of its own", "", "services", "", "create", "get", "delete")
		add("to change its endpoints", "", "pods", "", "get", "list", "delete")
	}
	if need.Probers {
		add("to run the probers of --from", "apps", "daemonsets", "", "create", "get", "delete")
		add("to give the probers of --from their keys", "", "secrets", "", "create")
	}
	add("to reach the agent", "", "pods", "portforward", "create")
	add("to retrieve a result", "", "pods", "log", "get")
	rights = append(rights, readRights()...)
	outside := len(rights)
	switch {
	case need.several():
		add("to let the agent read other namespaces", rbac, "clusterroles", "", "create", "get", "delete")
		add("to let the agent read other namespaces", rbac, "clusterrolebindings", "", "create", "get", "delete")
	case need.Nodes:
		add("to let the agent read nodes", rbac, "clusterroles", "", "create", "get", "delete")
		add("to let the agent read nodes", rbac, "clusterrolebindings", "", "create", "get", "delete")
		rights[outside:].are(nodes)
	}
	if need.Nodes {
		from := len(rights)
		add("to grant it to the agent", "", nodes, "", readVerbs()...)
		rights[from:].are(nodes)
	}
	for i := range rights[outside:] {
		rights[outside+i].Cluster = true
	}
	return rights
}

// A rightList grows.
type rightList []Right

func (l *rightList) add(purpose, group, resource, subresource string, verbs ...string) {
	for _, verb := range verbs {
		*l = append(*l, Right{Verb: verb, Group: group, Resource: resource, Subresource: subresource, For: purpose})
	}
}

// are makes the rights be of a lane: the run can do without them.
func (l rightList) are(lane string) {
	for i := range l {
		l[i].Lane = lane
	}
}

// readRights are what the agent reads of a namespace, which the user must be allowed as well.
func readRights() []Right {
	var rights rightList
	for _, rule := range needed() {
		for _, resource := range rule.Resources {
			rights.add("to look before the run, and to grant it to the agent", rule.APIGroups[0], resource, "", rule.Verbs...)
		}
	}
	for _, rule := range spared() {
		for _, resource := range rule.Resources {
			from := len(rights)
			rights.add("to grant it to the agent", rule.APIGroups[0], resource, "", rule.Verbs...)
			rights[from:].are(resource)
		}
	}
	return rights
}

// elsewhereRights are what is needed in each other namespace that the agent reads.
func elsewhereRights() []Right {
	var rights rightList
	rights.add("to let the agent read", rbacv1.GroupName, "roles", "", "create")
	rights.add("to let the agent read", rbacv1.GroupName, "rolebindings", "", "create")
	return append(rights, readRights()...)
}

// knownRules asks once for all rules in the namespace, which saves most of the single questions. The
// answer may be incomplete, so what it does not contain is still asked for.
func knownRules(ctx context.Context, client kube.Client, namespace string) []authv1.ResourceRule {
	review, err := client.SelfSubjectRulesReviews().Create(ctx, &authv1.SelfSubjectRulesReview{
		Spec: authv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil
	}
	return review.Status.ResourceRules
}

// covered reports whether one of the rules surely allows the right.
func covered(rules []authv1.ResourceRule, right Right) bool {
	resource := right.Resource
	if right.Subresource != "" {
		resource += "/" + right.Subresource
	}
	return slices.ContainsFunc(rules, func(rule authv1.ResourceRule) bool {
		return len(rule.ResourceNames) == 0 &&
			has(rule.Verbs, right.Verb) && has(rule.APIGroups, right.Group) && has(rule.Resources, resource)
	})
}

func has(list []string, value string) bool {
	return slices.Contains(list, value) || slices.Contains(list, "*")
}

func ask(ctx context.Context, client kube.Client, namespace string, right Right) (authv1.SubjectAccessReviewStatus, error) {
	attributes := &authv1.ResourceAttributes{
		Verb: right.Verb, Group: right.Group, Resource: right.Resource, Subresource: right.Subresource,
	}
	if !right.Cluster {
		attributes.Namespace = namespace
	}
	review, err := client.SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		return authv1.SubjectAccessReviewStatus{}, fmt.Errorf("ask for the right to %s %s: %w", right.Verb, right.Resource, err)
	}
	return review.Status, nil
}
