package deploy

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// reads is all that the agent of an attended run may do in its namespace. There is no write among it, and no secret.
func (c Config) reads() []rbacv1.PolicyRule {
	rules := needed()
	for _, rule := range spared() {
		rule.Resources = slices.DeleteFunc(rule.Resources, func(resource string) bool { return slices.Contains(c.Unread, resource) })
		if len(rule.Resources) > 0 {
			rules = append(rules, rule)
		}
	}
	return rules
}

// needed is what the agent cannot do without.
func needed() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		reading("", "pods", "services", "events"),
		reading("discovery.k8s.io", "endpointslices"),
	}
}

// spared is what causes are judged better with: each resource that may not be read is a lane that is off.
func spared() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		reading("apps", "deployments", "replicasets", "statefulsets"),
		reading("policy", "poddisruptionbudgets"),
	}
}

// readVerbs are those of what is read, separated by spaces.
const readVerbs = "get list watch"

func reading(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Fields(readVerbs)}
}

// clusterReads is all the agent may do beyond its namespaces. Where there is nothing, the ClusterRole only owns the Roles of other namespaces.
func (c Config) clusterReads() []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{}
	if c.NodesAccess {
		rules = append(rules, reading("", nodes))
	}
	if c.AllNamespaces {
		rules = append(rules, c.reads()...)
	}
	return rules
}

// writes is what the agent of an unattended run may do besides reading: fill one Secret, and look at and delete one DaemonSet.
// docs/decisions/0022-a-fleet-without-a-workstation.md says why no less, and no more.
func (c Config) writes() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{KeysName(c.Name)}, Verbs: []string{"patch"}},
		{APIGroups: []string{"apps"}, Resources: []string{"daemonsets"}, ResourceNames: []string{ProbersName(c.Name)}, Verbs: []string{"get", "delete"}},
	}
}

// subjects names the ServiceAccount. Without a namespace it is looked for in the RoleBinding's own.
func (c Config) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: c.Name, Namespace: c.Namespace}}
}
