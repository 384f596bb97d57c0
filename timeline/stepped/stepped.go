// Package stepped makes readings of a clock whose wall part was stepped since, for tests: the machine's own clock
// is not to be touched.
package stepped

import (
	"time"
	"unsafe"
)

// Since returns t, which must be fresh from time.Now, as a process holds it whose wall clock was stepped by step
// after it had read t: the monotonic part is t's, the wall part is as far from the wall's present time as it would be
// then.
//
// A time.Time with a monotonic reading keeps its wall seconds since 1885 in bits 30 to 62 of its first word (see
// package time's source, which promises nothing; whoever uses this checks what comes out).
func Since(t time.Time, step time.Duration) time.Time {
	word := (*uint64)(unsafe.Pointer(&t))
	*word -= uint64(int64(step/time.Second)) << 30
	return t
}
