package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// addStreams adds the tool that disconnects its client while it works. The stream of a session can be resumed, so
// anything between server and client may end the connection; here it is closable.
func addStreams(s *server.Server) {
	server.AddTool(s, mcp.Tool{Name: "test_reconnection",
		Description: "Closes its connection and returns a result to the reconnected client."},
		func(ctx context.Context, _ none) (string, error) {
			server.Logger(ctx).Info("The connection closes now.")
			response, ok := ctx.Value(responseKey{}).(*closableResponse)
			if ok && call.From(ctx).Revision() == mcp.V20251125 {
				if err := response.close(ctx, 500*time.Millisecond); err != nil {
					return "", err
				}
			}
			if err := work(ctx, 100*time.Millisecond); err != nil {
				return "", err
			}
			return "The client has reconnected.", nil
		})
}

// closable is HTTP middleware that lets a handler of a tool close the response to its request.
func closable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		response := &closableResponse{ResponseWriter: w, cancel: cancel, begun: make(chan struct{})}
		next.ServeHTTP(response, r.WithContext(context.WithValue(ctx, responseKey{}, response)))
	})
}

type responseKey struct{}

type closableResponse struct {
	http.ResponseWriter
	cancel context.CancelFunc // ends the request as if the client had disconnected
	begin  sync.Once
	begun  chan struct{} // closed by the first Write
	mu     sync.Mutex    // held while something is written
}

func (c *closableResponse) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *closableResponse) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begin.Do(func() { close(c.begun) })
	return c.ResponseWriter.Write(p)
}

// FlushError implements what [http.ResponseController] calls.
func (c *closableResponse) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return http.NewResponseController(c.ResponseWriter).Flush()
}

// close waits for the first event, asks the client to reconnect after retry, and ends the response (2025-11-25,
// basic/transports, Sending Messages to the Server).
func (c *closableResponse) close(ctx context.Context, retry time.Duration) error {
	select {
	case <-c.begun:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.cancel()
	if _, err := fmt.Fprintf(c.ResponseWriter, "retry: %d\n\n", retry.Milliseconds()); err != nil {
		return err
	}
	connection := http.NewResponseController(c.ResponseWriter)
	if err := connection.Flush(); err != nil {
		return err
	}
	conn, _, err := connection.Hijack()
	if err != nil {
		return err
	}
	_, err = io.WriteString(conn, "0\r\n\r\n") // the last chunk
	return errors.Join(err, conn.Close())
}
