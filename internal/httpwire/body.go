package httpwire

import (
	"errors"
	"fmt"
	"io"
)

// errTooLarge reports a body that exceeds its limit.
var errTooLarge = errors.New("too large")

// firstRead is how much memory a peer gets on its mere word that so much will come.
const maxInitialRead = 64 << 10

// readBody reads a whole body of at most limit bytes, into memory of its own. Length
// is how long it says it is, negative if it does not say. Memory grows with what
// has arrived.
func readBody(r io.Reader, length, limit int64) ([]byte, error) {
	if length > limit {
		return nil, fmt.Errorf("%w: %d bytes, and at most %d are read", errTooLarge, length, limit)
	}
	size := length
	if size < 0 {
		size = 512
	}
	body := make([]byte, 0, min(size, maxInitialRead, limit+1))
	for {
		if int64(len(body)) == length {
			return body, nil
		}
		if len(body) == cap(body) {
			grown := 2 * int64(cap(body))
			if length >= 0 {
				grown = min(grown, length)
			}
			grown = min(grown, limit+1) // one more byte shows that there is more
			body = append(make([]byte, 0, max(grown, int64(len(body))+1)), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, fmt.Errorf("%w: more than %d bytes", errTooLarge, limit)
		case int64(len(body)) == length:
			return body, nil
		case err == io.EOF && length < 0:
			return body, nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
	}
}
