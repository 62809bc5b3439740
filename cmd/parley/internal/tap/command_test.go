package tap

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/transport"
)

// The test binary is the server if the variable has the name of one.
func TestMain(m *testing.M) {
	if name := os.Getenv("TAP_SERVER"); name != "" {
		os.Exit(servers[name]())
	}
	os.Exit(m.Run())
}

// servers are the programs of the tests.
var servers = map[string]func() int{
	"echo": func() int {
		_, _ = io.Copy(os.Stdout, os.Stdin)
		return 0
	},
	"exit": func() int {
		fmt.Fprintln(os.Stderr, "failed")
		return 5
	},
	"signal": func() int {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("ready")
		<-signals
		return 6
	},
	"closed": func() int { // reads nothing, and writes until that fails
		signal.Ignore(syscall.SIGPIPE)
		os.Stdin.Close()
		for {
			if _, err := fmt.Println("more"); err != nil {
				return 7
			}
		}
	},
}

// events collects reported messages.
type events struct {
	mu   sync.Mutex
	list []string
}

func (e *events) add(event traffic.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if event.End {
		event.Message = []byte("end")
	}
	e.list = append(e.list, string(event.From)+" "+string(event.Message))
}

func (e *events) of(side traffic.Side) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(e.list), func(text string) bool {
		return !strings.HasPrefix(text, string(side))
	})
}

// closer is a Writer with a Close that does nothing.
type closer struct{ io.Writer }

func (closer) Close() error { return nil }

func TestEachLineIsForwardedAtOnceAndUnchanged(t *testing.T) {
	t.Setenv("TAP_SERVER", "echo")
	in, client := io.Pipe()
	answers, out := io.Pipe()
	reported := new(events)
	c := Command{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: out,
		Stderr: os.Stderr, Report: reported.add}
	ended := make(chan int, 1)
	go func() {
		code, err := c.Run()
		if err != nil {
			t.Error(err)
		}
		ended <- code
	}()
	long := strings.Repeat("x", 200_000)
	for _, lines := range []string{"{\"a\":1}\n", "\r\n", "\xff\n\n", long + "\n"} {
		go func() { _, _ = io.WriteString(client, lines) }()
		got := make([]byte, len(lines))
		if _, err := io.ReadFull(answers, got); err != nil || string(got) != lines {
			t.Fatalf("%.50q, %v, want %.50q", got, err, lines)
		}
	}
	go func() { // a line without an end
		_, _ = io.WriteString(client, "[]")
		client.Close()
	}()
	if rest, err := io.ReadAll(answers); err != nil || string(rest) != "[]" {
		t.Errorf("%q, %v", rest, err)
	}
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	for _, side := range []traffic.Side{traffic.Client, traffic.Server} {
		var want []string
		for _, line := range []string{`{"a":1}`, "\r", "\xff", long, "[]", "end"} {
			want = append(want, string(side)+" "+line)
		}
		if got := reported.of(side); !slices.Equal(got, want) {
			t.Errorf("reported %.300q", got)
		}
	}
}

func TestTheExitCodeAndStderrAreThoseOfTheServer(t *testing.T) {
	t.Setenv("TAP_SERVER", "exit")
	var stderr bytes.Buffer
	in, client := io.Pipe()
	defer client.Close()
	c := Command{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: closer{io.Discard},
		Stderr: &stderr, Report: new(events).add}
	if code, err := c.Run(); code != 5 || err != nil || stderr.String() != "failed\n" {
		t.Errorf("%d, %v, %q", code, err, stderr.String())
	}
	c.Server.Path = "no-such-program"
	if _, err := c.Run(); err == nil {
		t.Error("no error of a program that does not exist")
	}
}

func TestSignalsAreForwarded(t *testing.T) {
	for s, want := range map[os.Signal]int{syscall.SIGTERM: 6, syscall.SIGKILL: 137} {
		t.Setenv("TAP_SERVER", "signal")
		signals := make(chan os.Signal, 1)
		in, client := io.Pipe()
		answers, out := io.Pipe()
		c := Command{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: out,
			Stderr: os.Stderr, Signals: signals, Report: new(events).add}
		go func() {
			_, _ = io.ReadFull(answers, make([]byte, len("ready\n")))
			signals <- s
		}()
		if code, err := c.Run(); code != want || err != nil {
			t.Errorf("%v: exit code %d, %v, want %d", s, code, err, want)
		}
		client.Close()
	}
}

// Without a tap, the server's writes and the client's writes fail when the other side has gone.
func TestClosedStreamsAreClosedOnTheOtherSide(t *testing.T) {
	t.Setenv("TAP_SERVER", "closed")
	in, client := io.Pipe()
	answers, out := io.Pipe()
	c := Command{Server: transport.CommandOptions{Path: os.Args[0], InheritEnv: true}, In: in, Out: out,
		Stderr: os.Stderr, Report: new(events).add}
	ended := make(chan int, 1)
	go func() {
		code, _ := c.Run()
		ended <- code
	}()
	_, _ = io.ReadFull(answers, make([]byte, len("more\n")))
	for {
		if _, err := client.Write([]byte("x")); err != nil {
			break
		}
	}
	answers.Close()
	if code := <-ended; code != 7 {
		t.Errorf("exit code %d, want 7, after a failed write", code)
	}
}
