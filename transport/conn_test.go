package transport_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/transport"
)

// pairs are the implementations of connected Conns. Each limits messages to maxMessage.
var pairs = []struct {
	name string
	open func(t *testing.T) (a, b transport.Conn)
}{
	{"memory pipe", func(*testing.T) (a, b transport.Conn) { return transport.PipeLimits(maxMessage, maxMessage) }},
	{"TCP", func(t *testing.T) (a, b transport.Conn) { return dial(t, "tcp", "127.0.0.1:0") }},
	{"Unix socket", func(t *testing.T) (a, b transport.Conn) {
		dir := must.Get(os.MkdirTemp("", ""))(t)
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dial(t, "unix", dir+"/s")
	}},
	{"synchronous stream", func(*testing.T) (a, b transport.Conn) {
		x, y := net.Pipe()
		return stream(x), stream(y)
	}},
	{"system pipes", func(t *testing.T) (a, b transport.Conn) {
		r1, w1, err := os.Pipe()
		must.Do(t, err)
		r2, w2, err := os.Pipe()
		must.Do(t, err)
		return stream(duplex{r1, w2}), stream(duplex{r2, w1})
	}},
	{"stream without deadlines", func(*testing.T) (a, b transport.Conn) {
		r1, w1 := io.Pipe()
		r2, w2 := io.Pipe()
		return stream(duplex{r1, w2}), stream(duplex{r2, w1})
	}},
}

const maxMessage = 1 << 20

func stream(rwc io.ReadWriteCloser) transport.Conn {
	return transport.Stream(rwc, transport.StreamOptions{MaxMessage: maxMessage, MaxPending: 100_000,
		FlushTimeout: 500 * time.Millisecond})
}

type duplex struct {
	io.ReadCloser
	w io.WriteCloser
}

func (d duplex) Write(b []byte) (int, error) { return d.w.Write(b) }
func (d duplex) Close() error                { return errors.Join(d.w.Close(), d.ReadCloser.Close()) }

func dial(t *testing.T, network, addr string) (a, b transport.Conn) {
	l := must.Get(net.Listen(network, addr))(t)
	defer l.Close()
	x := must.Get(net.Dial(network, l.Addr().String()))(t)
	y := must.Get(l.Accept())(t)
	return stream(x), stream(y)
}

func onEveryPair(t *testing.T, test func(t *testing.T, a, b transport.Conn)) {
	for _, p := range pairs {
		t.Run(p.name, func(t *testing.T) {
			a, b := p.open(t)
			defer a.Close()
			defer b.Close()
			test(t, a, b)
		})
	}
}

func wantMessage(t *testing.T, c transport.Conn, want string) {
	t.Helper()
	must.Equal(t, string(must.Get(c.Read(timeoutContext(t)))(t)), want)
}

func send(t *testing.T, c transport.Conn, msg string) {
	t.Helper()
	must.Do(t, c.Write(timeoutContext(t), []byte(msg)), msg)
}

func TestMessagesArriveInOrderInBothDirections(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		for i := range 50 {
			send(t, a, fmt.Sprint("a", i))
			send(t, b, fmt.Sprint("b", i))
		}
		for i := range 50 {
			wantMessage(t, b, fmt.Sprint("a", i))
			wantMessage(t, a, fmt.Sprint("b", i))
		}
	})
}

func TestMessagesOfConcurrentWritersAreNotMixed(t *testing.T) {
	const writers, each = 64, 20
	message := func(w, i int) string { return fmt.Sprintf("%d %d %s", w, i, strings.Repeat("x", 40*w)) }
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		ctx := timeoutContext(t)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				for i := range each {
					if err := a.Write(ctx, []byte(message(w, i))); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		defer wg.Wait()
		var next [writers]int
		for range writers * each {
			msg := must.Get(b.Read(ctx))(t)
			w, _ := strconv.Atoi(strings.Fields(string(msg))[0])
			must.Equal(t, string(msg), message(w, next[w]))
			next[w]++
		}
	})
}

func TestWriteDoesNotRetainMessage(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		msg := []byte("before")
		must.Do(t, a.Write(timeoutContext(t), msg))
		copy(msg, "AFTER!")
		wantMessage(t, b, "before")
	})
}

func TestCallerOwnsResultOfRead(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		send(t, a, "first")
		first := must.Get(b.Read(timeoutContext(t)))(t)
		send(t, a, "other")
		wantMessage(t, b, "other")
		must.Equal(t, string(first), "first")
		must.Equal(t, string(append(first, "ly"...)), "firstly")
	})
}

func TestReadContinuesAfterMessageOverLimit(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		ctx := timeoutContext(t)
		at := strings.Repeat("x", maxMessage)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			for _, msg := range []string{at, at + "x", "next"} {
				must.Check(t, a.Write(ctx, []byte(msg)))
			}
		})
		wantMessage(t, b, at)
		msg, err := b.Read(ctx)
		var tooLarge *transport.MessageTooLargeError
		must.That(t, errors.As(err, &tooLarge) && tooLarge.Limit == maxMessage && msg == nil,
			"got %d bytes, %v, want a MessageTooLargeError", len(msg), err)
		wantMessage(t, b, "next")
	})
}

func TestWriteRejectsInvalidMessages(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		for _, msg := range []string{"", "\n", "{}\n", "{\n}", "{\r}", "{}\r"} {
			must.CheckIs(t, a.Write(timeoutContext(t), []byte(msg)), transport.ErrInvalidMessage, msg)
		}
		send(t, a, "{}")
		wantMessage(t, b, "{}")
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		for round := range 3 {
			ctx, cancel := context.WithCancelCause(context.Background())
			failed := make(chan error)
			go func() {
				_, err := b.Read(ctx)
				failed <- err
			}()
			cancel(errors.New("enough"))
			must.Is(t, <-failed, context.Canceled)
			must.Is(t, must.Err(b.Read(ctx)), context.Canceled, "second Read")
			// No message is lost, and a Read with another context works.
			send(t, a, fmt.Sprint("message ", round))
			wantMessage(t, b, fmt.Sprint("message ", round))
		}
		short, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		must.Is(t, must.Err(b.Read(short)), context.DeadlineExceeded)
	})
}

func TestCancelledReadKeepsPartialMessage(t *testing.T) {
	x, y := net.Pipe()
	conn := stream(x)
	defer conn.Close()
	defer y.Close()
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := conn.Read(ctx)
		failed <- err
	}()
	y.Write([]byte("first ha")) // returns when conn has read it
	cancel()
	must.Is(t, <-failed, context.Canceled)
	go y.Write([]byte("lf\n"))
	wantMessage(t, conn, "first half")
}

func TestCloseEndsReadAndWriteOfPeer(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		send(t, a, "last message")
		closed := make(chan error)
		go func() { closed <- a.Close() }()
		wantMessage(t, b, "last message")
		for range 2 {
			msg, err := b.Read(timeoutContext(t))
			must.That(t, err == io.EOF, "Read = %q, %v, want io.EOF", msg, err)
		}
		must.Do(t, <-closed)
		// The system may accept some messages before it reports that the peer has closed the connection.
		var err error
		for deadline := time.Now().Add(testTimeout); err == nil && time.Now().Before(deadline); {
			err = b.Write(timeoutContext(t), []byte("hello?"))
		}
		var failed *transport.WriteError
		must.That(t, errors.As(err, &failed), "Write: %v, want a WriteError", err)
		if again := b.Write(timeoutContext(t), []byte("hello?")); again == nil || again.Error() != err.Error() {
			t.Fatalf("the second Write returns %v, want the same error as the first, %v", again, err)
		}
	})
}

func TestCloseEndsWaitingReadersAndWriters(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		failed := make(chan error)
		for range 3 { // the peer never reads, so each writer eventually waits
			go func() {
				for {
					if err := a.Write(context.Background(), bytes.Repeat([]byte("x"), 10_000)); err != nil {
						failed <- err
						return
					}
				}
			}()
		}
		for range 2 {
			go func() {
				_, err := a.Read(context.Background())
				failed <- err
			}()
		}
		send(t, b, "one of the readers gets this")
		must.Do(t, <-failed)
		var closers sync.WaitGroup
		for range 3 {
			closers.Go(func() { a.Close() })
		}
		closers.Wait()
		for range 4 {
			must.CheckIs(t, <-failed, transport.ErrClosed)
		}
		must.CheckIs(t, a.Write(timeoutContext(t), []byte("x")), transport.ErrClosed)
		must.CheckIs(t, must.Err(a.Read(timeoutContext(t))), transport.ErrClosed, "Read after Close")
	})
}

func TestWriteWaitsWhileQueueIsFull(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		sent := 0
		msg := strings.Repeat("x", 10_000)
		var err error
		for ; err == nil; sent++ {
			must.That(t, sent <= 10_000, "100 MB were queued")
			err = a.Write(ctx, []byte(msg))
		}
		sent-- // the last one failed
		must.Is(t, err, context.DeadlineExceeded)
		// Exactly the accepted messages arrive.
		for range sent {
			wantMessage(t, b, msg)
		}
		send(t, a, "next")
		wantMessage(t, b, "next")
	})
}

func TestWriteWithCancelledContextSendsNothing(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, b transport.Conn) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		must.Is(t, a.Write(ctx, []byte("unwanted")), context.Canceled)
		send(t, a, "wanted")
		wantMessage(t, b, "wanted")
	})
}

// shortWriter writes less than it should and reports no error, which io.Writer forbids.
type shortWriter struct{ io.WriteCloser }

func (w shortWriter) Write(b []byte) (int, error) { return w.WriteCloser.Write(b[:len(b)-1]) }

// Otherwise, the next message would be appended to the part of a message that was written.
func TestStreamThatWritesLessIsBroken(t *testing.T) {
	for name, size := range map[string]int{"queued": 10, "direct": 100_000} {
		r, w := io.Pipe()
		go func() { _, _ = io.Copy(io.Discard, r) }()
		c := stream(duplex{r, shortWriter{w}}).(interface {
			transport.Conn
			WriteBuffered(ctx context.Context, msg []byte) error
			Flush()
		})
		ctx := timeoutContext(t)
		err := c.WriteBuffered(ctx, make([]byte, size))
		if name == "queued" { // a later message gets the error
			for c.Flush(); err == nil; {
				err = c.Write(ctx, []byte("{}"))
			}
		}
		must.CheckThat(t, errors.As(err, new(*transport.WriteError)) && errors.Is(err, io.ErrShortWrite),
			"%s: %v", name, err)
		c.Close()
	}
}

func TestCloseOfStalledStreamHasTimeLimit(t *testing.T) {
	onEveryPair(t, func(t *testing.T, a, _ transport.Conn) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		for a.Write(ctx, make([]byte, 10_000)) == nil {
		}
		start := time.Now()
		a.Close()
		took := time.Since(start)
		must.That(t, took <= 10*time.Second, "Close took %v", took)
	})
}

// Large messages are written without a copy, by their senders. Concurrent senders all succeed, even
// if they wait for space in the queue, and no message is split.
func TestLargeMessagesOfConcurrentSendersAreWhole(t *testing.T) {
	for _, kinds := range []int{1, 3} { // number of kinds of messages, one of which is large
		t.Run(fmt.Sprint(kinds), func(t *testing.T) { sendConcurrently(t, kinds) })
	}
}

func sendConcurrently(t *testing.T, kinds int) {
	in, out := io.Pipe()
	conn := transport.Stream(struct {
		io.Reader
		io.WriteCloser
	}{strings.NewReader(""), out}, transport.StreamOptions{MaxPending: 100 << 10})
	buffered := conn.(interface {
		WriteBuffered(ctx context.Context, msg []byte) error
		Flush()
	})
	const senders, each = 8, 20
	var sending sync.WaitGroup
	for sender := range senders {
		sending.Go(func() {
			for i := range each {
				size := 10
				if i%kinds == sender%kinds {
					size = 70 << 10
				}
				msg := fmt.Appendf(nil, `"%d %d %s"`, sender, i, strings.Repeat("x", size))
				var err error
				if i%2 == 0 && kinds > 1 {
					err = conn.Write(t.Context(), msg)
				} else if err = buffered.WriteBuffered(t.Context(), msg); sender%2 == 0 {
					buffered.Flush()
				}
				must.Check(t, err)
			}
			buffered.Flush()
		})
	}
	go func() {
		sending.Wait()
		conn.Close()
	}()
	next := make(map[int]int)
	lines := bufio.NewReader(in)
	for range senders * each {
		line := must.Get(lines.ReadString('\n'))(t)
		var sender, i int
		must.Do(t, must.Err(fmt.Sscanf(line, `"%d %d `, &sender, &i)))
		must.That(t, strings.HasSuffix(line, "x\"\n"), "%.40s", line)
		must.CheckEqual(t, next[sender], i, sender)
		next[sender]++
	}
	_, _ = io.Copy(io.Discard, in)
}

func TestWriteDoesNotAllocate(t *testing.T) {
	conn := transport.StreamOf(readOnly{stuck{}}, io.Discard, func() error { return nil })
	defer conn.Close()
	ctx := timeoutContext(t)
	must.Equal(t, testing.AllocsPerRun(1000, func() { must.Do(t, conn.Write(ctx, callMessage)) }), 0, "Write allocates")
}

func TestPipeAllocatesOncePerMessage(t *testing.T) {
	a, b := transport.Pipe()
	defer a.Close()
	defer b.Close()
	ctx := timeoutContext(t)
	if n := testing.AllocsPerRun(1000, func() {
		must.Do(t, a.Write(ctx, callMessage))
		must.Get(b.Read(ctx))(t)
	}); n > 1 {
		t.Fatalf("a message allocates %v times", n)
	}
}
