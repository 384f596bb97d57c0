package watcher

import (
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestFrozenAPIServerLeavesAGapBeforeWhatItBringsLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1))
		c.start()
		c.happened()
		time.Sleep(5200 * time.Millisecond) // the last answer came at 5 s
		c.freeze()
		time.Sleep(15 * time.Second)
		c.expect()
		c.putPod(with(pod(1), deleted)) // the watch's burst comes before the answer does
		c.thaw()
		got := c.happened()
		want := "20.2s watch-gap since=5s [] (the API server gave no sign of life for 15.2s; changes in that time were seen late)"
		if len(got) != 2 || got[0] != want || !strings.HasPrefix(got[1], "20.2s pod-deleted web-1") {
			t.Errorf("events %q, want %q and then the Pod's", got, want)
		}
		time.Sleep(time.Minute)
		c.expect()
		c.end()
	})
}

func TestAnswerAloneEndsASilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.start()
		c.happened()
		time.Sleep(2200 * time.Millisecond)
		c.freeze()
		time.Sleep(1300 * time.Millisecond) // asked at 2.5 s
		c.thaw()
		c.expect("3.5s watch-gap since=2s [] (the API server gave no sign of life for 1.5s; changes in that time were seen late)")
		c.end()
	})
}

func TestSilenceThatLastsToTheEndIsAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.start()
		c.happened()
		time.Sleep(2200 * time.Millisecond)
		c.refuse("get services", errors.New("connection refused"))
		time.Sleep(10 * time.Second)
		c.end()
		c.expect("12.2s watch-gap since=2s [] (the API server gave no sign of life for 10.2s; changes in that time were seen late)")
	})
}

func TestQuietClusterIsNoSilence(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.start()
		c.happened()
		time.Sleep(10 * time.Minute)
		c.expect()
		if n := c.count("get services"); n > 1201 {
			t.Errorf("asked %d times in 10 minutes, want 2 per second at most", n)
		}
		c.end()
	})
}

func TestRefusalIsASignOfLifeAndAFailingStorageIsNone(t *testing.T) {
	services := schema.GroupResource{Resource: "services"}
	for _, c := range []struct {
		answer error
		gaps   int
	}{
		{forbidden("services"), 0},
		{apierrors.NewNotFound(services, "web"), 0},
		{apierrors.NewTooManyRequests("slow down", 1), 0},
		{apierrors.NewInternalError(errors.New("etcdserver: request timed out")), 1},
		{apierrors.NewServerTimeout(services, "get", 1), 1},
		{errors.New("connection refused"), 1},
	} {
		bubble(t, func(t *testing.T) {
			cl := newCluster(t, service())
			cl.start()
			cl.happened()
			time.Sleep(2200 * time.Millisecond)
			cl.refuse("get services", c.answer)
			time.Sleep(5 * time.Second)
			cl.allow("get services")
			time.Sleep(time.Second)
			if got := cl.happened(); len(got) != c.gaps {
				t.Errorf("%v: %q, want %d gaps", c.answer, got, c.gaps)
			}
			cl.end()
		})
	}
}

func TestSlowAnswersAreAGapOnlyWhenTheyAreLaterThanAWatchMayBe(t *testing.T) {
	for took, gap := range map[time.Duration]bool{900 * time.Millisecond: false, 1100 * time.Millisecond: true} {
		var l life
		l.sign(0, 100*time.Millisecond)
		since, silent := l.sign(100*time.Millisecond, 100*time.Millisecond+took)
		if silent != gap || since != 0 {
			t.Errorf("after %v: a gap %v since %v, want %v since the last question", took, silent, since, gap)
		}
	}
}
