package trend

import (
	"bytes"
	"fmt"
	"testing"

	"lapse/internal/history"
)

// tenThousand is a history of ten Services over fifty releases each, a third of whose runs lost requests.
func tenThousand() []byte {
	var file bytes.Buffer
	for i := range 10_000 {
		l := run(i, map[bool]int{true: i % 97}[i%3 == 0], release(fmt.Sprint("hash", i/200)))
		l.Service = fmt.Sprint("shop/web-", i%10)
		l.Downtime.Total.Min, l.Sources = l.Downtime.Total.Min+1, []string{"node1", "node2", "node3"}
		l.Downtime.Total.Max += l.Downtime.Total.Min
		if err := history.Write(&file, l); err != nil {
			panic(err)
		}
	}
	return file.Bytes()
}

// BenchmarkTenThousandLines reads a history, and reads and judges it: what judging adds is the difference.
func BenchmarkTenThousandLines(b *testing.B) {
	file := tenThousand()
	read := func(b *testing.B) []history.Line {
		lines, unread, err := history.Read(bytes.NewReader(file))
		if err != nil || len(unread) > 0 || len(lines) != 10_000 {
			b.Fatal(len(lines), unread, err)
		}
		return lines
	}
	b.Run("read", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			read(b)
		}
	})
	b.Run("read and judge", func(b *testing.B) {
		b.SetBytes(int64(len(file)))
		for b.Loop() {
			if t := Of(read(b)); t.Runs != 10_000 {
				b.Fatal(t.Runs)
			}
		}
	})
}
