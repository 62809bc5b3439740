package rpc

import "sync"

// maxBuffer is the capacity, in bytes, above which a buffer is not pooled.
const maxBuffer = 2 << 20

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// NewBuffer returns an empty buffer to encode a message into, from a pool. The caller owns it
// until it calls FreeBuffer.
func NewBuffer() *[]byte { return buffers.Get().(*[]byte) }

// FreeBuffer returns buf to the pool. used is what append made of *buf; nothing may refer to it
// any more.
func FreeBuffer(buf *[]byte, used []byte) {
	if cap(used) <= maxBuffer {
		*buf = used[:0]
		buffers.Put(buf)
	}
}
