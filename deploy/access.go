package deploy

import (
	"slices"
	"strings"

	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// reads returns all rights that the agent of an attended run has in its namespace. It may not write, and may not read
// Secrets.
func (c Config) reads() []rbacv1.PolicyRule {
	rules := needed()
	unread := func(resource string) bool { return slices.Contains(c.Unread, resource) }
	for _, rule := range spared(c.EvictionRequests) {
		rule.Resources = slices.DeleteFunc(rule.Resources, unread)
		if len(rule.Resources) > 0 {
			rules = append(rules, rule)
		}
	}
	return rules
}

// needed returns the rights that the agent cannot do without.
func needed() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		reading("", "pods", "services", "events"),
		reading("discovery.k8s.io", "endpointslices"),
	}
}

// spared returns rights that make causes more precise. Without the right to a resource, its lane is off.
func spared(evictionRequests bool) []rbacv1.PolicyRule {
	rules := []rbacv1.PolicyRule{
		reading("apps", "deployments", "replicasets", "statefulsets", "daemonsets"),
		reading("policy", "poddisruptionbudgets"),
	}
	if evictionRequests {
		rules = append(rules, reading(lifecyclev1alpha1.GroupName, "evictionrequests"))
	}
	return rules
}

// readVerbs are the verbs of a right to read, separated by spaces.
const readVerbs = "get list watch"

func reading(group string, resources ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: strings.Fields(readVerbs)}
}

// clusterReads returns all rights of the agent outside namespaces. There may be none: the ClusterRole also owns the
// Roles of other namespaces.
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

// writes returns the further rights of the agent of an unattended run: it fills one Secret, and reads and deletes one
// DaemonSet. docs/decisions/0022-a-fleet-without-a-workstation.md has the reasons.
func (c Config) writes() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{
		{
			APIGroups:     []string{""},
			Resources:     []string{"secrets"},
			ResourceNames: []string{keysName(c.Name)},
			Verbs:         []string{"patch"},
		},
		{
			APIGroups:     []string{"apps"},
			Resources:     []string{"daemonsets"},
			ResourceNames: []string{probersName(c.Name)},
			Verbs:         []string{"get", "delete"},
		},
	}
}

// subjects returns the ServiceAccount. Without a namespace it is in the RoleBinding's namespace.
func (c Config) subjects() []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: c.Name, Namespace: c.Namespace}}
}
