package correlate

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// A matrix of routes by node and change: which of its rows, columns and blocks stand out. Cells are how long a node
// took to follow, in ms, ±50.
func TestNodesZonesAndChangesThatStandOut(t *testing.T) {
	// no request from the node reached the Pod; it was not seen to follow, after so long and what is beyond it
	const none, open = -1, 100_000
	for _, tt := range []struct {
		name  string
		cells [][]int // by change, of nodes a1 a2 b1 b2, whose first letter is their zone
		want  []string

		syncPeriod time.Duration // 0: 1 s
	}{
		{name: "all in time", cells: [][]int{{100, 200, 300, 400}, {400, 300, 200, 100}}},
		{name: "no node, where one sync period explains it", cells: [][]int{{100, 1150, 110, 120}, {100, 130, 1600, 110}}},
		{name: "not most of the nodes: one was quick for once", cells: [][]int{{10, 2100, 2150, 2200}, {10, 1900, none, 2000}}},
		{name: "one node", cells: [][]int{{100, 2100, 110, 120}, {150, 1900, 100, 100}, {100, 130, none, 100}}, want: []string{
			"node a2: 2 of 3, 2.0 s ±0.1: a2 followed 2 of 3 changes up to 2.0 s ±0.1 behind the first node",
		}},
		{name: "one node, of which one is not known", cells: [][]int{{100, 2100, 110, 120}, {150, none, 100, 100}},
			want: []string{"node a2: 1 of 1"}},
		{name: "one node never", cells: [][]int{{100, open + 3000, 110, 120}}, want: []string{"node a2: 1 of 1, ≥ 2.8 s"}},
		{name: "a zone", cells: [][]int{{100, 110, 1800, 1900}, {100, 110, 1750, 1850}}, want: []string{"zone b: 2 of 2, 1.8 s ±0.1"}},
		{name: "half a zone and another node", cells: [][]int{{100, 2100, 1800, 90}},
			want: []string{"node a2: 1 of 1", "node b1: 1 of 1"}},
		{name: "a zone but for one node", cells: [][]int{{100, 110, 1800, 120}}, want: []string{"node b1: 1 of 1"}},
		{name: "one node, where a longer sync period explains it", syncPeriod: 2 * time.Second,
			cells: [][]int{{100, 2100, 110, 120}, {150, 1900, 100, 100}}},
		{name: "one node, beyond a longer sync period", syncPeriod: 2 * time.Second,
			cells: [][]int{{100, 2800, 110, 120}, {150, 1900, 100, 100}}, want: []string{"node a2: 1 of 2"}},
		{name: "all nodes", cells: [][]int{{1900, 2000, 1850, 1800}, {100, 100, 100, 100}}, want: []string{
			"change web-0: 1 of 1, 1.80 s ±0.05: no node followed the change of Pod web-0 for 1.80 s ±0.05"}},
		{name: "all nodes, where one sync period explains it", cells: [][]int{{1500, 1600, 1450, 1400}}},
		{name: "all nodes, and one longer still", cells: [][]int{{1900, 4600, 1850, 1800}},
			want: []string{"node a2: 1 of 1", "change web-0: 1 of 1"}},
		{name: "a single node is compared with none", cells: [][]int{{9000, none, none, none}}},
		{name: "no node was seen to follow", cells: [][]int{{open + 3000, open + 3000, open + 3000, open + 3000}},
			want: []string{"change web-0: 1 of 1, ≥ 2.95 s"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var routes []model.Route
			var sources []model.Source
			for i, node := range []string{"a1", "a2", "b1", "b2"} {
				sources = append(sources, model.Source{Name: "prober-" + node, Role: timeline.Prober, Node: node,
					Zone: node[:1]})
				for event, cells := range tt.cells {
					if cells[i] == none {
						continue
					}
					api := time.Duration(event+1) * 10 * time.Second
					lag, isOpen := time.Duration(cells[i]%open)*time.Millisecond, cells[i] >= open
					routes = append(routes, model.Route{
						Change: model.Removal, Event: uint32(event), Pod: fmt.Sprintf("web-%d", event), Node: node,
						API: model.Instant{Earliest: api, Latest: api}, Open: isOpen,
						Changed: model.Instant{Earliest: api + lag - 50*time.Millisecond,
							Latest: api + lag + 50*time.Millisecond},
						Lag: model.Length{Min: lag - 50*time.Millisecond, Max: lag + 50*time.Millisecond},
					})
				}
			}
			late := lateRoutes(routes, sources, cmp.Or(tt.syncPeriod, time.Second))
			if len(late) != len(tt.want) {
				t.Fatalf("%d stand out, want %d: %+v", len(late), len(tt.want), late)
			}
			for i, l := range late {
				got := fmt.Sprintf("%s %s: %d of %d, %s: %s", l.Of, l.Name, l.Changes, l.Known,
					quantity.Length(l.Behind, l.Open), l.Text)
				if !strings.HasPrefix(got, tt.want[i]) {
					t.Errorf("%q, want %q…", got, tt.want[i])
				}
			}
		})
	}
}
