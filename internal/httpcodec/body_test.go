package httpcodec

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBodyIsReadUpToItsLimit(t *testing.T) {
	const limit = 200_000
	for _, size := range []int{0, 1, 511, 512, 513, MaxInitialRead - 1, MaxInitialRead, MaxInitialRead + 1, limit - 1, limit, limit + 1, 2 * limit} {
		want := bytes.Repeat([]byte("x"), size)
		for _, length := range []int64{int64(size), -1} {
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "in halves": iotest.HalfReader, "with the error": iotest.DataErrReader,
			} {
				got, err := ReadBody(wrap(bytes.NewReader(want)), length, limit, MaxInitialRead)
				if size > limit {
					if !errors.Is(err, ErrBodyTooLarge) {
						t.Errorf("%d of %d bytes, %s: %v", size, length, how, err)
					}
					continue
				}
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%d of %d bytes, %s: %d bytes, %v", size, length, how, len(got), err)
				}
			}
		}
	}
}

func TestBodyThatEndsEarlyIsAnError(t *testing.T) {
	if got, err := ReadBody(strings.NewReader("abc"), 4, 100, MaxInitialRead); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%q, %v", got, err)
	}
	broken := errors.New("broken")
	if got, err := ReadBody(io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), -1, 100, MaxInitialRead); !errors.Is(err, broken) {
		t.Errorf("%q, %v", got, err)
	}
}

// A peer that declares a large body and sends nothing does not cause a large allocation.
func TestReadBodyAllocatesForReceivedBytesOnly(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := ReadBody(strings.NewReader("{"), 4<<20, 4<<20, MaxInitialRead); err == nil {
			t.Fatal("accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / 100; each > 8<<10 {
		t.Errorf("%d bytes each", each)
	}
}
