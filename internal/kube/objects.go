package kube

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// pointer is *T, which is what client-go decodes into.
type pointer[T any] interface {
	*T
	runtime.Object
}

// A resource is one kind's place in the API.
type resource struct {
	group
	name      string // plural and in lower case, as in its URL
	namespace string // "": of all namespaces, or of a kind without namespaces
}

// at aims a request at the resource. Like the clientset it prefers protobuf, which is quicker to decode than JSON.
func (r resource) at(request *rest.Request) *rest.Request {
	return request.UseProtobufAsDefault().NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name)
}

// created implements [Creator]. Its type parameters, and those of kept, are pointers: the compiler makes one copy of
// the methods for all pointers, but one for each type of struct.
type created[T runtime.Object] struct {
	resource
	empty func() T // what an answer is decoded into
}

func creator[T any, PT pointer[T]](g group, name string) Creator[PT] {
	return created[PT]{resource{g, name, ""}, empty[T, PT]}
}

func empty[T any, PT pointer[T]]() PT { return new(T) }

func (c created[T]) Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error) {
	answer := c.empty()
	err := c.at(c.Post()).VersionedParams(&options, c.parameters).Body(object).Do(ctx).Into(answer)
	return answer, err
}

// kept implements [Objects].
type kept[T, L runtime.Object] struct {
	created[T]
	emptyList func() L
}

// of returns the objects of a kind. O, such as [Pods], says of which types.
func of[O Objects[PT, PL], T, L any, PT pointer[T], PL pointer[L]](g group, name, namespace string) Objects[PT, PL] {
	return kept[PT, PL]{created[PT]{resource{g, name, namespace}, empty[T, PT]}, empty[L, PL]}
}

func (k kept[T, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (T, error) {
	object := k.empty()
	err := k.at(k.group.Get()).Name(name).VersionedParams(&options, k.parameters).Do(ctx).Into(object)
	return object, err
}

func (k kept[T, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	list := k.emptyList()
	err := k.at(k.group.Get()).VersionedParams(&options, k.parameters).Timeout(timeout(options)).Do(ctx).Into(list)
	return list, err
}

func (k kept[T, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	return k.at(k.group.Get()).VersionedParams(&options, k.parameters).Timeout(timeout(options)).Watch(ctx)
}

func (k kept[T, L]) Patch(
	ctx context.Context, name string, kind types.PatchType, patch []byte,
	options metav1.PatchOptions, subresources ...string,
) (T, error) {
	object := k.empty()
	request := k.at(k.group.Patch(kind)).Name(name).SubResource(subresources...)
	err := request.VersionedParams(&options, k.parameters).Body(patch).Do(ctx).Into(object)
	return object, err
}

func (k kept[T, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return k.at(k.group.Delete()).Name(name).Body(&options).Do(ctx).Error()
}

// timeout returns the longest time that the API server is asked to take; 0 is no limit.
func timeout(options metav1.ListOptions) time.Duration {
	if options.TimeoutSeconds == nil {
		return 0
	}
	return time.Duration(*options.TimeoutSeconds) * time.Second
}
