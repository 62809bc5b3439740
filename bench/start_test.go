package bench

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
)

// BenchmarkStart measures the hello server: the size of the program, and the time from its start to its first response
// on standard output. The baselines are an echo program, which reads and writes one line, and a program that only ends.
// The budgets are 10.5 MB and 3 times the echo program.
func BenchmarkStart(b *testing.B) {
	hello, echo, empty := build(b, "../examples/hello"), build(b, "./testdata/echo"), build(b, "./testdata/empty")
	info := must.Get(os.Stat(hello))(b)
	for _, program := range []string{hello, echo, empty} { // into the page cache
		_ = exec.Command(program).Run()
	}
	var helloTime, echoTime, emptyTime time.Duration
	for b.Loop() {
		helloTime += startTime(b, hello, `"serverInfo"`)
		echoTime += startTime(b, echo, `"initialize"`)
		began := time.Now()
		must.Do(b, exec.Command(empty).Run())
		emptyTime += time.Since(began)
	}
	b.ReportMetric(0, "ns/op") // the three programs together
	b.ReportMetric(float64(info.Size())/1e6, "MB")
	b.ReportMetric(float64(helloTime.Microseconds())/float64(b.N), "µs/start")
	b.ReportMetric(float64(helloTime)/float64(echoTime), "×echo")
	b.ReportMetric(float64(helloTime)/float64(emptyTime), "×empty")
}

// build builds a program as its users do and returns its path.
func build(b *testing.B, pkg string) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), filepath.Base(pkg)+".exe")
	must.Do(b, must.Err(exec.Command("go", "build", "-o", program, pkg).CombinedOutput()), "go build", pkg)
	return program
}

// start starts a process and returns its standard input and output. The caller waits for its end.
func start(b *testing.B, cmd *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	b.Helper()
	in, err := cmd.StdinPipe()
	must.Do(b, err)
	out, err = cmd.StdoutPipe()
	must.Do(b, err)
	must.Do(b, cmd.Start())
	return in, out
}

// startTime starts a program, sends initialize and returns the time until the response, which must contain want.
func startTime(b *testing.B, program, want string) time.Duration {
	b.Helper()
	began := time.Now()
	cmd := exec.Command(program)
	in, out := start(b, cmd)
	must.Do(b, must.Err(in.Write(append(initialize.body[:len(initialize.body):len(initialize.body)], '\n'))))
	line, err := bufio.NewReader(out).ReadString('\n')
	took := time.Since(began)
	in.Close()
	must.That(b, err == nil && strings.Contains(line, want), "%s: response %q, %v", program, line, err)
	must.Do(b, cmd.Wait(), program)
	return took
}
