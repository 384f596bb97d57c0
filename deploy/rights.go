package deploy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// A MissingRight is a right that the user does not have.
type MissingRight struct {
	Right
	Namespace string // empty: all
	Reason    string // the authorizer's, if it gave one
}

// canI returns the kubectl command that checks the right.
func (m MissingRight) canI() string {
	line := "kubectl auth can-i " + m.Verb + " " + qualified(m.Resource, m.Group)
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

// A rightsError says which rights are missing for a run in the cluster.
type rightsError struct{ Missing []MissingRight }

func (e *rightsError) Error() string {
	are := fmt.Sprintf("%d rights are", len(e.Missing))
	if len(e.Missing) == 1 {
		are = "1 right is"
	}
	lines := []string{are + " missing to run Lapse in the cluster:"}
	for _, missing := range e.Missing {
		lines = append(lines, fmt.Sprintf("  %s   # %s", missing.canI(), missing.For))
	}
	return strings.Join(lines, "\n")
}

// NoRights returns an error that lists the missing rights, with a hint.
func NoRights(missing []MissingRight) error {
	ask := "ask for the role \"admin\" in this namespace, or for just these rights, "
	if !slices.ContainsFunc(missing, func(m MissingRight) bool { return !m.Cluster }) {
		ask = "ask for these rights in the cluster, "
	}
	return hint.Add(ask+"or let someone who has them apply the output of `lapse gen`; or measure a URL from here",
		&rightsError{missing})
}

// Without changes the configuration to need fewer rights, as far as it can do without the missing ones. It returns the
// resources that the agent will not watch, and the missing rights without which it cannot measure.
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

// CheckRights returns the rights for a run in the namespace that the user lacks. A run can do without some of them: see
// [Config.Without]. It returns an error only if the cluster does not answer.
//
// It also checks the agent's rights, because users can grant only rights that they have.
// https://kubernetes.io/docs/reference/access-authn-authz/rbac/#privilege-escalation-prevention-and-bootstrapping
func CheckRights(ctx context.Context, client kube.Client, namespace string, need Needs) ([]MissingRight, error) {
	missing, err := lacking(ctx, client, namespace, neededRights(need))
	if err != nil {
		return nil, err
	}
	for _, other := range need.Namespaces {
		more, err := lacking(ctx, client, other, elsewhereRights(need))
		if err != nil {
			return nil, err
		}
		missing = append(missing, more...)
	}
	if need.AllNamespaces {
		more, err := lacking(ctx, client, metav1.NamespaceAll, readRights(need))
		if err != nil {
			return nil, err
		}
		missing = append(missing, more...)
	}
	return missing, nil
}

// lacking returns the rights that the user does not have in a namespace; empty: in all.
func lacking(ctx context.Context, client kube.Client, namespace string, rights []Right) ([]MissingRight, error) {
	var missing []MissingRight
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

// neededRights returns the rights that the user of the command line needs. Some more calls may fail without harm: Lapse
// deletes Role, RoleBinding and ServiceAccount at once, although they are deleted with the Job anyway; it reads nodes
// to place the Job; it deletes ClusterRoles that a crash has left.
func neededRights(of Needs) []Right {
	var inside, outside []Right
	for _, k := range kinds {
		if k.cluster {
			outside = append(outside, k.rights(of)...)
		} else {
			inside = append(inside, k.rights(of)...)
		}
	}
	need := func(to Right, verbs, purpose string) {
		inside = append(inside, reason{verbs: verbs, purpose: purpose}.rights(to)...)
	}
	if of.Canary {
		need(Right{Resource: "pods"}, "get list delete", "to change its endpoints")
	}
	need(Right{Resource: "pods", Subresource: "portforward"}, "create", "to reach the agent")
	need(Right{Resource: "pods", Subresource: "log"}, "get", "to retrieve a result")
	inside = append(inside, readRights(of)...)
	if of.Probers {
		choose := reason{verbs: "list", purpose: "to choose the nodes of --from"}
		outside = append(outside, choose.rights(Right{Resource: nodes, Cluster: true})...)
	}
	if of.Nodes {
		outside = append(outside, granted(nodes).rights(Right{Resource: nodes, Cluster: true})...)
	}
	return append(inside, outside...)
}

const toGrant = "to grant it to the agent: only rights that one has can be granted"

// readRights returns the rights that the agent needs in a namespace. The user needs them as well.
func readRights(of Needs) []Right {
	var rights []Right
	look := reason{verbs: readVerbs, purpose: "to look before the run, and " + toGrant}
	for _, rule := range needed() {
		for _, resource := range rule.Resources {
			rights = append(rights, look.rights(Right{Group: rule.APIGroups[0], Resource: resource})...)
		}
	}
	for _, rule := range spared(of.EvictionRequests) {
		for _, resource := range rule.Resources {
			rights = append(rights, granted(resource).rights(Right{Group: rule.APIGroups[0], Resource: resource})...)
		}
	}
	return rights
}

// granted returns the reason for a right to read that the agent can do without.
func granted(lane string) reason { return reason{verbs: readVerbs, purpose: toGrant, lane: lane} }

// elsewhereRights returns the rights that the user needs in each other namespace that the agent reads.
func elsewhereRights(of Needs) []Right {
	var rights []Right
	for _, k := range kinds {
		if k.elsewhere {
			rights = append(rights, k.rights(Needs{})...)
		}
	}
	return append(rights, readRights(of)...)
}

// knownRules returns the user's rules in the namespace, with one request instead of many. They may be incomplete, so
// lacking asks about rights that are not among them.
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

type rightStatus = authv1.SubjectAccessReviewStatus

func ask(ctx context.Context, client kube.Client, namespace string, right Right) (rightStatus, error) {
	attributes := &authv1.ResourceAttributes{
		Verb:        right.Verb,
		Group:       right.Group,
		Resource:    right.Resource,
		Subresource: right.Subresource,
	}
	if !right.Cluster {
		attributes.Namespace = namespace
	}
	review, err := client.SelfSubjectAccessReviews().Create(ctx, &authv1.SelfSubjectAccessReview{
		Spec: authv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes},
	}, metav1.CreateOptions{})
	if err != nil {
		return rightStatus{}, fmt.Errorf("ask for the right to %s %s: %w", right.Verb, right.Resource, err)
	}
	return review.Status, nil
}
