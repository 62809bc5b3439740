package bench

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

const notices = 100 // progress notifications of one call

// BenchmarkProgress measures a call with 100 progress notifications. The baseline is a handler that flushes each.
func BenchmarkProgress(b *testing.B) {
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "count", Description: "Count."},
		func(ctx context.Context, _ struct{}) (string, error) {
			for i := range notices {
				if err := server.Progress(ctx, float64(i+1), notices, ""); err != nil {
					return "", err
				}
			}
			return "counted", nil
		})
	m := modernCall
	m.body = []byte(strings.Replace(strings.Replace(string(m.body), `"name":"echo","arguments":{"text":"`+text+`"}`,
		`"name":"count"`, 1),
		`"_meta":{`, `"_meta":{"progressToken":1,`, 1))
	m.header = map[string]string{"Mcp-Name": "count"}
	for name, value := range modernCall.header {
		if name != "Mcp-Name" {
			m.header[name] = value
		}
	}
	baseline := newHTTPDriver(b, http.HandlerFunc(baselineProgress), m, 1)
	ours := newHTTPDriver(b, s, m, 1)
	compare(b, baseline.run(b), ours.run(b))
}

func baselineProgress(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for i := range notices {
		_, _ = fmt.Fprintf(w,
			`data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d,`+
				`"total":%d}}`+"\n\n", i+1, notices)
		_ = rc.Flush()
	}
	_, _ = io.WriteString(w, "data: "+string((&envelope{ID: []byte("7")}).answer(echoResult))+"\n\n")
}

// memory returns the bytes that the heap and the stacks of goroutines use.
func memory() (heap, stacks int64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc), int64(m.StackInuse)
}

// BenchmarkIdleSession measures the memory of a session without requests. The budget is 2,048 B and no goroutine.
func BenchmarkIdleSession(b *testing.B) {
	const n = 900 // less than the limit for one address
	var bytes, goroutines float64
	for b.Loop() {
		s := newServer()
		openSession(b, s)
		running := runtime.NumGoroutine()
		heapBefore, stacksBefore := memory()
		for range n {
			openSession(b, s)
		}
		heap, stacks := memory()
		bytes = float64(heap+stacks-heapBefore-stacksBefore) / n
		goroutines = float64(runtime.NumGoroutine()-running) / n
		runtime.KeepAlive(s)
	}
	b.ReportMetric(bytes, "B/session")
	b.ReportMetric(goroutines, "goroutines/session")
}

// BenchmarkOpenStream measures the memory of an idle event stream. The baseline is a handler that only opens the
// stream. The budget is 112 % of the memory of the baseline.
func BenchmarkOpenStream(b *testing.B) {
	var bytes, ratio float64
	for b.Loop() {
		baseline, _ := streamsCost(b, http.HandlerFunc(baselineOpenStream), func() message { return message{} })
		s := newServer()
		bytes, _ = streamsCost(b, s, func() message { return openSession(b, s) })
		ratio = 100 * bytes / baseline
	}
	b.ReportMetric(bytes, "B/stream")
	b.ReportMetric(ratio, "%baseline-memory")
}

func baselineOpenStream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, ":\n\n")
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

// streamsCost returns the memory of an open stream, with the connection of its client, and how much of it is stacks.
func streamsCost(b testing.TB, h http.Handler, open func() message) (all, stack float64) {
	const n = 400
	mux := http.NewServeMux()
	mux.Handle("/mcp", h)
	s := httptest.NewServer(mux)
	defer s.Close()
	var sessions []message
	for range n {
		sessions = append(sessions, open())
	}
	conns := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	heapBefore, stacksBefore := memory()
	for _, m := range sessions {
		c := must.Get(net.Dial("tcp", s.Listener.Addr().String()))(b)
		conns = append(conns, c)
		request := "GET /mcp HTTP/1.1\r\nHost: " + s.Listener.Addr().String() + "\r\nAccept: text/event-stream\r\n"
		for _, name := range []string{"Mcp-Session-Id", "Mcp-Protocol-Version"} {
			if value := m.header[name]; value != "" {
				request += name + ": " + value + "\r\n"
			}
		}
		must.Do(b, must.Err(io.WriteString(c, request+"\r\n")))
		awaitComment(b, c)
	}
	heap, stacks := memory()
	return float64(heap+stacks-heapBefore-stacksBefore) / n, float64(stacks-stacksBefore) / n
}

// awaitComment reads the header of a response and the first comment or empty event of its stream.
func awaitComment(b testing.TB, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 1024)
	for seen := ""; !strings.Contains(seen, "\r\n\r\n") ||
		!strings.Contains(seen, ":\n\n") && !strings.Contains(seen, "data: \n\n"); {
		n, err := c.Read(buf)
		must.Do(b, err, seen)
		seen += string(buf[:n])
	}
}
