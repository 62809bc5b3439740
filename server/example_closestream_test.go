package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// A long call that uses no connection while it works.
func ExampleCloseStream() {
	s := &server.Server{Name: "archive"}
	server.AddTool(s, mcp.Tool{Name: "restore", Description: "Fetch a file from tape"},
		func(ctx context.Context, in struct {
			File string `json:"file"`
		}) (string, error) {
			_ = server.Progress(ctx, 0, 1, "the tape is being mounted")
			if err := server.CloseStream(ctx, 10*time.Millisecond); err != nil &&
				!errors.Is(err, errors.ErrUnsupported) {
				return "", err
			}
			_ = server.Progress(ctx, 1, 1, "the file has been read") // stored until the client reconnects
			return in.File + " is restored", nil
		})

	endpoint := httptest.NewServer(s)
	defer endpoint.Close()
	ctx := context.Background()
	d := client.Dialer{Revision: mcp.V20251125}
	c, err := d.Dial(ctx, client.URL(endpoint.URL))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	text, err := client.CallTool[string](ctx, c, "restore", map[string]string{"file": "1999.tar"},
		client.WithProgress(func(_, _ float64, message string) { fmt.Println(message) }))
	fmt.Println(text, err)
	// Output:
	// the tape is being mounted
	// the file has been read
	// 1999.tar is restored <nil>
}
