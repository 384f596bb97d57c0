package protocol

import (
	"fmt"
	"strconv"
	"strings"
)

// Statuses is a set of HTTP status codes. The zero value stands for 200 to 399: success, and
// redirects, which are not followed.
type Statuses struct {
	ranges []statusRange
}

type statusRange struct{ low, high int } // both inclusive

// ParseStatuses reads a list of codes and ranges, such as "200,204,300-399". An empty text is the
// zero Statuses.
func ParseStatuses(text string) (Statuses, error) {
	var set Statuses
	if strings.TrimSpace(text) == "" {
		return set, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		r, err := parseStatusRange(strings.TrimSpace(part))
		if err != nil {
			return Statuses{}, fmt.Errorf("expected status %q: %w", text, err)
		}
		set.ranges = append(set.ranges, r)
	}
	return set, nil
}

func parseStatusRange(text string) (statusRange, error) {
	lowText, highText, isRange := strings.Cut(text, "-")
	low, err := parseCode(lowText)
	if err != nil || !isRange {
		return statusRange{low, low}, err
	}
	high, err := parseCode(highText)
	if err == nil && high < low {
		err = fmt.Errorf("%s runs backwards", text)
	}
	return statusRange{low, high}, err
}

func parseCode(text string) (int, error) {
	code, err := strconv.Atoi(text)
	if err != nil || code < 100 || code > 999 {
		return 0, fmt.Errorf("%q is not a status code", text)
	}
	return code, nil
}

// Contains reports whether the set holds code.
func (s Statuses) Contains(code int) bool {
	if len(s.ranges) == 0 {
		return 200 <= code && code <= 399
	}
	for _, r := range s.ranges {
		if r.low <= code && code <= r.high {
			return true
		}
	}
	return false
}

// String returns the set as people read it: "200 to 399".
func (s Statuses) String() string {
	if len(s.ranges) == 0 {
		return "200 to 399"
	}
	var list []string
	for _, r := range s.ranges {
		if r.low == r.high {
			list = append(list, strconv.Itoa(r.low))
		} else {
			list = append(list, fmt.Sprintf("%d to %d", r.low, r.high))
		}
	}
	return strings.Join(list, ", ")
}
