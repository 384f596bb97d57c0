package bucket

import (
	"context"
	"fmt"
	"strings"
	"time"

	"lapse/internal/history"
)

// Where runs lie below the prefix. Engines take date=… for a column, and read only the days that a query asks for.
const (
	HistoryDir = "history/"
	runsDir    = "runs/"
)

// LinesKey returns where the lines of a run lie that began at an instant.
func LinesKey(run string, t0 time.Time) string {
	return fmt.Sprintf("%sdate=%s/%s.ndjson", HistoryDir, history.DayOf(t0), run)
}

// FileKey returns where a file of a run lies.
func FileKey(run, file string) string { return runsDir + run + "/" + file }

// readme is what explains the bucket to who finds it.
const readme = `Runs of "lapse guard".

history/date=YYYY-MM-DD/RUN.ndjson  a line of JSON for each disruption; lengths are nanoseconds
runs/RUN/facts.lapse                its recording: "lapse report DIR" judges it
runs/RUN/timeline.json              the recording, judged

"lapse trend %s" sums them up. Two guards measure each disruption: of runs with one "uid" at the same
time it counts one.
`

// Check writes a README.txt, and so finds out whether a guard may write.
func (b *Bucket) Check(ctx context.Context) error {
	return b.Put(ctx, "README.txt", strings.NewReader(fmt.Sprintf(readme, b)))
}
