package httpcodec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
)

// readEvents returns all events in the form name|data|id, and the last retry value.
func readEvents(r io.Reader, limit int) (events []string, retry time.Duration, err error) {
	e := NewEventReader(r, limit)
	for {
		ev, err := e.Next()
		if err != nil {
			return events, e.Retry, err
		}
		events = append(events, ev.Name+"|"+string(ev.Data)+"|"+e.ID)
	}
}

func TestEventReaderFollowsTheHTMLStandard(t *testing.T) {
	const none = time.Duration(-1)
	for _, tc := range []struct {
		name, stream string
		want         []string
		retry        time.Duration
	}{
		{"one", "data: a\n\n", []string{"|a|"}, none},
		{"no space", "data:a\n\n", []string{"|a|"}, none},
		{"only one space is removed", "data:  a \n\n", []string{"| a |"}, none},
		{"several lines", "data: a\ndata:\ndata: b\n\n", []string{"|a\n\nb|"}, none},
		{"named, with id", "event: endpoint\nid: 7\ndata: /m\n\n", []string{"endpoint|/m|7"}, none},
		{"the id remains", "id: 7\ndata: a\n\ndata: b\n\n", []string{"|a|7", "|b|7"}, none},
		{"the name does not", "event: x\ndata: a\n\ndata: b\n\n", []string{"x|a|", "|b|"}, none},
		{"an empty id", "id: 7\ndata: a\n\nid\ndata: b\n\n", []string{"|a|7", "|b|"}, none},
		{"an id with NUL is ignored", "id: 7\ndata: a\n\nid: 8\x00\ndata: b\n\n", []string{"|a|7", "|b|7"}, none},
		{"an event without data only has its id", "id: 7\n\ndata: a\n\n", []string{"|a|7"}, none},
		{"an id that is too long is ignored", "id: 7\ndata: a\n\nid: " + strings.Repeat("8", 1025) + "\ndata: b\n\n",
			[]string{"|a|7", "|b|7"}, none},
		{"the longest id", "id: " + strings.Repeat("8", 1024) + "\ndata: b\n\n",
			[]string{"|b|" + strings.Repeat("8", 1024)},
			none},
		{"an id that no header can contain is ignored", "id: 7\ndata: a\n\nid: \x01\ndata: b\n\nid: \x7F\ndata: c\n\n",
			[]string{"|a|7", "|b|7", "|c|7"}, none},
		{"an id that is not ASCII", "id: é\ndata: a\n\n", []string{"|a|é"}, none},
		{"priming", "id: 7\nretry: 500\ndata:\n\ndata: a\n\n", []string{"|a|7"}, 500 * time.Millisecond},
		{"no event without its empty line", "data: a\n\ndata: b\n", []string{"|a|"}, none},
		{"no event without the end of its line", "data: a\n\ndata: b", []string{"|a|"}, none},
		{"comments", ": x\n:\n\ndata: a\n:y\ndata: b\n\n:\n\n", []string{"|a\nb|"}, none},
		{"unknown fields", "foo: x\nDATA: x\n data: x\ndata: a\nbar\n\n", []string{"|a|"}, none},
		{"a line without colon is a field without value", "data: a\ndata\n\n", []string{"|a\n|"}, none},
		{"a colon in the value", "data: a: b\n\n", []string{"|a: b|"}, none},
		{"BOM", "\xEF\xBB\xBFdata: a\n\n", []string{"|a|"}, none},
		{"only the first BOM", "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n", []string{"|b|"}, none},
		{"part of a BOM", "\xEF\xBBdata: a\n\ndata: b\n\n", []string{"|b|"}, none},
		{"CR", "data: a\rdata: b\r\rdata: c\r\r", []string{"|a\nb|", "|c|"}, none},
		{"CRLF", "data: a\r\ndata: b\r\n\r\ndata: c\r\n\r\n", []string{"|a\nb|", "|c|"}, none},
		{"mixed line endings", "data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\n\r",
			[]string{"|a|", "|b|", "|c|", "|d|"},
			none},
		{"retry", "retry: 10\n\n", nil, 10 * time.Millisecond},
		{"retry without an event", "retry: 10\n", nil, 10 * time.Millisecond},
		{"the last retry", "retry: 10\nretry:20\n", nil, 20 * time.Millisecond},
		{"retry 0", "retry: 0\n", nil, 0},
		{"retry is not a number", "retry: 1s\nretry: -1\nretry: +1\nretry: 1.5\nretry:\nretry: ٣\nretry: 0x10\n", nil,
			none},
		{"retry is too large", "retry: 4294967296\n", nil, time.Hour},
		{"retry is far too large", "retry: 99999999999999999999\n", nil, time.Hour},
		{"empty", "", nil, none},
		{"only line endings", "\n\r\n\r\r\n\n", nil, none},
		{"not UTF-8", "data: \xff\n\n", []string{"|\xff|"}, none}, // the message parser rejects it
	} {
		for how, wrap := range map[string]func(io.Reader) io.Reader{
			"whole": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
			"with the error": iotest.DataErrReader,
		} {
			got, retry, err := readEvents(wrap(strings.NewReader(tc.stream)), 1<<20)
			must.CheckEqual(t, err, io.EOF, tc.name, how)
			if diff := cmp.Diff(tc.want, got); diff != "" || retry != tc.retry {
				t.Errorf("%s, %s: retry %v (-want +got):\n%s", tc.name, how, retry, diff)
			}
		}
	}
}

// An event counts as received at its empty line: a stream that breaks earlier is resumed
// after the previous event.
func TestEventReaderTakesTheIDOfCompleteEventsOnly(t *testing.T) {
	for name, tc := range map[string]struct{ stream, want string }{
		"id first":              {"id: 1\ndata: a\n\nid: 2\ndata: b\n", "1"},
		"id last":               {"data: a\nid: 1\n\ndata: b\nid: 2\n", "1"},
		"id alone":              {"id: 1\n\nid: 2\n", "1"},
		"in the line":           {"id: 1\ndata: a\n\nid: 2", "1"},
		"the first event":       {"id: 1\ndata: a\n", "0"},
		"no id":                 {"data: a\n\n", "0"},
		"an event without data": {"id: 1\n\n", "1"},
		"reset":                 {"id: 1\ndata: a\n\nid\n\n", ""},
		"reset, incomplete":     {"id: 1\ndata: a\n\nid\n", "1"},
	} {
		e := NewEventReader(strings.NewReader(tc.stream), 1<<20)
		e.ResumeAfter("0")
		for {
			if _, err := e.Next(); err != nil {
				break
			}
		}
		must.CheckEqual(t, e.ID, tc.want, name)
	}
}

func TestEventReaderLimitsEventSize(t *testing.T) {
	const limit = 1000
	value := strings.Repeat("x", limit-len("data: "))
	got, _, err := readEvents(strings.NewReader("data: "+value+"\n\n"), limit)
	must.CheckThat(t, err == io.EOF && len(got) == 1, "at the limit: %d events, %v", len(got), err)
	for name, stream := range map[string]string{
		"a line":                "data: " + value + "x\n\n",
		"a line without end":    "data: " + strings.Repeat("x", 5000),
		"lines":                 strings.Repeat("data: xxxxxxxxxx\n", 100) + "\n",
		"lines without a field": strings.Repeat("xxxxxxxxxxxxxxxx\n", 100) + "\n",
		"a comment without end": ":" + strings.Repeat("x", 5000),
		"a name":                "event: " + strings.Repeat("x", 5000) + "\n\n",
		"an id":                 "id: " + strings.Repeat("x", 5000) + "\n\n",
		"the second event":      "data: a\n\ndata: " + value + "x\n\n",
	} {
		got, _, err := readEvents(strings.NewReader(stream), limit)
		must.CheckThat(t, errors.Is(err, ErrEventTooLarge), "%s: %q, %v", name, got, err)
	}
	// Comments do not count towards the size of an event.
	var comments strings.Builder
	for range 1000 {
		comments.WriteString(": keep-alive\n")
	}
	got, _, err = readEvents(strings.NewReader(comments.String()+"data: a\n\n"), limit)
	must.CheckThat(t, err == io.EOF && len(got) == 1, "comments: %q, %v", got, err)
}

// endless is a reader that repeats a text forever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// An event of 700 MB is rejected before it fills the memory.
func TestEventReaderBoundsMemory(t *testing.T) {
	const limit = 1 << 20
	for _, text := range []string{"x", "data: x\n", "data\n"} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := readEvents(io.LimitReader(&endless{text: text}, 700<<20), limit)
		must.CheckThat(t, errors.Is(err, ErrEventTooLarge), "%q: %v", text, err)
		runtime.ReadMemStats(&after)
		grown := after.TotalAlloc - before.TotalAlloc
		must.CheckThat(t, grown <= 16*limit, "%q: %d bytes were allocated", text, grown)
	}
}

func TestEventReaderReturnsReadErrors(t *testing.T) {
	broken := errors.New("broken")
	_, _, err := readEvents(io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(broken)), 100)
	must.CheckIs(t, err, broken)
}

// The reader returns the message that appendEvent encoded, even if it contains line breaks.
func TestEventsRoundTrip(t *testing.T) {
	for _, name := range []string{"message", "endpoint"} {
		for message, want := range map[string]string{
			`{"a":1}`:                  `{"a":1}`,
			"{\n  \"a\": 1\n}":         "{\n  \"a\": 1\n}",
			"{\r\n  \"a\": 1\r\n}":     "{\n  \"a\": 1\n}",
			"{\r \"a\":\r\r\n1\n\r\n}": "{\n \"a\":\n\n1\n\n}",
			"a\n":                      "a\n",
			"\na":                      "\na",
			"  a":                      "  a",
			// characters that some readers take for line breaks, and others whose encoding begins in the same
			// way
			"\"\u0085\u2028\u2029\"": `"\u0085\u2028\u2029"`,
			"\"é\u2030“\xC2\"":       "\"é\u2030“\xC2\"",
			"{\n\"\u2028\xE2\x80":    "{\n\"\\u2028\xE2\x80",
		} {
			got, _, err := readEvents(bytes.NewReader(AppendEvent(nil, name, []byte(message))), 100)
			must.CheckThat(t, err == io.EOF && len(got) == 1 && got[0] == name+"|"+want+"|",
				"%q is read as %q, %v", message, got, err)
		}
	}
}

// FuzzSSEDecode checks that a stream yields the same events with all line endings and all sizes of reads, and
// that no event is larger than the limit.
func FuzzSSEDecode(f *testing.F) {
	for _, s := range []string{
		"data: a\n\n", "\xEF\xBB\xBFdata: a\ndata: b\nid: 1\nretry: 5\nevent: e\n\n:c\n", "data\n\ndata:\ndata:\n\n",
		"id: \x00\ndata: x\n\n", strings.Repeat("data: xxxxxxxx\n", 20) + "\n",
		":" + strings.Repeat("x", 150) + "\ndata: a\n\n", "data: a\n\ndata: " + strings.Repeat("x", 95) + "\n\n",
		"data: é\n\nid: 1\n\ndata: b\n\n",
	} {
		f.Add(s, []byte{0, 1, 2}, []byte{0, 6, 1})
		f.Add(s, []byte{2}, make([]byte, 2*len(s))) // byte by byte
	}
	f.Fuzz(func(t *testing.T, stream string, endings, cuts []byte) {
		const limit = 100
		stream = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(stream)
		want, retry, wantErr := readEvents(strings.NewReader(stream), limit)
		for _, ev := range want {
			must.CheckThat(t, len(ev) <= 3*limit, "an event of %d bytes: %q", len(ev), ev)
		}
		in := withEndings(stream, endings)
		got, again, err := readEvents(&pieces{in, cuts}, limit)
		must.Equal(t, errors.Is(err, ErrEventTooLarge), errors.Is(wantErr, ErrEventTooLarge), in, cuts, err, wantErr)
		must.That(t, fmt.Sprint(got) == fmt.Sprint(want) && (again == retry || wantErr != io.EOF),
			"%q in pieces of %v: %q and %v, as a whole %q and %v", in, cuts, got, again, want, retry)
	})
}

// withEndings replaces the line feeds of a stream by LF, CR or CRLF, as endings say.
func withEndings(stream string, endings []byte) string {
	var b strings.Builder
	last := byte(0)
	for i, line := range strings.SplitAfter(stream, "\n") {
		text, ended := strings.CutSuffix(line, "\n")
		b.WriteString(text)
		if !ended {
			break
		}
		kind := byte(0)
		if len(endings) > 0 {
			kind = endings[i%len(endings)] % 3
		}
		if kind == 0 && last == 1 && text == "" {
			kind = 2 // the LF would belong to the CR before it
		}
		b.WriteString([]string{"\n", "\r", "\r\n"}[kind])
		last = kind
	}
	return b.String()
}

// FuzzSSERoundTrip checks that the reader returns what the writers of events have written: the message, its line breaks
// as line feeds, and the ID that resumes the stream after it.
func FuzzSSERoundTrip(f *testing.F) {
	for _, s := range []string{`{"a":1}`, "{\r\n\"a\":\r1\n}", "\n", "\r\n\r", "data: x\n\nevent: y", ": x",
		"\xEF\xBB\xBF{}", " x ", "\x00", "\u2028\n\u0085é\u2029"} {
		f.Add([]byte(s), uint64(1), []byte{1, 0, 3})
	}
	f.Fuzz(func(t *testing.T, message []byte, seq uint64, cuts []byte) {
		want := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`).
			Replace(string(message))
		if want == "" || seq == math.MaxUint64 {
			return // an event without data is not dispatched, and no event uses the last number
		}
		name := NewStreamName(KindPost)
		stream := AppendPriming(nil, name, 0)
		stream = AppendNumbered(stream, name, seq, message)
		stream = AppendEvent(stream, "endpoint", message)
		e := NewEventReader(&pieces{string(stream), cuts}, len(stream))
		for i, wantName := range []string{"message", "endpoint"} {
			ev, err := e.Next()
			must.That(t, err == nil && string(ev.Data) == want && ev.Name == wantName,
				"event %d of %q is read as %q %q, %v", i, stream, ev.Name, ev.Data, err)
			if gotName, gotSeq, ok := ParseEventID(e.ID); !ok || gotName != name || gotSeq != seq {
				t.Fatalf("%q resumes after %q", stream, e.ID)
			}
		}
		ev, err := e.Next()
		must.That(t, err == io.EOF, "%q has another event %q, %v", stream, ev.Data, err)
	})
}

// pieces is a reader of text. Its reads return as many bytes as cuts says, plus one.
type pieces struct {
	text string
	cuts []byte
}

func (p *pieces) Read(b []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := len(p.text)
	if len(p.cuts) > 0 {
		n = min(n, int(p.cuts[0])+1)
		p.cuts = p.cuts[1:]
	}
	n = copy(b, p.text[:n])
	p.text = p.text[n:]
	return n, nil
}

// Rule T13.
func TestStreamNamesAreUnguessable(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		name := NewStreamName(KindPost)
		must.That(t, len(name) == nameLen && !seen[name], "%v", name)
		seen[name] = true
		stream, seq, ok := ParseEventID(string(AppendEventID(nil, name, 7)))
		must.That(t, ok && stream == name && seq == 7, "%v %v %v %v", name, stream, seq, ok)
	}
}

func TestBodyIsReadUpToItsLimit(t *testing.T) {
	const limit = 200_000
	for _, size := range []int{0, 1, 511, 512, 513, MaxInitialRead - 1, MaxInitialRead, MaxInitialRead + 1, limit - 1,
		limit, limit + 1, 2 * limit} {
		want := bytes.Repeat([]byte("x"), size)
		for _, length := range []int64{int64(size), -1} {
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "in halves": iotest.HalfReader,
				"with the error": iotest.DataErrReader,
			} {
				got, err := AppendBody(nil, wrap(bytes.NewReader(want)), length, limit, MaxInitialRead)
				if size > limit {
					must.CheckIs(t, err, ErrBodyTooLarge, size, length, how)
					continue
				}
				must.CheckThat(t, err == nil && bytes.Equal(got, want),
					"%d of %d bytes, %s: %d bytes, %v", size, length, how, len(got), err)
			}
		}
	}
}

func TestBodyThatEndsEarlyIsAnError(t *testing.T) {
	must.CheckIs(t, must.Err(AppendBody(nil, strings.NewReader("abc"), 4, 100, MaxInitialRead)), io.ErrUnexpectedEOF)
	broken := errors.New("broken")
	got, err := AppendBody(nil, io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(broken)), -1, 100,
		MaxInitialRead)
	must.CheckThat(t, errors.Is(err, broken), "%q, %v", got, err)
}

// A peer that declares a large body and sends nothing does not cause a large allocation.
func TestAppendBodyAllocatesForReceivedBytesOnly(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		_, err := AppendBody(nil, strings.NewReader("{"), 4<<20, 4<<20, MaxInitialRead)
		must.That(t, err != nil, "accepted")
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / 100
	must.CheckThat(t, each <= 8<<10, "%d bytes each", each)
}

// The first five are the examples of the specification (Value Encoding).
// Rule U1.
func TestHeaderValuesAreEncodedIfNecessary(t *testing.T) {
	for text, want := range map[string]string{
		"us-west1":           "us-west1",
		"Hello, 世界":          "=?base64?SGVsbG8sIOS4lueVjA==?=",
		" padded ":           "=?base64?IHBhZGRlZCA=?=",
		"line1\nline2":       "=?base64?bGluZTEKbGluZTI=?=",
		"=?base64?literal?=": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=",

		"":                     "",
		"a b\tc":               "a b\tc",
		"\ta":                  "=?base64?CWE=?=",
		"a\r\nSet-Cookie: b=c": "=?base64?YQ0KU2V0LUNvb2tpZTogYj1j?=",
		"a\x00b":               "=?base64?YQBi?=",
		"a\x7f":                "=?base64?YX8=?=",
		// starts and ends as the sentinels do, though they overlap
		"=?base64?=":         "=?base64?PT9iYXNlNjQ/PQ==?=",
		"=?base64?literal":   "=?base64?literal",
		"=?BASE64?literal?=": "=?BASE64?literal?=",
		"literal?=":          "literal?=",
	} {
		must.CheckEqual(t, EncodeHeader(text), want, text)
		got, ok := DecodeHeader(want)
		must.CheckThat(t, ok && got == text, "%q is decoded as %q, %v; want %q", want, got, ok, text)
	}
}

// Rule T17: the markers are case-sensitive, and base64 is strict.
func TestMalformedHeaderValuesAreRejected(t *testing.T) {
	for _, value := range []string{
		"=?base64?SGVsbG8?=",     // no padding
		"=?base64?SGVs!!!bG8=?=", // not base64
		"=?base64?SGVsbG9=?=",    // bits beyond the end
		"=?base64?SGVs bG8=?=",
		"=?base64?SGVsbG8=\n?=",
		"=?base64?SGVsbG8_?=", // the URL alphabet
		" a", "a ", "\ta", "a\n", "a\x00", "é", "\x7f", "a\xff",
	} {
		got, ok := DecodeHeader(value)
		must.CheckThat(t, !ok, "%q is decoded as %q", value, got)
	}
	for _, literal := range []string{"SGVsbG8=", "=?base64?SGVsbG8=", "=?Base64?SGVsbG8=?=", "SGVsbG8=?=",
		"=?base64?="} {
		got, ok := DecodeHeader(literal)
		must.CheckThat(t, ok && got == literal, "%q is decoded as %q, %v; want the literal", literal, got, ok)
	}
	got, ok := DecodeHeader("=?base64??=")
	must.CheckThat(t, ok && got == "", "the encoded empty text is decoded as %q, %v", got, ok)
}

func FuzzHeaderValueCodec(f *testing.F) {
	for _, s := range []string{"", "a", " a", "a\n", "é", "=?base64?YQ==?=", "=?base64?=", "=?base64?", "?=", "\t",
		"a\xff\x00", "=?base64??="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		value := EncodeHeader(text)
		got, ok := DecodeHeader(value)
		must.CheckThat(t, ok && got == text, "%q becomes %q, and that %q, %v", text, value, got, ok)
		// RFC 9110, 5.5: visible ASCII, with spaces and tabs inside only.
		for i := range len(value) {
			c := value[i]
			must.That(t, c <= 0x7E && (c >= 0x20 || c == '\t'), "%q contains the byte %#x", value, c)
		}
		must.CheckEqual(t, strings.Trim(value, " \t"), value)
		if decoded, ok := DecodeHeader(text); ok && utf8.ValidString(decoded) {
			if again, ok := DecodeHeader(EncodeHeader(decoded)); !ok || again != decoded {
				t.Errorf("%q decodes to %q, which does not round-trip: %q, %v", text, decoded, again, ok)
			}
		}
	})
}

// scripted is text that arrives on a stream after a delay.
type scripted struct {
	after time.Duration
	text  string
}

// silentAfter sends a script on a stream that remains open for an hour afterwards. It returns
// the time between the last text and the end of the stream for its reader.
func silentAfter(t *testing.T, all ...scripted) (after time.Duration, err error) {
	t.Helper()
	r, w := io.Pipe()
	events := NewEventReader(r, 1000)
	events.CloseWhenSilent(r)
	var last time.Time
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, s := range all {
			time.Sleep(s.after)
			_, _ = io.WriteString(w, s.text)
		}
		last = time.Now()
		time.Sleep(time.Hour)
		w.Close()
	}()
	for {
		if _, err := events.Next(); err != nil {
			over := time.Now()
			err = events.End(err)
			<-done
			return over.Sub(last), err
		}
	}
}

const comment, data = ": keep-alive\n\n", "data: {}\n\n"

// A stream is lost when its keep-alive comments stop.
func TestStreamIsLostWhenKeepAliveStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, err := silentAfter(t, scripted{0, comment}, scripted{15 * time.Second, comment},
			scripted{15 * time.Second, comment})
		var silent *call.SilentError
		must.CheckThat(t, errors.As(err, &silent) && errors.Is(err, call.ErrConnectionLost) &&
			silent.After == 45*time.Second && after == 45*time.Second, "after %v: %v", after, err)
	})
}

func TestStreamWithoutKeepAliveMayBeSilent(t *testing.T) {
	for name, all := range map[string][]scripted{
		"nothing":      nil,
		"data":         {{time.Second, data}, {time.Second, data}, {time.Second, data}, {time.Second, data}},
		"one comment":  {{0, comment}},
		"two comments": {{0, comment}, {15 * time.Second, comment}},
		"padding":      {{0, comment + comment + comment + comment}},
		"comments before events": {{time.Second, comment + data}, {time.Second, comment + data},
			{time.Second, comment + data}, {time.Second, comment + data}},
		"padding, then a long wait": {{0, comment + comment + comment}, {time.Minute, comment}},
	} {
		synctest.Test(t, func(t *testing.T) {
			after, err := silentAfter(t, all...)
			must.CheckThat(t, err == io.EOF && after == time.Hour, "%s: after %v: %v", name, after, err)
		})
	}
}

// The longest gap counts. An event is as good as a comment.
func TestKeepAliveIntervalMayVary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		after, err := silentAfter(t, scripted{0, comment}, scripted{2 * time.Second, comment},
			scripted{10 * time.Second, comment}, scripted{25 * time.Second, data}, scripted{29 * time.Second, comment})
		var silent *call.SilentError
		must.CheckThat(t, errors.As(err, &silent) && after == 30*time.Second, "after %v: %v", after, err)
	})
}

// An event that arrives slowly keeps the stream open.
func TestSlowEventKeepsStreamOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		part := scripted{4 * time.Second, strings.Repeat("x", 10)}
		after, err := silentAfter(t, scripted{0, comment}, scripted{time.Second, comment},
			scripted{time.Second, comment},
			scripted{time.Second, "data: "}, part, part, part, scripted{time.Second, "\n"},
			scripted{4 * time.Second, "\n"})
		var silent *call.SilentError
		must.CheckThat(t, errors.As(err, &silent) && silent.After == minSilence && after == minSilence,
			"after %v: %v", after, err)
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
