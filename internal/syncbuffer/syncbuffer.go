// Package syncbuffer provides a buffer that tests can read while other goroutines write to it. Only tests import it.
package syncbuffer

import (
	"bytes"
	"sync"
)

// Buffer collects the bytes that are written to it. The zero Buffer is empty and ready for use. It is safe for
// concurrent use.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer. It returns no error.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns the text that has been written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
