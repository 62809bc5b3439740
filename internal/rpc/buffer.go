package rpc

import "sync"

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
