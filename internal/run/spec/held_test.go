package spec

import "testing"

// The nodes hold as many connections together as were asked for, and no two of them differ by more than one.
func TestConnectionsAreSharedOutAmongNodes(t *testing.T) {
	for all := range 40 {
		for n := 1; n <= 7; n++ {
			sum, least, most := 0, all, 0
			for i := range n {
				share := heldShare(all, i, n)
				sum, least, most = sum+share, min(least, share), max(most, share)
			}
			if sum != all || most-least > 1 {
				t.Errorf("%d connections of %d nodes: %d in all, %d to %d each", all, n, sum, least, most)
			}
		}
	}
}
