package httpwire

import "sync"

// buffers are those that responses are encoded into. Nobody else sees them.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxPooled is the largest buffer that is kept: a large result's, with some room.
const maxPooled = 2 << 20

// recycle gives buf back, grown to used, once nothing refers to it.
func recycle(buf *[]byte, used []byte) {
	if cap(used) <= maxPooled {
		*buf = used
		buffers.Put(buf)
	}
}
