//go:build unix

package bench

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
)

// BenchmarkGatewayStdio measures a call through a gateway to a server, each a process that serves standard input and
// output. The baseline is the direct call. The budget is 1.8 times the CPU time of the baseline, with that of the
// client.
func BenchmarkGatewayStdio(b *testing.B) {
	greeter, program := build(b, "./testdata/greeter"), build(b, "./testdata/gateway")
	for _, inFlight := range []int{1, 64} {
		b.Run(fmt.Sprintf("%d in flight", inFlight), func(b *testing.B) {
			direct := startPeer(b, "greet", inFlight, client.Command(greeter))
			forwarded := startPeer(b, "up__greet", inFlight, client.Command(program, "stdio", greeter))
			compare(b, direct.call, forwarded.call)
			baseline, ours := direct.end(), forwarded.end()
			b.ReportMetric(float64(ours.Nanoseconds())/1e3, "µs-cpu/call")
			b.ReportMetric(float64(ours)/float64(baseline), "×direct-cpu")
		})
	}
}

// stdioPeer is a server in a process of its own, and its client in this process.
type stdioPeer struct {
	b        *testing.B
	client   *client.Client
	tool     string
	inFlight int
	start    time.Duration // the CPU time of the process without calls
	calls    int
	own      time.Duration // the CPU time of this process
}

func startPeer(b *testing.B, tool string, inFlight int, target client.Target) *stdioPeer {
	b.Helper()
	dial := func() *client.Client {
		c := must.Get(client.Dial(b.Context(), target))(b)
		return c
	}
	before := cpuTime(b, syscall.RUSAGE_CHILDREN)
	dial().Close()
	p := &stdioPeer{b: b, tool: tool, inFlight: inFlight, start: cpuTime(b, syscall.RUSAGE_CHILDREN) - before,
		client: dial()}
	b.Cleanup(func() { p.client.Close() })
	return p
}

// call makes n calls.
func (p *stdioPeer) call(n int) {
	before := cpuTime(p.b, syscall.RUSAGE_SELF)
	var calls atomic.Int64
	var callers sync.WaitGroup
	for range p.inFlight {
		callers.Go(func() {
			for calls.Add(1) <= int64(n) {
				if r, err := p.client.CallTool(p.b.Context(), p.tool, map[string]string{"Name": text}); err != nil ||
					r.IsError {
					p.b.Error(r, err)
					return
				}
			}
		})
	}
	callers.Wait()
	p.calls += n
	p.own += cpuTime(p.b, syscall.RUSAGE_SELF) - before
}

// end ends the process and returns the CPU time of a call in all processes.
func (p *stdioPeer) end() time.Duration {
	before := cpuTime(p.b, syscall.RUSAGE_CHILDREN)
	p.client.Close()
	return (p.own + cpuTime(p.b, syscall.RUSAGE_CHILDREN) - before - p.start) / time.Duration(p.calls)
}

// cpuTime returns the CPU time of this process, or of its children that have ended and theirs.
func cpuTime(b *testing.B, who int) time.Duration {
	var used syscall.Rusage
	must.Do(b, syscall.Getrusage(who, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
