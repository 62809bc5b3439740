package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// What lasts: streams of notifications, sessions and streams that are idle, and a
// server that starts.

const notices = 100 // progress notifications of one call

// 100 progress notifications of one call, beside a handler that flushes each.
func BenchmarkProgress(b *testing.B) {
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "count", Description: "Counts."},
		func(ctx context.Context, _ struct{}) (string, error) {
			for i := range notices {
				if err := server.Progress(ctx, float64(i+1), notices, ""); err != nil {
					return "", err
				}
			}
			return "counted", nil
		})
	m := modernCall
	m.body = []byte(strings.Replace(strings.Replace(string(m.body), `"name":"echo","arguments":{"text":"`+text+`"}`, `"name":"count"`, 1),
		`"_meta":{`, `"_meta":{"progressToken":1,`, 1))
	m.header = map[string]string{"Mcp-Name": "count"}
	for name, value := range modernCall.header {
		if name != "Mcp-Name" {
			m.header[name] = value
		}
	}
	floor := newHTTPDriver(b, http.HandlerFunc(floorProgress), m, 1)
	ours := newHTTPDriver(b, s, m, 1)
	beside(b, floor.run(b), ours.run(b))
}

func floorProgress(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	rc := http.NewResponseController(w)
	for i := range notices {
		_, _ = fmt.Fprintf(w, `data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":%d,"total":%d}}`+"\n\n", i+1, notices)
		_ = rc.Flush()
	}
	_, _ = io.WriteString(w, "data: "+string((&envelope{ID: []byte("7")}).answer(echoResult))+"\n\n")
}

// heap is the memory in use, goroutines' stacks included.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// Sessions that wait for their next request. The budget is 2,048 B each, and no
// goroutine.
func BenchmarkIdleSession(b *testing.B) {
	const n = 900 // of one address
	var bytes, goroutines float64
	for b.Loop() {
		s := newServer()
		openSession(b, s)
		running, before := runtime.NumGoroutine(), heap()
		for range n {
			openSession(b, s)
		}
		bytes = float64(heap()-before) / n
		goroutines = float64(runtime.NumGoroutine()-running) / n
		runtime.KeepAlive(s)
	}
	b.ReportMetric(bytes, "B/session")
	b.ReportMetric(goroutines, "goroutines/session")
}

// Standalone event streams that wait, beside those of a handler that does nothing
// else. The budget is 115 % of the floor's memory.
func BenchmarkOpenStream(b *testing.B) {
	var bytes, ratio float64
	for b.Loop() {
		floor := streamsCost(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ":\n\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}), func() message { return message{} })
		s := newServer()
		bytes = streamsCost(b, s, func() message { return openSession(b, s) })
		ratio = 100 * bytes / floor
	}
	b.ReportMetric(bytes, "B/stream")
	b.ReportMetric(ratio, "%floor-memory")
}

// streamsCost is the memory of one of many open streams, its client's end included.
func streamsCost(b *testing.B, h http.Handler, open func() message) float64 {
	const n = 400
	s := httptest.NewServer(h)
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
	before := heap()
	for _, m := range sessions {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		conns = append(conns, c)
		request := "GET /mcp HTTP/1.1\r\nHost: " + s.Listener.Addr().String() + "\r\nAccept: text/event-stream\r\n"
		for _, name := range []string{"Mcp-Session-Id", "Mcp-Protocol-Version"} {
			if value := m.header[name]; value != "" {
				request += name + ": " + value + "\r\n"
			}
		}
		if _, err := io.WriteString(c, request+"\r\n"); err != nil {
			b.Fatal(err)
		}
		awaitComment(b, c)
	}
	return float64(heap()-before) / n
}

// awaitComment reads the header of a response and the comment that begins its stream, or
// the empty event that does.
func awaitComment(b *testing.B, c net.Conn) {
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	buf := make([]byte, 1024)
	for seen := ""; !strings.Contains(seen, "\r\n\r\n") || !strings.Contains(seen, ":\n\n") && !strings.Contains(seen, "data: \n\n"); {
		n, err := c.Read(buf)
		if err != nil {
			b.Fatalf("%v after %q", err, seen)
		}
		seen += string(buf[:n])
	}
}

// A server's start, until its first response, beside a program that only starts and
// ends. The budget is 4 times the floor: 25 %.
func BenchmarkStart(b *testing.B) {
	dir := b.TempDir()
	empty := filepath.Join(dir, "empty.go")
	if err := os.WriteFile(empty, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	build := func(name, what string) string {
		program := filepath.Join(dir, name)
		if out, err := exec.Command("go", "build", "-o", program, what).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return program
	}
	floor, ours := build("floor", empty), build("ours", "../examples/hello")
	var floorTime, ourTime time.Duration
	for b.Loop() {
		began := time.Now()
		if err := exec.Command(floor).Run(); err != nil {
			b.Fatal(err)
		}
		floorTime += time.Since(began)
		began = time.Now()
		startServer(b, ours)
		ourTime += time.Since(began)
	}
	b.ReportMetric(float64(ourTime.Microseconds())/float64(b.N), "µs/start")
	b.ReportMetric(100*float64(floorTime)/float64(ourTime), "%floor")
}

func startServer(b *testing.B, program string) {
	cmd := exec.Command(program)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if _, err := in.Write(append(initialize.body[:len(initialize.body):len(initialize.body)], '\n')); err != nil {
		b.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	in.Close()
	if err != nil || !strings.Contains(line, `"serverInfo"`) || cmd.Wait() != nil {
		b.Fatal(line, err)
	}
}
