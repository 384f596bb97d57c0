package doctor

import (
	"fmt"

	"golang.org/x/sys/unix"

	"lapse/internal/hint"
)

// unsynchronised is TIME_ERROR, what adjtimex returns for a clock that nothing has set lately.
// https://man7.org/linux/man-pages/man2/adjtimex.2.html
const unsynchronised = 5

// clockSynchronised returns an error unless NTP or another program keeps the wall clock right.
func clockSynchronised() error {
	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		return fmt.Errorf("not known: adjtimex: %w", err)
	case state == unsynchronised:
		return hint.Errorf("timedatectl set-ntp true, or run chronyd",
			"not synchronised: reports have this machine's time, which may differ from the nodes'")
	}
	return nil
}
