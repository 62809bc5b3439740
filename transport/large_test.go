package transport_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/transport"
)

// Large messages are written without a copy, by their senders. Concurrent senders all succeed, also
// those that wait for space in the queue, and no message is split.
func TestLargeMessagesOfConcurrentSendersAreWhole(t *testing.T) {
	for _, kinds := range []int{1, 3} { // of messages: one kind in so many is large
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
				if err != nil {
					t.Error(err)
				}
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
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		var sender, i int
		if _, err := fmt.Sscanf(line, `"%d %d `, &sender, &i); err != nil || !strings.HasSuffix(line, "x\"\n") {
			t.Fatalf("%.40s: %v", line, err)
		}
		if next[sender] != i {
			t.Errorf("message %d of sender %d arrived instead of %d", i, sender, next[sender])
		}
		next[sender]++
	}
	_, _ = io.Copy(io.Discard, in)
}
