package httpclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/mcp"
)

// A server that does not end the body after a response delays the client only briefly.
func TestBodyWithoutEndDoesNotBlockTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch methodOf(body) {
			case mcp.MethodListTools:
				writeEvents(w, "data: "+resultOf(body)+"\n\n")
			case mcp.MethodInitialize:
				handshake(w, r, body)
				return
			case mcp.MethodPing:
				w.WriteHeader(http.StatusBadRequest)
				w.(http.Flusher).Flush()
			default: // notifications/initialized, GET, DELETE
				writeEvents(w, ": nothing\n\n")
			}
			<-done
		})
		o := p.options(t)
		begun := time.Now()
		took := func(what string, most time.Duration) {
			t.Helper()
			if d := time.Since(begun); d > most {
				t.Errorf("%s took %v", what, d)
			}
			begun = time.Now()
		}
		c := newLegacy(t, o)
		took("the handshake", 50*time.Millisecond)
		if _, err := list(t.Context(), c); err != nil {
			t.Error(err)
		}
		took("a call", 50*time.Millisecond)
		if _, err := c.call(t.Context(), &outbound.Request{Method: mcp.MethodPing}); err == nil {
			t.Error("no error")
		}
		took("an error", errorBodyTimeout)
		c.Close()
		took("Close", 50*time.Millisecond)
		close(done)
	})
}

func TestCloseEndsCallsAndTheSession(t *testing.T) {
	begun := make(chan struct{}, 16)
	p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
		if !handshake(w, r, body) && !noStream(w, r) {
			begun <- struct{}{}
			<-r.Context().Done()
		}
	})
	c := newLegacy(t, p.options(t))
	failed := make(chan error)
	for i := range 8 {
		go func() {
			req := &outbound.Request{Method: mcp.MethodListTools}
			if i%2 == 0 {
				req.OnProgress = func(outbound.Progress) {}
			}
			_, err := c.call(context.Background(), req)
			failed <- err
		}()
	}
	for range 8 {
		<-begun
	}
	var closing sync.WaitGroup
	for range 4 {
		closing.Go(func() { c.Close() })
	}
	for range 8 {
		if err := <-failed; !errors.Is(err, call.ErrClosed) {
			t.Errorf("%v", err)
		}
	}
	closing.Wait()
	c.Close()
	if err := c.Send(t.Context(), &outbound.Outgoing{Message: []byte("{}")}); !errors.Is(err, call.ErrClosed) || !errors.Is(err, call.ErrNotSent) {
		t.Errorf("after Close: %v", err)
	}
	deleted := 0
	for _, line := range p.asked() {
		if line == "DELETE /mcp" {
			deleted++
		}
		if strings.Contains(line, "cancelled") {
			t.Errorf("%s: the end of the session cancels", line)
		}
	}
	if deleted != 1 {
		t.Errorf("%d times DELETE", deleted)
	}
}

// Close returns within a bounded time, whatever the server does.
func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case r.Method == http.MethodGet:
				writeEvents(w, ": nothing\n\n")
				<-r.Context().Done()
			case r.Method == http.MethodDelete || !handshake(w, r, body):
				<-r.Context().Done()
			}
		})
		c := newLegacy(t, p.options(t))
		go func() { _, _ = list(context.Background(), c) }()
		synctest.Wait()
		begun := time.Now()
		c.Close()
		if took := time.Since(begun); took > endSessionTimeout {
			t.Errorf("%v", took)
		}
	})
}

// Close of a client of 2026-07-28 ends the streams of its requests at once, although the server does not.
func TestCloseDoesNotWaitForOpenStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeer(t, func(w http.ResponseWriter, r *http.Request, body string) {
			writeEvents(w, ": nothing\n\n")
			<-r.Context().Done()
		})
		c := newModern(t, p.options(t))
		ended := make(chan error)
		for _, method := range []string{mcp.MethodListTools, mcp.MethodListen} {
			go func() {
				_, err := c.call(context.Background(), &outbound.Request{Method: method})
				ended <- err
			}()
		}
		synctest.Wait()
		begun := time.Now()
		c.Close()
		for range 2 {
			if err := <-ended; !errors.Is(err, call.ErrClosed) {
				t.Errorf("%v", err)
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("%v", took)
		}
	})
}

// A response of 700 MB is rejected before it is in memory.
func TestResponseSizeIsLimited(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter, chunk []byte){
		"a body": func(w http.ResponseWriter, chunk []byte) {
			w.Header().Set("Content-Type", "application/json")
			for range 700 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
		"an event": func(w http.ResponseWriter, chunk []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: ")
			for range 700 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		},
	} {
		sent := make(chan int, 1)
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		p := newPeer(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
			counting := &counter{ResponseWriter: w}
			write(counting, chunk)
			sent <- counting.n
		})
		if _, err := list(t.Context(), newModern(t, p.options(t))); !errors.Is(err, call.ErrInvalidResponse) {
			t.Errorf("%s: %v", name, err)
		}
		if n := <-sent; n > 8<<20 {
			t.Errorf("%s: %d bytes were taken", name, n)
		}
	}
}

type counter struct {
	http.ResponseWriter
	n int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += n
	return n, err
}
