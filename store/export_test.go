package store

import (
	"cmp"
	"time"
)

// NewLimitedMemory returns a Store in memory with limits other than NewMemory's. 0 means the limit of
// NewMemory.
func NewLimitedMemory(bytes, logBytes int64, now func() time.Time) Store {
	return newMemory(cmp.Or(bytes, maxBytes), cmp.Or(logBytes, maxLogBytes), now)
}
