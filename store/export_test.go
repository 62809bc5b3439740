package store

import (
	"cmp"
	"time"
)

// NewLimitedMemory returns a Store in memory with other limits than those of NewMemory. 0 means the same.
func NewLimitedMemory(bytes, logBytes int64, now func() time.Time) Store {
	return newMemory(cmp.Or(bytes, maxBytes), cmp.Or(logBytes, maxLogBytes), now)
}
