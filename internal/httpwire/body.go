package httpwire

import (
	"errors"
	"fmt"
	"io"
)

// errTooLarge means that a body exceeds its limit.
var errTooLarge = errors.New("body too large")

// Limits of the memory that is allocated for a body before any of it arrives. The limit is higher
// for a response, because the program decides how many requests it sends at the same time.
const (
	maxInitialRead     = 4 << 10
	maxInitialResponse = 256 << 10
)

// readBody reads a whole body of at most limit bytes into a new buffer. length is the
// declared length, or negative if that is unknown. The buffer has at most initial bytes at
// first and grows with the bytes that arrive, to at most four times as many. The error is
// errTooLarge, io.ErrUnexpectedEOF or that of r.
func readBody(r io.Reader, length, limit, initial int64) ([]byte, error) {
	if length > limit {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", errTooLarge, length, limit)
	}
	size := length
	if size < 0 {
		size = 512
	}
	body := make([]byte, 0, min(size, initial, limit+1))
	for {
		if int64(len(body)) == length {
			return body, nil
		}
		if len(body) == cap(body) {
			grown := 2 * int64(cap(body))
			if length >= 0 {
				grown = min(2*grown, length) // fewer copies: most bodies have their declared length
			}
			grown = min(grown, limit+1) // one byte more detects a body above the limit
			body = append(make([]byte, 0, max(grown, int64(len(body))+1)), body...)
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, fmt.Errorf("%w: the limit is %d bytes", errTooLarge, limit)
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
