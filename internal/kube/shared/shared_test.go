package shared

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"lapse/internal/kube"
)

// A server is a cluster's Pods, as a test makes them.
type server struct {
	kube.Pods

	mu      sync.Mutex
	opened  []string // the versions from which watches were opened
	listed  int
	refuses error
	dials   chan struct{}      // a watch is dialled until it is closed; nil: not at all
	source  *watch.FakeWatcher // of the newest watch
	sources []*watch.FakeWatcher
}

func (s *server) of(string) kube.Pods { return s }

func (s *server) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed++
	return &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(s.listed)}}, nil
}

func (s *server) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened = append(s.opened, options.ResourceVersion)
	if s.dials != nil {
		select {
		case <-s.dials:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if s.refuses != nil {
		return nil, s.refuses
	}
	s.source = watch.NewFake()
	s.sources = append(s.sources, s.source)
	return s.source, nil
}

// pods returns the Pods of a namespace, as watchers get them.
func (c *Client) podsOf(s *server, namespace string) kube.Pods {
	return share[*corev1.Pod, *corev1.PodList](c, "pods", namespace, s.of)
}

func pod(namespace string, version int) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("pod-", version), ResourceVersion: strconv.Itoa(version)}}
}

func follow(t *testing.T, pods kube.Pods, version string) watch.Interface {
	t.Helper()
	w, err := pods.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// brings requires that a watch brings Pods of these versions next, and nothing else.
func brings(t *testing.T, w watch.Interface, versions ...string) {
	t.Helper()
	synctest.Wait()
	for _, want := range versions {
		select {
		case e, ok := <-w.ResultChan():
			if got := e.Object.(*corev1.Pod).ResourceVersion; !ok || got != want {
				t.Errorf("it brings %s, want %s", got, want)
			}
		default:
			t.Errorf("it does not bring %s", want)
		}
		synctest.Wait()
	}
	select {
	case e, ok := <-w.ResultChan():
		t.Errorf("it brings %+v too, or has ended: %v", e, !ok)
	default:
	}
}

func ended(t *testing.T, w watch.Interface) {
	t.Helper()
	synctest.Wait()
	select {
	case e, ok := <-w.ResultChan():
		if ok {
			t.Errorf("it goes on with %+v", e)
		}
	default:
		t.Error("it has not ended")
	}
}

func inBubble(t *testing.T, scope string, do func(t *testing.T, c *Client, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := &server{}
		do(t, New(ctx, nil, scope), s)
		for _, source := range s.sources {
			source.Stop()
		}
	})
}

// One watch serves all. Each gets what happens in its namespace after its version.
func TestManyWatchersShareAWatch(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *Client, s *server) {
		shop, all := follow(t, c.podsOf(s, "shop"), "10"), follow(t, c.podsOf(s, ""), "12")
		for version := 11; version <= 14; version++ {
			s.source.Modify(pod([]string{"shop", "bank"}[version%2], version))
		}
		s.source.Action(watch.Bookmark, pod("", 15))
		brings(t, shop, "12", "14", "15")
		brings(t, all, "13", "14", "15")
		late := follow(t, c.podsOf(s, "bank"), "11")
		brings(t, late, "13", "15")
		if len(s.opened) != 1 || s.opened[0] != "10" {
			t.Errorf("watches were opened from %q", s.opened)
		}
		shop.Stop()
		shop.Stop()
		s.source.Modify(pod("bank", 16))
		brings(t, late, "16")
		ended(t, shop)
		all.Stop()
		late.Stop()
	})
}

// When the watch breaks, so does that of each watcher. The next one goes on where the one behind was.
func TestABrokenWatchIsResumedForAll(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *Client, s *server) {
		shop, bank := follow(t, c.podsOf(s, "shop"), "10"), follow(t, c.podsOf(s, "bank"), "11")
		s.source.Modify(pod("bank", 20))
		brings(t, bank, "20")
		s.source.Stop()
		ended(t, shop)
		ended(t, bank)
		s.refuses = errors.New("the API server is away")
		if _, err := c.podsOf(s, "bank").Watch(t.Context(), metav1.ListOptions{ResourceVersion: "20"}); !errors.Is(err, s.refuses) {
			t.Errorf("error is %v", err)
		}
		s.refuses = nil
		bank, shop = follow(t, c.podsOf(s, "bank"), "20"), follow(t, c.podsOf(s, "shop"), "10")
		s.source.Modify(pod("shop", 21))
		brings(t, shop, "21")
		brings(t, bank)
		s.source.Error(&metav1.Status{Code: 410})
		synctest.Wait()
		for _, w := range []watch.Interface{shop, bank} {
			if e := <-w.ResultChan(); e.Type != watch.Error {
				t.Errorf("%+v, want the error", e)
			}
			ended(t, w)
		}
		shop = follow(t, c.podsOf(s, "shop"), "30") // after a list: that version is not asked for again
		s.source.Stop()
		ended(t, shop)
		if got := fmt.Sprint(s.opened); got != "[10 10 10 30]" {
			t.Errorf("watches were opened from %s", got)
		}
	})
}

// While the API server does not answer, each watcher can give up by itself. The others wait for the same request.
func TestAWatchThatIsDialledHoldsNobodyUp(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *Client, s *server) {
		s.dials, s.refuses = make(chan struct{}), errors.New("the API server is away")
		asks := func(ctx context.Context, version string) <-chan error {
			asked := make(chan error, 1)
			go func() {
				_, err := c.podsOf(s, "shop").Watch(ctx, metav1.ListOptions{ResourceVersion: version})
				asked <- err
			}()
			synctest.Wait()
			return asked
		}
		ctx, cancel := context.WithCancel(t.Context())
		first := asks(ctx, "10")
		cancel()
		synctest.Wait()
		select {
		case err := <-first:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error is %v", err)
			}
		default:
			t.Fatal("it waits on after its context has ended")
		}
		second, third := asks(t.Context(), "11"), asks(t.Context(), "9")
		close(s.dials)
		for _, asked := range []<-chan error{second, third} {
			if err := <-asked; !errors.Is(err, s.refuses) {
				t.Errorf("error is %v", err)
			}
		}
		if got := fmt.Sprint(s.opened); got != "[10]" {
			t.Errorf("watches were opened from %s", got)
		}
		s.refuses = nil
		shop := follow(t, c.podsOf(s, "shop"), "10")
		s.source.Modify(pod("shop", 12))
		brings(t, shop, "12")
		shop.Stop()
	})
}

// Who asks for what is not kept any more has a watch of its own. Who is too slow has to ask again.
func TestWhatIsNotKeptIsNotLeftOut(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *Client, s *server) {
		slow := follow(t, c.podsOf(s, ""), "10")
		shared := s.source
		for version := 11; version <= 12+mostKept; version++ {
			shared.Modify(pod("shop", version))
			synctest.Wait() // the stream has read it
		}
		for _, older := range []string{"9", "10"} {
			follow(t, c.podsOf(s, "shop"), older)
			if s.source == shared {
				t.Errorf("what came after version %s is not kept, and it follows the shared watch", older)
			}
		}
		n := 0
		for range slow.ResultChan() {
			n++
		}
		if n != 1 {
			t.Errorf("%d events for who missed some", n)
		}
	})
}

// Nodes are in no namespace, and so in everybody's.
func TestNodesAreSharedInEachNamespace(t *testing.T) {
	inBubble(t, "shop", func(t *testing.T, c *Client, s *server) {
		first, second := follow(t, c.podsOf(s, "shop"), "10"), follow(t, c.podsOf(s, "shop"), "10")
		s.source.Modify(pod("", 11))
		brings(t, first, "11")
		brings(t, second, "11")
	})
}

// Another namespace needs another right.
func TestANamespaceIsNotWatchedThroughAnother(t *testing.T) {
	inBubble(t, "shop", func(t *testing.T, c *Client, s *server) {
		follow(t, c.podsOf(s, "shop"), "10").Stop()
		if w := follow(t, c.podsOf(s, "bank"), "10"); w != watch.Interface(s.source) {
			t.Error("it is shared")
		}
	})
}

// Lists that are asked for at once are one request, which is sent after each of them was asked for.
func TestEqualListsAreOneRequest(t *testing.T) {
	inBubble(t, "", func(t *testing.T, c *Client, s *server) {
		versions := make(chan string, 4)
		ask := func(options metav1.ListOptions) {
			list, err := c.podsOf(s, "shop").List(t.Context(), options)
			if err != nil {
				t.Error(err)
			}
			versions <- list.ResourceVersion
		}
		go ask(metav1.ListOptions{})
		go ask(metav1.ListOptions{})
		time.Sleep(atOnce + time.Millisecond) // of virtual time
		go ask(metav1.ListOptions{})
		if first, second, third := <-versions, <-versions, <-versions; first != "1" || second != "1" || third != "2" {
			t.Errorf("versions %s, %s and %s", first, second, third)
		}
		go ask(metav1.ListOptions{LabelSelector: "app=web"})
		go ask(metav1.ListOptions{LabelSelector: "app=api"})
		if one, other := <-versions, <-versions; one == other {
			t.Error("two lists are one")
		}
	})
}
