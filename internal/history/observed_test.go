package history

import (
	"testing"
	"time"
)

func TestObservedTimeIsKeptByDay(t *testing.T) {
	var o Observed
	at := time.Date(2026, 11, 26, 23, 59, 0, 0, time.FixedZone("", 3600))
	o.Add(at, "shop/web", time.Minute)
	o.Add(at.Add(time.Hour), "shop/web", time.Minute)
	o.Add(at.Add(2*time.Hour), "shop/web", 2*time.Minute)
	o.Add(at.Add(2*time.Hour), "shop/api", time.Minute)
	o.Add(at.Add(2*time.Hour), "shop/api", -time.Hour)
	if got := o.Days["2026-11-26"]["shop/web"]; got != 2*time.Minute {
		t.Errorf("the first day has %v", got)
	}
	if got := o.Days["2026-11-27"]; got["shop/web"] != 2*time.Minute || got["shop/api"] != 0 {
		t.Errorf("the second day has %v", got)
	}
	o.Add(at.AddDate(0, 0, KeptDays), "shop/web", time.Minute)
	if _, ok := o.Days["2026-11-26"]; ok || len(o.Days) != 2 || o.Until != at.AddDate(0, 0, KeptDays).UTC() {
		t.Errorf("a day too old is kept: %v", o)
	}
}
