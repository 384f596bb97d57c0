package stall

import (
	"time"
)

const ms = time.Millisecond
