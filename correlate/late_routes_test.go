package correlate

import (
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
	}{
		{"all in time", [][]int{{100, 200, 300, 400}, {400, 300, 200, 100}}, nil},
		{"no node, where one sync period explains it", [][]int{{100, 1150, 110, 120}, {100, 130, 1600, 110}}, nil},
		{"not most of the nodes: one was quick for once", [][]int{{10, 2100, 2150, 2200}, {10, 1900, none, 2000}}, nil},
		{"one node", [][]int{{100, 2100, 110, 120}, {150, 1900, 100, 100}, {100, 130, none, 100}}, []string{
			"node a2: 2 of 3, 2.0 s ±0.1: a2 followed 2 of 3 changes up to 2.0 s ±0.1 behind the first node",
		}},
		{"one node, of which one is not known", [][]int{{100, 2100, 110, 120}, {150, none, 100, 100}},
			[]string{"node a2: 1 of 1"}},
		{"one node never", [][]int{{100, open + 3000, 110, 120}}, []string{"node a2: 1 of 1, ≥ 2.8 s"}},
		{"a zone", [][]int{{100, 110, 1800, 1900}, {100, 110, 1750, 1850}}, []string{"zone b: 2 of 2, 1.8 s ±0.1"}},
		{"half a zone and another node", [][]int{{100, 2100, 1800, 90}},
			[]string{"node a2: 1 of 1", "node b1: 1 of 1"}},
		{"a zone but for one node", [][]int{{100, 110, 1800, 120}}, []string{"node b1: 1 of 1"}},
		{"all nodes", [][]int{{1500, 1600, 1450, 1400}, {100, 100, 100, 100}},
			[]string{"change web-0: 1 of 1, 1.40 s ±0.05: no node followed the change of Pod web-0 for 1.40 s ±0.05"}},
		{"all nodes, and one longer still", [][]int{{1500, 4600, 1450, 1400}},
			[]string{"node a2: 1 of 1", "change web-0: 1 of 1"}},
		{"a single node is compared with none", [][]int{{9000, none, none, none}}, nil},
		{"no node was seen to follow", [][]int{{open + 3000, open + 3000, open + 3000, open + 3000}},
			[]string{"change web-0: 1 of 1, ≥ 2.95 s"}},
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
			late := lateRoutes(routes, sources)
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
