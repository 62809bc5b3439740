package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// compare measures ours and its baseline in short turns, so that a change of the machine's speed affects both. It
// reports the time of one run of ours, and its speed in percent of the baseline's.
func compare(b *testing.B, baseline, ours func(n int)) {
	b.Helper()
	const turn = 256
	baseline(turn)
	ours(turn)
	b.ReportAllocs()
	var baselineTime, ourTime time.Duration
	b.ResetTimer()
	for done := 0; done < b.N; done += turn {
		n := min(turn, b.N-done)
		b.StopTimer()
		began := time.Now()
		baseline(n)
		baselineTime += time.Since(began)
		b.StartTimer()
		began = time.Now()
		ours(n)
		ourTime += time.Since(began)
	}
	b.StopTimer()
	b.ReportMetric(100*float64(baselineTime)/float64(ourTime), "%baseline")
}

// baselineHandler reads the body, decodes id and method once, and answers every request with result.
func baselineHandler(result []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m envelope
		if err != nil || json.Unmarshal(body, &m) != nil {
			http.Error(w, "malformed", http.StatusBadRequest)
			return
		}
		out := m.answer(result)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(out)))
		_, _ = w.Write(out)
	})
}

type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

func (m *envelope) answer(result []byte) []byte {
	out := make([]byte, 0, len(result)+64)
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), m.ID...), `,"result":`...)
	return append(append(out, result...), '}')
}

// baselineStream reads lines, decodes each once, answers it with result, and flushes when there is no more input.
func baselineStream(r io.Reader, w io.Writer, result []byte) {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return
		}
		var m envelope
		if json.Unmarshal(line, &m) != nil {
			return
		}
		_, _ = out.Write(m.answer(result))
		_ = out.WriteByte('\n')
		if in.Buffered() == 0 && out.Flush() != nil {
			return
		}
	}
}

// httpDriver sends one request repeatedly over keep-alive connections. It reads the responses without decoding them.
type httpDriver struct {
	request []byte
	conns   []net.Conn
	readers []*bufio.Reader
}

func newHTTPDriver(b *testing.B, h http.Handler, m message, connections int) *httpDriver {
	s := httptest.NewServer(h)
	b.Cleanup(s.Close)
	return dialDriver(b, s.Listener.Addr().String(), m, connections)
}

// dialDriver returns a driver of a server that has been started.
func dialDriver(b *testing.B, address string, m message, connections int) *httpDriver {
	d := &httpDriver{request: wire(m, address)}
	for range connections {
		c := must.Get(net.Dial("tcp", address))(b)
		b.Cleanup(func() { c.Close() })
		d.conns = append(d.conns, c)
		d.readers = append(d.readers, bufio.NewReaderSize(c, 64<<10))
	}
	return d
}

func wire(m message, host string) []byte {
	var buf bytes.Buffer
	buf.WriteString("POST /mcp HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: " + strconv.Itoa(len(m.body)) + "\r\n")
	for name, value := range m.header {
		buf.WriteString(name + ": " + value + "\r\n")
	}
	buf.WriteString("\r\n")
	buf.Write(m.body)
	return buf.Bytes()
}

// run returns a function that makes n calls, distributed over the connections.
func (d *httpDriver) run(b *testing.B) func(n int) {
	return func(n int) {
		var wg sync.WaitGroup
		for i, c := range d.conns {
			share := n / len(d.conns)
			if i < n%len(d.conns) {
				share++
			}
			wg.Go(func() {
				for range share {
					if _, err := c.Write(d.request); err != nil {
						b.Error(err)
						return
					}
					if err := skipResponse(d.readers[i]); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

// skipResponse reads one response.
func skipResponse(r *bufio.Reader) error {
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return &net.AddrError{Err: resp.Status}
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
