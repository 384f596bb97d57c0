package chart

import "lapse/correlate/model"

// planeRows have a strip for each address of the API: that of what failed longest there.
func (c *chart) planeRows() (rows []row) {
	if c.tl.ControlPlane == nil {
		return nil
	}
	for _, of := range c.tl.ControlPlane.ByAddress() {
		worst := model.LongestOut(of)
		if worst == nil {
			worst = &of[0]
		}
		series, ok := c.tl.Buckets.Of(worst.Target)
		for _, t := range c.tl.Targets {
			if ok && t.Name == worst.Target && worst.NotMeasured == "" {
				rows = append(rows, row{c.planeLabel(worst.Addr), c.strip(t, series, 0, c.cells-1)})
			}
		}
	}
	return rows
}

func (c *chart) planeLabel(addr string) string { return c.Say("API " + addr) }
