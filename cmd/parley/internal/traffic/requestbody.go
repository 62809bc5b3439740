package traffic

import (
	"io"
	"sync"
)

// requestBody reports a request when its body ends.
type requestBody struct {
	io.ReadCloser
	report func(Event)

	mu    sync.Mutex // Close may be called during Read
	event Event
	done  bool
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.mu.Lock()
	b.event.Message = appendBounded(b.event.Message, p[:n])
	b.mu.Unlock()
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *requestBody) Close() error {
	b.end(nil)
	return b.ReadCloser.Close()
}

// end reports the request, unless that was done. err is the error of the last read: io.EOF after the whole body, and nil
// if the rest of the body is not read.
func (b *requestBody) end(err error) {
	b.mu.Lock()
	done, e := b.done, b.event
	b.done = true
	b.mu.Unlock()
	if done {
		return
	}
	e.Truncated = err != io.EOF
	if err != nil && err != io.EOF {
		e.Error = err.Error()
	}
	b.report(e)
}

// appendBounded appends to a message. It drops what exceeds MaxMessage by more than a byte, by which a Writer
// recognises the message as too long.
func appendBounded(message, part []byte) []byte {
	return append(message, part[:min(len(part), MaxMessage+1-len(message))]...)
}
