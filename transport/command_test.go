package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

// as returns the options to start this test binary as a child in a role, with short grace periods.
func as(role string, env ...string) transport.CommandOptions {
	return transport.CommandOptions{
		Path:      os.Args[0],
		Env:       slices.Concat(env, quietExit(), []string{roleVariable + "=" + role}),
		ExitGrace: 100 * time.Millisecond,
		TermGrace: 100 * time.Millisecond,
	}
}

func start(t *testing.T, opts transport.CommandOptions) *transport.CommandConn {
	t.Helper()
	p := must.Get(transport.StartCommand(opts))(t)
	t.Cleanup(func() { p.Close() })
	return p
}

// closeWithin closes p and fails the test if Close takes longer than limit.
func closeWithin(t *testing.T, p *transport.CommandConn, limit time.Duration) {
	t.Helper()
	begin := time.Now()
	must.Do(t, p.Close())
	took := time.Since(begin)
	must.That(t, took <= limit, "Close took %v, want at most %v", took, limit)
	select {
	case <-p.Done():
	default:
		t.Fatal("Done is not closed after Close")
	}
}

func TestCommandConnExchangesMessages(t *testing.T) {
	opts := as("echo")
	opts.ExitGrace = testTimeout // the child must exit on its own
	p := start(t, opts)
	select {
	case <-p.Started():
		t.Fatal("Started is closed before the first output")
	default:
	}
	for i := range 100 {
		send(t, p, fmt.Sprint("message ", i))
	}
	for i := range 100 {
		wantMessage(t, p, fmt.Sprint("message ", i))
	}
	select {
	case <-p.Started():
	default:
		t.Fatal("Started is not closed after the first output")
	}
	must.Do(t, p.Err())
	closeWithin(t, p, testTimeout/2)
	must.Do(t, p.Wait())
	must.Do(t, p.Close())
	must.Is(t, must.Err(p.Read(timeoutContext(t))), transport.ErrClosed, "Read after Close")
	must.Is(t, p.Write(timeoutContext(t), []byte("{}")), transport.ErrClosed)
}

func TestCloseSendsQueuedMessages(t *testing.T) {
	opts := as("exit")
	opts.ExitGrace = testTimeout
	p := start(t, opts)
	send(t, p, "{}")
	p.Close()
	var exit *transport.ExitError // the child exits with code 3 after it has read a message
	err := p.Err()
	must.That(t, errors.As(err, &exit) && exit.Code == 3, "got %v", err)
}

func TestMissingProgramIsTypedError(t *testing.T) {
	p, err := transport.StartCommand(transport.CommandOptions{Path: "parley-no-such-program"})
	must.That(t, p == nil && errors.Is(err, exec.ErrNotFound), "got %v, %v, want exec.ErrNotFound", p, err)
	p, err = transport.StartCommand(transport.CommandOptions{Path: filepath.Join(t.TempDir(), "none")})
	must.That(t, p == nil && errors.Is(err, os.ErrNotExist), "got %v, %v, want os.ErrNotExist", p, err)
}

func TestExitErrorDescribesExitOfServer(t *testing.T) {
	p := start(t, as("exit"))
	send(t, p, "{}")
	if _, err := p.Read(timeoutContext(t)); err != io.EOF {
		t.Fatalf("Read: %v, want io.EOF", err)
	}
	err := p.Wait()
	var exit *transport.ExitError
	must.That(t, errors.As(err, &exit) && exit.Code == 3 && exit.Signal == nil && string(exit.Stderr) == "disk full\n",
		"got %#v", err)
	must.Equal(t, err.Error(), `transport: server process exited with code 3; last line of stderr: "disk full"`, err)
	must.Is(t, p.Write(timeoutContext(t), []byte("{}")), os.ErrProcessDone)
	closeWithin(t, p, time.Second)
}

func TestLastMessageIsReadAfterExit(t *testing.T) {
	p := start(t, as("exit cleanly"))
	send(t, p, "{}")
	must.Do(t, p.Wait())
	wantMessage(t, p, "last message") // the process has already exited
	_, err := p.Read(timeoutContext(t))
	must.That(t, err == io.EOF, "Read: %v, want io.EOF", err)
}

func TestReadReturnsEOFWhenServerClosesOutput(t *testing.T) {
	opts := as("close stdout")
	opts.ExitGrace = testTimeout
	p := start(t, opts)
	wantMessage(t, p, "ready")
	_, err := p.Read(timeoutContext(t))
	must.That(t, err == io.EOF, "Read: %v, want io.EOF", err)
	closeWithin(t, p, testTimeout/2)
	must.Do(t, p.Err())
}

func TestReadOfCommandConnEndsWithItsContext(t *testing.T) {
	p := start(t, as("echo"))
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := p.Read(ctx)
		failed <- err
	}()
	cancel()
	must.Is(t, <-failed, context.Canceled)
	send(t, p, "{}")
	wantMessage(t, p, "{}")
}

func TestCloseEndsServerThatNeverReads(t *testing.T) {
	p := start(t, as("never read"))
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for p.Write(ctx, make([]byte, 100_000)) == nil { // until the pipe and the queue are full
	}
	closeWithin(t, p, 2*time.Second)
}

func TestCloseReadsOutputUntilServerExits(t *testing.T) {
	opts := as("flush at exit")
	opts.ExitGrace = testTimeout
	p := start(t, opts)
	wantMessage(t, p, "ready")
	closeWithin(t, p, testTimeout/2)
	must.Do(t, p.Err())
}

func TestLineOf700MBFromServerIsReportedOnce(t *testing.T) {
	p := start(t, as("long line"))
	_, err := p.Read(timeoutContext(t))
	var tooLarge *transport.MessageTooLargeError
	must.That(t, errors.As(err, &tooLarge) && tooLarge.Limit == transport.DefaultClientMaxMessage,
		"got %v, want a MessageTooLargeError", err)
	wantMessage(t, p, "after")
}

func environment(t *testing.T, opts transport.CommandOptions) map[string]string {
	t.Helper()
	p := start(t, opts)
	env := make(map[string]string)
	for {
		msg, err := p.Read(timeoutContext(t))
		if err == io.EOF {
			return env
		}
		must.Do(t, err)
		name, value, _ := strings.Cut(string(msg), "=")
		env[name] = value
	}
}

// Rule S6: a server receives its credentials in Env and does not inherit other secrets.
func TestEnvironmentIsInheritedOnlyOnRequest(t *testing.T) {
	t.Setenv("PARLEY_TEST_SECRET", "hunter2")
	t.Setenv("LC_TIME", "() { :;}; echo a function")
	t.Setenv("LC_NUMERIC", "nb_NO")
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	opts := as("environment", "TOKEN=given", "LANG=given")
	opts.Dir = dir
	env := environment(t, opts)
	_, leaked := env["PARLEY_TEST_SECRET"]
	must.CheckThat(t, !leaked, "the child inherits a secret of the host")
	_, inherited := env["LC_TIME"]
	must.CheckThat(t, !inherited, "the child inherits a shell function")
	must.CheckEqual(t, env["TOKEN"], "given", env)
	must.CheckEqual(t, env["LANG"], "given", env)
	must.CheckEqual(t, env["PATH"], os.Getenv("PATH"))
	must.CheckEqual(t, env["DIR"], dir)

	opts.InheritEnv = true
	if env := environment(t, opts); env["PARLEY_TEST_SECRET"] != "hunter2" || env["TOKEN"] != "given" {
		t.Errorf("with InheritEnv the environment is %v", env)
	}
}

func TestCloseIsSafeDuringReadAndWrite(t *testing.T) {
	for range 5 {
		p := start(t, as("echo"))
		ctx := timeoutContext(t)
		done := make(chan struct{}, 6)
		for range 2 {
			go func() {
				for p.Write(ctx, []byte("{}")) == nil {
				}
				done <- struct{}{}
			}()
			go func() {
				for {
					if _, err := p.Read(ctx); err != nil {
						break
					}
				}
				done <- struct{}{}
			}()
			go func() {
				<-p.Started()
				p.Close()
				done <- struct{}{}
			}()
		}
		for range 6 {
			<-done
		}
		must.Do(t, p.Close())
	}
}

// records is a slog.Handler that keeps the records.
type records struct {
	mu   sync.Mutex
	kept []slog.Record
}

func (r *records) Enabled(context.Context, slog.Level) bool { return true }
func (r *records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r *records) WithGroup(string) slog.Handler            { return r }
func (r *records) Handle(_ context.Context, record slog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept = append(r.kept, record)
	return nil
}

func TestStderrArrivesLineByLine(t *testing.T) {
	var lines []string
	var log records
	opts := as("stderr")
	opts.Stderr = func(line string) { lines = append(lines, line) }
	opts.Logger = slog.New(&log)
	p := start(t, opts)
	must.Do(t, p.Wait())
	want := []string{"one", "", "two\uFFFD", strings.Repeat("l", 8<<10), "no newline"}
	must.Equal(t, len(lines), len(want), lines)
	for i, line := range lines {
		must.CheckEqual(t, line, want[i], i)
	}
	must.Equal(t, len(log.kept), len(want))
	for i, record := range log.kept {
		record.Attrs(func(a slog.Attr) bool {
			must.CheckThat(t, (a.Key != "line" || a.Value.String() == want[i]) && record.Level == slog.LevelInfo,
				"record %d: %v %v", i, record.Level, a)
			return true
		})
	}
}

func TestFloodOnStderrIsDrained(t *testing.T) {
	var log records
	var lines int
	opts := as("flood") // writes 100 MiB before it serves
	opts.Logger = slog.New(&log)
	opts.Stderr = func(string) { lines++ }
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := start(t, opts)
	send(t, p, "{}")
	wantMessage(t, p, "{}")
	closeWithin(t, p, testTimeout)
	runtime.GC()
	runtime.ReadMemStats(&after)
	must.CheckThat(t, after.HeapAlloc <= before.HeapAlloc+16<<20,
		"the heap grew by %d bytes", after.HeapAlloc-before.HeapAlloc)
	must.CheckEqual(t, lines, 1<<20)
	n := len(log.kept)
	must.CheckThat(t, n >= 4096 && n <= 50_000, "%d records were logged", n)
	dropped := 0
	logged := 0
	for _, record := range log.kept {
		record.Attrs(func(a slog.Attr) bool {
			switch a.Key {
			case "lines":
				dropped += int(a.Value.Int64())
			case "line":
				logged++
			}
			return true
		})
	}
	must.CheckEqual(t, dropped+logged, 1<<20, logged, dropped)
}

// Rule S2: output on standard error never blocks a server.
func TestStderrIsDrainedWithoutLoggerAndFunction(t *testing.T) {
	p := start(t, as("flood"))
	send(t, p, "{}")
	wantMessage(t, p, "{}")
}
