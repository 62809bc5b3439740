package transport_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

// readOnly is a stream that can only be read. Its Read cannot be interrupted, so the Conn starts a
// goroutine.
type readOnly struct{ io.Reader }

// interruptible is a readOnly with a SetReadDeadline, so the Conn starts no goroutine.
type interruptible struct {
	*chunks
	readOnly
}

func (i interruptible) Read(b []byte) (int, error) { return i.chunks.Read(b) }

func (readOnly) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (readOnly) Close() error              { return nil }

// result is the outcome of one Read.
type result struct {
	msg string
	err string
}

// readAll reads to the end and returns all results, including the final error.
func readAll(t testing.TB, r io.Reader, limit int) []result {
	t.Helper()
	var rwc io.ReadWriteCloser = readOnly{r}
	if c, ok := r.(*chunks); ok {
		rwc = interruptible{chunks: c}
	}
	conn := transport.Stream(rwc, transport.StreamOptions{MaxMessage: limit})
	defer conn.Close()
	var results []result
	for {
		msg, err := conn.Read(context.Background())
		if err == nil {
			must.That(t, len(msg) != 0 && len(msg) <= limit, "Read returns %d bytes, the limit is %d", len(msg), limit)
			results = append(results, result{msg: string(msg)})
			continue
		}
		results = append(results, result{err: err.Error()})
		var tooLarge *transport.MessageTooLargeError
		if !errors.As(err, &tooLarge) {
			return results
		}
	}
}

func TestLinesAreMessages(t *testing.T) {
	const tooLarge = "transport: message exceeds the limit of 8 bytes"
	for _, c := range []struct {
		name, in string
		want     []string // a message, or "!" and an error
	}{
		{"nothing", "", nil},
		{"two lines", "{}\n[]\n", []string{"{}", "[]"}},
		{"a carriage return before the line feed", "{}\r\n[]\r\n", []string{"{}", "[]"}},
		{"a carriage return elsewhere", "{\r}\r\r\n", []string{"{\r}\r"}},
		{"empty lines", "\n\r\n{}\n\n\n", []string{"{}"}},
		{"a last line without a line feed", "{}\n[]", []string{"{}", "[]"}},
		{"a last line that is only a carriage return", "{}\n\r", []string{"{}"}},
		{"a byte order mark is content", "\ufeff{}\n", []string{"\ufeff{}"}},
		{"NUL is content", "\x00\n", []string{"\x00"}},
		{"a message at the limit", "12345678\n1\n", []string{"12345678", "1"}},
		{"a message at the limit, with a carriage return", "12345678\r\n1\n", []string{"12345678", "1"}},
		{"a message at the limit at the end", "12345678", []string{"12345678"}},
		{"a message over the limit", "123456789\n1\n", []string{"!" + tooLarge, "1"}},
		{"a message over the limit, with a carriage return", "123456789\r\n1\n", []string{"!" + tooLarge, "1"}},
		{"a carriage return after the limit and not at the end", "12345678\rx\n1\n", []string{"!" + tooLarge, "1"}},
		{"a last line that is cut in an object", "1\n{\"a\":[]", []string{"1", "!" + cutAfter(7)}},
		{"a last line that is cut in a string", "1\n{\"a}\\\"]", []string{"1", "!" + cutAfter(7)}},
		{"a last line that is cut in an array", "1\r\n [{}\r", []string{"1", "!" + cutAfter(4)}},
		{"a last line with more than an object", "{}]", []string{"{}]"}},
		{"a last line that is no object", "\"[{", []string{"\"[{"}},
		{"two messages over the limit", "123456789\n123456789\n1\n", []string{"!" + tooLarge, "!" + tooLarge, "1"}},
		{"a message over the limit at the end", "1\n123456789abcdef", []string{"1", "!" + tooLarge}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want []result
			if n := len(c.want); n == 0 || !strings.Contains(c.want[n-1], "unexpected EOF") {
				c.want = append(c.want, "!EOF")
			}
			for _, w := range c.want {
				if msg, isErr := strings.CutPrefix(w, "!"); isErr {
					want = append(want, result{err: msg})
				} else {
					want = append(want, result{msg: w})
				}
			}
			for name, r := range map[string]io.Reader{
				"at once":      strings.NewReader(c.in),
				"byte by byte": iotest.OneByteReader(strings.NewReader(c.in)),
				"data and EOF": iotest.DataErrReader(strings.NewReader(c.in)),
			} {
				got := readAll(t, r, 8)
				must.CheckThat(t, equal(got, want), "%s: %q reads as\n%q, want\n%q", name, c.in, got, want)
			}
		})
	}
}

func cutAfter(n int) string {
	return fmt.Sprintf("transport: the stream has ended after %d bytes of a message: unexpected EOF", n)
}

func equal(a, b []result) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestMessagesOfAllSizesAreRead(t *testing.T) {
	// Sizes around the window of 64 KiB, its multiples and the limit.
	const limit = 300_000
	var in bytes.Buffer
	var want []result
	for _, size := range []int{1, 65534, 65535, 65536, 65537, 131071, 131072, 131073, 3, 262144, limit - 1, limit, 2} {
		msg := strings.Repeat(string(rune('a'+size%26)), size)
		in.WriteString(msg + "\n")
		want = append(want, result{msg: msg})
	}
	want = append(want, result{err: "EOF"})
	got := readAll(t, bytes.NewReader(in.Bytes()), limit)
	must.That(t, equal(got, want), "the messages differ")
	if got := readAll(t, iotest.HalfReader(bytes.NewReader(in.Bytes())), limit); !equal(got, want) {
		t.Fatal("the messages differ when they are read in halves")
	}
}

func TestFragmentBeforeErrorIsNoMessage(t *testing.T) {
	broken := errors.New("cable cut")
	r := io.MultiReader(strings.NewReader("{}\n{\"jsonrpc\""), iotest.ErrReader(broken))
	want := []result{{msg: "{}"}, {err: "cable cut"}}
	got := readAll(t, r, 100)
	must.That(t, equal(got, want), "got %q, want %q", got, want)
}

func TestStreamWithoutProgressIsAnError(t *testing.T) {
	want := []result{{err: io.ErrNoProgress.Error()}}
	got := readAll(t, stuck{}, 100)
	must.That(t, equal(got, want), "got %q, want %q", got, want)
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// longLine reads as size bytes without a line feed, followed by rest.
type longLine struct {
	size int
	rest io.Reader
}

var xs = bytes.Repeat([]byte("x"), 64<<10)

func (e *longLine) Read(b []byte) (int, error) {
	if e.size == 0 {
		return e.rest.Read(b)
	}
	n := copy(b[:min(len(b), e.size)], xs)
	e.size -= n
	return n, nil
}

func TestLineOf700MBUsesLimitedMemory(t *testing.T) {
	const limit = 4 << 20
	conn := transport.Stream(readOnly{&longLine{700 << 20, strings.NewReader("\nafter\n")}},
		transport.StreamOptions{MaxMessage: limit})
	defer conn.Close()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := conn.Read(timeoutContext(t))
	var tooLarge *transport.MessageTooLargeError
	must.That(t, errors.As(err, &tooLarge) && tooLarge.Limit == limit, "got %v, want a MessageTooLargeError", err)
	msg, err := conn.Read(timeoutContext(t))
	runtime.ReadMemStats(&after)
	must.Do(t, err)
	must.Equal(t, string(msg), "after")
	// TotalAlloc includes memory that was freed.
	grown := after.TotalAlloc - before.TotalAlloc
	must.That(t, grown <= 3*limit, "%d bytes were allocated for a limit of %d", grown, limit)
}

func TestReadAllocatesOncePerMessage(t *testing.T) {
	a, b := net.Pipe()
	conn := transport.Stream(a, transport.StreamOptions{})
	defer conn.Close()
	defer b.Close()
	ctx := timeoutContext(t)
	line := []byte(strings.Repeat("x", 200) + "\n")
	go func() {
		for {
			if _, err := b.Write(line); err != nil {
				return
			}
		}
	}()
	if n := testing.AllocsPerRun(200, func() {
		msg := must.Get(conn.Read(ctx))(t)
		must.That(t, len(msg) == 200 && cap(msg) <= 208, "%d bytes in %d", len(msg), cap(msg))
	}); n > 1 {
		t.Fatalf("Read allocates %v times", n)
	}
}

// chunks is a reader that returns data in pieces of the sizes in cuts.
type chunks struct {
	data, cuts []byte
}

// SetReadDeadline makes chunks interruptible. Its Read never waits.
func (c *chunks) SetReadDeadline(time.Time) error { return nil }

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	n := len(c.data)
	if len(c.cuts) > 0 {
		n = min(n, int(c.cuts[0])+1)
		c.cuts = c.cuts[1:]
	}
	n = copy(b, c.data[:n])
	c.data = c.data[n:]
	return n, nil
}

// reference is a simple implementation of the framing without a limit on memory.
func reference(data []byte, limit int) []result {
	var want []result
	lines := bytes.Split(data, []byte("\n"))
	for i, line := range lines {
		switch line = bytes.TrimSuffix(line, []byte("\r")); {
		case len(line) > limit:
			want = append(want, result{err: (&transport.MessageTooLargeError{Limit: limit}).Error()})
		case i == len(lines)-1 && isOpen(string(line)):
			return append(want, result{err: cutAfter(len(line))})
		case len(line) > 0:
			want = append(want, result{msg: string(line)})
		}
	}
	return append(want, result{err: "EOF"})
}

// isOpen reports whether line is a JSON object or array that does not end.
func isOpen(line string) bool {
	line = strings.TrimLeft(line, " \t\r\n")
	if !strings.HasPrefix(line, "{") && !strings.HasPrefix(line, "[") {
		return false
	}
	depth, quoted, escaped := 0, false, false
	for _, c := range []byte(line) {
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
			if depth--; depth == 0 {
				return false
			}
		}
	}
	return true
}

func FuzzStdioFraming(f *testing.F) {
	f.Add([]byte("{}\r\n\n[1,2]\nlast"), []byte{0, 1, 2}, uint16(7))
	f.Add([]byte("12345678\r\n123456789\r\nx\r"), []byte{8, 0, 0}, uint16(8))
	f.Add([]byte("{}\n {\"a}\\\"\":[]"), []byte{3, 0, 1}, uint16(100))
	f.Add([]byte("\xef\xbb\xbf{}\n\x00\n"), []byte{}, uint16(1))
	f.Add(bytes.Repeat([]byte("abc\r\n"), 100), []byte{255, 3, 0, 17}, uint16(3))
	f.Fuzz(func(t *testing.T, data, cuts []byte, limit uint16) {
		max := int(limit) + 1
		want := reference(data, max)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := readAll(t, &chunks{data, cuts}, max)
		runtime.ReadMemStats(&after)
		must.That(t, equal(got, want), "%q in reads of %v with limit %d reads as\n%q, want\n%q", data, cuts, max, got,
			want)
		// The limit includes the windows of the reader and its goroutine, the messages, and the results
		// of this test.
		if grown := after.TotalAlloc - before.TotalAlloc; grown > uint64(256<<10+2*max+64*len(data)) {
			t.Fatalf("%d bytes were allocated for %d bytes with limit %d", grown, len(data), max)
		}
	})
}
