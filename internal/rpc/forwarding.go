package rpc

import (
	"context"
	"sync"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/revision"
	"github.com/parley-mcp/parley/mcp"
)

// Forwarding is a request to another server whose response may become the result of a call, so that the client can read
// the response into a buffer from the pool.
type Forwarding struct {
	buffer *[]byte // the response that Received has taken, or empty; nil before Reserve
}

// ForwardingOf returns a new Forwarding of the call that ctx carries, or nil if it carries none. Only the last one of a
// call can return its buffer to the pool.
func ForwardingOf(ctx context.Context) *Forwarding {
	c := From(ctx)
	if c == nil {
		return nil
	}
	f := new(Forwarding)
	c.forwarding.Store(f)
	return f
}

// headSize is the length of the slice that Reserve returns: what most replies have in front of the content of the
// result, the description of the server included.
const headSize = 256

// Reserve returns a slice in a buffer from the pool with space for size bytes, to which the response is appended for
// Received. It returns nil, so that the response gets new memory, if f is nil or for another response than the first.
func (f *Forwarding) Reserve(size int64) []byte {
	if f == nil || f.buffer != nil {
		return nil
	}
	f.buffer = NewBuffer()
	if need := headSize + int(max(size, 0)); cap(*f.buffer) < need {
		*f.buffer = make([]byte, 0, need+need/8) // Append may leave some of it unused when it returns a slice
	}
	return (*f.buffer)[:headSize]
}

// Received takes a response that was appended to what Reserve returned. Append may write into it, so it must have no
// other message, such as those of a batch.
func (f *Forwarding) Received(response []byte) { *f.buffer = response }

// AppendForwarded appends an undecoded result for the client of the call; see revision.AppendForwarded. If the result
// is in a buffer from the pool, the returned slice may be in that buffer. In that case the pool takes the memory of dst
// in return, and otherwise that of the result, which loses its Source.
func (c *Call) AppendForwarded(dst []byte, result *mcp.CallToolResult, identity []byte) []byte {
	f := c.forwarding.Swap(nil)
	if f == nil || f.buffer == nil || jsonscan.Offset(*f.buffer, result.Source) < 0 {
		return revision.AppendForwarded(dst, c.Revision(), result, identity, nil)
	}
	appended := revision.AppendForwarded(dst, c.Revision(), result, identity, *f.buffer)
	if jsonscan.Offset(*f.buffer, appended) >= 0 {
		*f.buffer = dst
	}
	FreeBuffer(f.buffer)
	result.Source = nil
	return appended
}

// maxBuffer is the capacity, in bytes, above which a buffer is not pooled.
const maxBuffer = 2 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// NewBuffer returns an empty buffer to encode a message into, from a pool. The caller owns it
// until it calls FreeBuffer.
func NewBuffer() *[]byte { return buffers.Get().(*[]byte) }

// FreeBuffer returns buf to the pool. Nothing may refer to *buf any more.
func FreeBuffer(buf *[]byte) {
	if clearFreed {
		clear((*buf)[:cap(*buf)])
	}
	if cap(*buf) <= maxBuffer {
		*buf = (*buf)[:0]
		buffers.Put(buf)
	}
}
