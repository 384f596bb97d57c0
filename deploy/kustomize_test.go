package deploy

import (
	"bytes"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
)

//go:generate go test -run TestKustomizeFilesAreRenderedFromTheGoValues -update .

// kustomizeConfig is the run that deploy/kustomize describes. The namespace is whatever
// `kubectl -n` or a kustomization says; the ClusterRoleBinding must name one.
func kustomizeConfig() Config {
	return Config{
		Name:        "lapse",
		Image:       "lapse:latest",
		Args:        []string{"run", "svc/web", "--duration=10m"},
		Hold:        10 * time.Minute,
		NodesAccess: true,
	}
}

// fleetConfig is the same run from every node, as `lapse gen --from all` prints it.
func fleetConfig() Config {
	config := kustomizeConfig()
	config.Args = append(config.Args, "--from=all")
	config.ProberLabels, config.Unattended = labels.Everything(), true
	return config
}

const generated = "# Generated from deploy/objects.go by `go generate ./deploy`. Do not edit; patch it from a kustomization.\n"

// kustomizeFiles renders the files under deploy/kustomize that follow from the Go values.
func kustomizeFiles() (map[string][]byte, error) {
	objects := kustomizeConfig().Objects()
	fleet := fleetConfig().Objects()
	objects.ClusterRoleBinding.Subjects[0].Namespace, fleet.ClusterRoleBinding.Subjects[0].Namespace = "default", "default"
	files := map[string][]byte{}
	for path, object := range map[string]runtime.Object{
		"base/serviceaccount.yaml":           objects.ServiceAccount,
		"base/role.yaml":                     objects.Role,
		"base/rolebinding.yaml":              objects.RoleBinding,
		"base/job.yaml":                      objects.Job,
		"with-nodes/clusterrole.yaml":        objects.ClusterRole,
		"with-nodes/clusterrolebinding.yaml": objects.ClusterRoleBinding,
		"fleet/serviceaccount.yaml":          fleet.ServiceAccount,
		"fleet/role.yaml":                    fleet.Role,
		"fleet/rolebinding.yaml":             fleet.RoleBinding,
		"fleet/clusterrole.yaml":             fleet.ClusterRole,
		"fleet/clusterrolebinding.yaml":      fleet.ClusterRoleBinding,
		"fleet/secret.yaml":                  fleet.Keys,
		"fleet/job.yaml":                     fleet.Job,
		"fleet/daemonset.yaml":               fleet.Probers,
	} {
		var file bytes.Buffer
		file.WriteString(generated)
		if err := WriteYAML(&file, object); err != nil {
			return nil, err
		}
		files[path] = file.Bytes()
	}
	return files, nil
}
