package bench

import (
	"bufio"
	"bytes"
	"context"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// BenchmarkGateway measures the CPU time that a gateway takes for a call, in its own process. The baseline is
// httputil.ReverseProxy in the same place. Calls through the two alternate in short turns. The budget is the time of
// the baseline.
func BenchmarkGateway(b *testing.B) {
	s := newServer()
	lines := strings.Repeat(text+"\n", 200<<10/(len(text)+1))
	server.AddTool(s, mcp.Tool{Name: "text", Description: "Return 200 KiB of text."},
		func(context.Context, struct{}) (string, error) { return lines, nil })
	server.AddTool(s, mcp.Tool{Name: "record", Description: "Return a record."},
		func(context.Context, struct{}) (map[string]string, error) {
			return map[string]string{"text": text}, nil
		})
	upstream := httptest.NewServer(s)
	b.Cleanup(upstream.Close)
	program := build(b, "./testdata/gateway")
	for _, tool := range []string{"echo", "record", "text"} {
		b.Run(tool, func(b *testing.B) {
			baseline := startProxy(b, program, "proxy", upstream.URL, callOf(tool))
			ours := startProxy(b, program, "gateway", upstream.URL, callOf("up__"+tool))
			const turn = 128
			baseline.cpu(b, turn)
			ours.cpu(b, turn)
			var baselineTime, ourTime time.Duration
			b.ResetTimer()
			for done := 0; done < b.N; done += turn {
				n := min(turn, b.N-done)
				baselineTime += baseline.cpu(b, n)
				ourTime += ours.cpu(b, n)
			}
			b.ReportMetric(0, "ns/op") // all processes together
			b.ReportMetric(float64(ourTime.Nanoseconds())/1e3/float64(b.N), "µs-cpu/call")
			b.ReportMetric(float64(ourTime)/float64(baselineTime), "×proxy")
		})
	}
}

// callOf returns a call of another tool than echo.
func callOf(tool string) message {
	m := message{header: maps.Clone(modernCall.header)}
	m.header["Mcp-Name"] = tool
	m.body = bytes.Replace(modernCall.body, []byte(`"name":"echo"`), []byte(`"name":"`+tool+`"`), 1)
	if !strings.HasSuffix(tool, "echo") {
		m.body = bytes.Replace(m.body, []byte(`"text":"`+text+`"`), nil, 1)
	}
	return m
}

// proxyProcess is a process that runs testdata/gateway.
type proxyProcess struct {
	calls func(n int)
	ask   func() time.Duration // the CPU time that the process has used
}

// startProxy starts a process and opens eight connections to it. The process ends with the benchmark.
func startProxy(b *testing.B, program, kind, upstream string, m message) *proxyProcess {
	b.Helper()
	cmd := exec.Command(program, kind, upstream)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // idle threads that look for work would count
	cmd.Stderr = os.Stderr
	in, out := start(b, cmd)
	b.Cleanup(func() {
		in.Close()
		must.Check(b, cmd.Wait())
	})
	lines := bufio.NewScanner(out)
	read := func() string {
		if !lines.Scan() {
			b.Fatalf("the %s has ended: %v", kind, lines.Err())
		}
		return lines.Text()
	}
	return &proxyProcess{dialDriver(b, read(), m, 8).run(b), func() time.Duration {
		must.Do(b, must.Err(in.Write([]byte("\n"))))
		used := must.Get(strconv.ParseInt(read(), 10, 64))(b)
		return time.Duration(used)
	}}
}

// cpu makes n calls and returns the CPU time that the process takes for them.
func (p *proxyProcess) cpu(b *testing.B, n int) time.Duration {
	b.Helper()
	before := p.ask()
	p.calls(n)
	return p.ask() - before
}
