package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/spf13/cobra"

	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/image"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/internal/run/version"
)

// builtInImage is the Job's image where nothing names another. The linker sets it.
var builtInImage = "lapse:dev"

// envImage is the variable that names the Job's image.
const envImage = "LAPSE_IMAGE"

const defaultImage = "$" + envImage + ", else what lapse image push or load made for this context"

// chooseImage fills in the Job's image and where its name comes from: --image, the environment, what was pushed or
// loaded for the kubeconfig's context, or the default of this build.
func chooseImage(o *spec.Options) error {
	if o.Image != "" {
		o.ImageFrom = "--image"
		return nil
	}
	if o.Image = o.Env[envImage]; o.Image != "" {
		o.ImageFrom = "$" + envImage
		return nil
	}
	o.Image, o.ImageFrom = builtInImage, "this build of Lapse: none was pushed or loaded for this kubeconfig context"
	kubeContext, err := o.Kube.ContextName()
	if err != nil || kubeContext == "" {
		return nil // whoever asks the cluster finds out; a Job is also printed without one
	}
	store := image.UserStore()
	remembered, err := store.Image(kubeContext)
	if err != nil || remembered == "" {
		return exit.AsUsage(err)
	}
	o.Image, o.ImageFrom = remembered, "lapse image, which remembered it for context "+kubeContext+" in "+store.Path
	return nil
}

// sayWhoseImage adds to an error about the Job's image where its name comes from.
func sayWhoseImage(err error, o *spec.Options) error {
	if start, ok := errors.AsType[*deploy.StartError](err); !ok || start.Image == "" {
		return err
	}
	return hint.Add(strings.TrimPrefix(hint.Of(err)+"\n", "\n")+"the image's name comes from "+o.ImageFrom, err)
}

// An imageTask is what the verbs of `lapse image` share.
type imageTask struct {
	kube     access.Kube
	binaries []string
	called   string // the image's name
	insecure bool
}

func newImage() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Put Lapse's image where the cluster's nodes find it",
		Long: `Make the image of this version of Lapse without Docker, for linux/amd64 and linux/arm64. Its binaries
are this program on Linux, and those that a release archive has in image/; --binary names others. After
a push or load, runs in this kubeconfig context need no --image.`,
		Args: noSuchVerb,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newImagePush(), newImageLoad(), newImageSave())
	return cmd
}

func newImagePush() *cobra.Command {
	var t imageTask
	cmd := &cobra.Command{
		Use:   "push REGISTRY/NAME[:TAG]",
		Short: "Push the image to a registry",
		Long: `Push the image to a registry with the login of Docker or Podman, and print its name by digest, which
is the same for the same binaries. Without a TAG, the tag is the version.`,
		Example: `  lapse image push ghcr.io/you/lapse
  lapse image push localhost:5000/lapse --binary linux/arm64=lapse-arm64`,
		Args: exactly(1, "the image's name, as in ghcr.io/you/lapse"),
		RunE: func(cmd *cobra.Command, args []string) error {
			t.called = args[0]
			if !strings.Contains(t.called, "/") {
				return exit.Usagef("as in ghcr.io/you/lapse; on Docker Hub, you/lapse",
					"image %q: in which registry?", t.called)
			}
			return t.push(cmd)
		},
	}
	t.flags(cmd)
	t.contextFlags(cmd)
	cmd.Flags().BoolVar(&t.insecure, "insecure", false, "push over HTTP to a registry without TLS")
	return cmd
}

func newImageLoad() *cobra.Command {
	var t imageTask
	var into string
	cmd := &cobra.Command{
		Use:   "load",
		Short: "Load the image onto the nodes of a local cluster",
		Long: `Load the image onto the nodes of a local cluster, with kind, k3d or minikube, as the kubeconfig context
is called. With --into containerd, ctr imports it on this machine, which must be a node.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			kubeContext, err := t.kube.ContextName()
			if err != nil {
				return err
			}
			loader, err := image.LoaderFor(into, kubeContext)
			if err != nil {
				return exit.AsUsage(err)
			}
			index, tag, err := t.make(cmd)
			if err != nil {
				return err
			}
			if err := loader.Load(cmd.Context(), index, tag, cmd.ErrOrStderr()); err != nil {
				return err
			}
			return t.remember(cmd, kubeContext, tag.String())
		},
	}
	t.flags(cmd)
	t.contextFlags(cmd)
	cmd.Flags().StringVar(&t.called, "name", builtInImage, "name of the image on the nodes")
	cmd.Flags().StringVar(&into, "into", "", "`TOOL` to load with: "+strings.Join(image.Loaders(), ", ")+
		" (default: by the context's name)")
	return cmd
}

func newImageSave() *cobra.Command {
	var t imageTask
	cmd := &cobra.Command{
		Use:   "save FILE.tar",
		Short: "Save the image as a tar for docker load and ctr images import",
		Args:  exactly(1, "the FILE to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			index, tag, err := t.make(cmd)
			if err != nil {
				return err
			}
			return image.SaveFile(args[0], index, tag)
		},
	}
	t.flags(cmd)
	cmd.Flags().StringVar(&t.called, "name", builtInImage, "name of the image in the file")
	return cmd
}

func (t *imageTask) flags(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	cmd.Flags().StringArrayVar(&t.binaries, "binary", nil,
		"Lapse's binary for a platform, as `linux/ARCH=PATH` (repeatable)")
}

func (t *imageTask) contextFlags(cmd *cobra.Command) {
	addFlags(cmd.Flags(), kubeTable(&t.kube)[1:]) // without the namespace
}

// make makes the image, and says of which platforms it is.
func (t *imageTask) make(cmd *cobra.Command) (v1.ImageIndex, name.Tag, error) {
	tag, err := image.Tag(t.called, version.Version, t.insecure)
	if err != nil {
		return nil, tag, exit.AsUsage(err)
	}
	programs, err := image.Programs(t.binaries)
	if err != nil {
		return nil, tag, exit.AsUsage(err)
	}
	index, err := image.Lapse(programs, version.Version, version.Homepage)
	if err != nil {
		return nil, tag, exit.AsUsage(err)
	}
	platforms, err := image.Describe(index)
	if err != nil {
		return nil, tag, err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "image %s for %s\n", t.called, platforms)
	for _, missing := range image.Missing(programs) {
		fmt.Fprintf(cmd.ErrOrStderr(), "no binary for %s: nodes of that platform cannot run this image; "+
			"--binary %[1]s=PATH adds it\n", missing)
	}
	return index, tag, nil
}

func (t *imageTask) push(cmd *cobra.Command) error {
	kubeContext, err := t.kube.ContextName()
	if err != nil {
		return err
	}
	index, tag, err := t.make(cmd)
	if err != nil {
		return err
	}
	pushed, err := image.Registry{UserAgent: userAgent(), Insecure: t.insecure}.Push(cmd.Context(), index, tag)
	if err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), pushed)
	return t.remember(cmd, kubeContext, pushed)
}

// userAgent returns what registries are told of who asks.
func userAgent() string { return "lapse/" + version.Version }

// remember remembers an image for the kubeconfig's context.
func (t *imageTask) remember(cmd *cobra.Command, kubeContext, made string) error {
	if kubeContext == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "there is no kubeconfig context to remember it for: give --image %s\n", made)
		return nil
	}
	if err := image.UserStore().Remember(kubeContext, made); err != nil {
		return hint.Add(cmp.Or(hint.Of(err), "give --image "+made),
			fmt.Errorf("the image is there, but not remembered: %w", err))
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "remembered for context %s: runs there need no --image\n", kubeContext)
	if other := os.Getenv(envImage); other != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "but $%s is set, which they take instead: %s\n", envImage, other)
	}
	return nil
}
