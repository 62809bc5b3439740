package gatewaytest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/store"
)

// RunMatrix uses every feature with a client of each revision and a Server behind the gateway at url. The Server
// speaks the revision theirs and is named server; its handlers use bus.
func RunMatrix(t *testing.T, url, server string, theirs mcp.Revision, bus store.Bus) {
	signals := observe(t, bus)
	for _, ours := range mcp.Revisions() {
		c := Dial(t, url, server, ours)
		c.observer = signals
		for _, cell := range cells {
			t.Run(fmt.Sprintf("client %s/server %s/%s", ours, theirs, cell.name), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				reason := cell.without[ours] + cell.without[theirs]
				if reason != "" && cell.blocks {
					return
				}
				err := cell.use(ctx, c, "n-"+rand.Text())
				switch {
				case reason == "" && err != nil:
					t.Error(err)
				case reason != "" && err == nil:
					t.Errorf("the feature works, although %s", reason)
				case ctx.Err() != nil:
					t.Errorf("not finished in time: %v", err)
				}
			})
		}
	}
}

// Client is a client of a gateway. It answers a Server with the nonces of the questions.
type Client struct {
	*client.Client
	Server   string // name of the Server
	logs     chan string
	observer *observer
}

// Dial connects to a gateway in a revision, until the test ends.
func Dial(t *testing.T, url, server string, r mcp.Revision) *Client {
	t.Helper()
	c := &Client{Server: server, logs: make(chan string, 100)}
	d := client.Dialer{Revision: r, Logger: slog.New(slog.DiscardHandler)}
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(struct{ Text string }{strings.TrimPrefix(form.Message,
			fmt.Sprintf("The server %q asks:\n\n> ", server))})
	}
	d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant,
			Content: []mcp.Content{mcp.Text("sampled " + text(params.Messages[0].Content))}}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///"}}, nil }
	d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
		c.logs <- fmt.Sprintf("%s %s %s", m.Logger, m.Level, m.Data)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dialled, err := d.Dial(ctx, client.URL(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	c.Client = dialled
	return c
}

// named returns the name that the gateway gives to a tool or prompt.
func (c *Client) named(name string) string { return c.Server + "__" + name }

// Wants calls a tool with a nonce, and returns an error unless the text of its result is want.
func (c *Client) Wants(ctx context.Context, tool, nonce, want string) error {
	got, err := client.CallTool[string](ctx, c.Client, c.named(tool), nonceOf{nonce})
	if err == nil && got != want {
		err = fmt.Errorf("the result of %s is %q, want %q", tool, got, want)
	}
	return err
}
