package httpcodec

import (
	"errors"
	"fmt"
	"io"
)

// ErrBodyTooLarge means that a body exceeds its limit.
var ErrBodyTooLarge = errors.New("body too large")

// Limits of the memory that is allocated for a body before any of it arrives. The limit is higher
// for a response, because the program decides how many requests it sends at the same time.
const (
	MaxInitialRead     = 4 << 10
	MaxInitialResponse = 256 << 10
)

// AppendBody appends a whole body of at most limit bytes to dst. length is the declared length, or negative if that is
// unknown. At first, dst gets space for at most initial bytes. It grows with the bytes that arrive, to at most four
// times as many. It returns ErrBodyTooLarge, io.ErrUnexpectedEOF or the error of r.
func AppendBody(dst []byte, r io.Reader, length, limit, initial int64) ([]byte, error) {
	if length > limit {
		return nil, fmt.Errorf("%w: %d bytes, the limit is %d", ErrBodyTooLarge, length, limit)
	}
	size := length
	if size < 0 {
		size = 512
	}
	start := len(dst)
	dst = withSpace(dst, min(size, initial, limit+1))
	for {
		n := int64(len(dst) - start)
		if n == length {
			return dst, nil
		}
		if len(dst) == cap(dst) {
			grown := 2 * n
			if length >= 0 {
				grown = min(2*grown, length) // fewer copies: most bodies are as long as declared
			}
			grown = min(grown, limit+1) // one byte more detects a body above the limit
			dst = withSpace(dst, max(grown-n, 1))
		}
		end := int64(cap(dst))
		if length >= 0 {
			end = min(end, int64(start)+length)
		}
		read, err := r.Read(dst[len(dst):end])
		dst = dst[:len(dst)+read]
		switch n += int64(read); {
		case n > limit:
			return nil, fmt.Errorf("%w: the limit is %d bytes", ErrBodyTooLarge, limit)
		case n == length:
			return dst, nil
		case err == io.EOF && length < 0:
			return dst, nil
		case err == io.EOF:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
	}
}

// withSpace returns b with space for n more bytes. Unlike slices.Grow, it allocates no more than that.
func withSpace(b []byte, n int64) []byte {
	if int64(cap(b)-len(b)) >= n {
		return b
	}
	return append(make([]byte, 0, int64(len(b))+n), b...)
}
