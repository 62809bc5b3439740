package gatewaytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// cell is a feature between a client and a server behind a gateway.
type cell struct {
	name string
	// Without lists the revisions without the feature, with the reason from the specification. If one
	// side uses such a revision, use must fail, unless it would block.
	without map[mcp.Revision]string
	blocks  bool
	use     func(ctx context.Context, c *Client, nonce string) error
}

const (
	noForms = "elicitation is since 2025-06-18 (2025-06-18, changelog, Major changes 6)"
	noURLs  = "elicitation by URL is since 2025-11-25 (2025-11-25, changelog, Major changes 6)"
)

var noTasks = map[mcp.Revision]string{mcp.V20241105: tasksSince, mcp.V20250326: tasksSince, mcp.V20250618: tasksSince}

const tasksSince = "tasks are since 2025-11-25 (2025-11-25, changelog, Major changes 9)"

var cells = []cell{
	{"elicitation by form", map[mcp.Revision]string{mcp.V20241105: noForms, mcp.V20250326: noForms}, false,
		func(ctx context.Context, c *Client, nonce string) error {
			return c.Wants(ctx, "form", nonce, "form "+nonce)
		}},
	{"elicitation by URL", map[mcp.Revision]string{mcp.V20241105: noURLs, mcp.V20250326: noURLs, mcp.V20250618: noURLs},
		false, func(ctx context.Context, c *Client, nonce string) error {
			return c.Wants(ctx, "url", nonce, "opened "+nonce)
		}},
	{"sampling", nil, false, func(ctx context.Context, c *Client, nonce string) error {
		return c.Wants(ctx, "sample", nonce, "sampled "+nonce)
	}},
	{"roots", nil, false, func(ctx context.Context, c *Client, nonce string) error {
		return c.Wants(ctx, "roots", nonce, "file:///"+nonce)
	}},
	{"questions of a prompt", map[mcp.Revision]string{mcp.V20241105: noForms, mcp.V20250326: noForms}, false,
		func(ctx context.Context, c *Client, nonce string) error {
			result, err := c.GetPrompt(ctx, c.named("form"), map[string]string{"Nonce": nonce})
			if err == nil && !strings.Contains(result.Messages[0].Content.(*mcp.TextContent).Text, nonce) {
				err = fmt.Errorf("the prompt is %q", result.Messages[0].Content)
			}
			return err
		}},
	{"tasks", noTasks, false, func(ctx context.Context, c *Client, nonce string) error {
		task, err := c.StartTool(ctx, c.named("job"), nonceOf{nonce})
		if err != nil {
			return err
		}
		result, err := task.Wait(ctx)
		switch {
		case err != nil:
			return err
		case result.IsError || text(result.Content) != "form "+nonce:
			return fmt.Errorf("the result is %q", text(result.Content))
		case task.ID() == "":
			return errors.New("the call is not a task")
		}
		return nil
	}},
	{"progress and cancellation of tasks", noTasks, true, func(ctx context.Context, c *Client, nonce string) error {
		waiting, stop := context.WithCancel(ctx)
		defer stop()
		task, err := c.StartTool(ctx, c.named("cancel_task"), nonceOf{nonce},
			client.WithProgress(func(_, _ float64, message string) {
				if message == "begun "+nonce {
					stop()
				}
			}))
		if err != nil {
			return err
		}
		if result, err := task.Wait(waiting); ctx.Err() != nil || waiting.Err() == nil {
			return fmt.Errorf("no progress until the wait ends with %+v, %v", result, err)
		}
		if err := task.Cancel(ctx); err != nil {
			return err
		}
		return c.observer.await(ctx, cancelled, nonce)
	}},
	{"tools that require tasks", map[mcp.Revision]string{mcp.V20241105: noForms, mcp.V20250326: noForms}, false,
		func(ctx context.Context, c *Client, nonce string) error {
			return c.Wants(ctx, "job", nonce, "form "+nonce)
		}},
	{"progress", nil, false, func(ctx context.Context, c *Client, nonce string) error {
		var reported []string
		_, err := client.CallTool[string](ctx, c.Client, c.named("progress"), nonceOf{nonce},
			client.WithProgress(func(done, total float64, message string) {
				reported = append(reported, fmt.Sprint(done, " of ", total))
			}))
		if want := []string{"1 of 2", "2 of 2"}; err == nil && !slices.Equal(reported, want) {
			err = fmt.Errorf("progress %v", reported)
		}
		return err
	}},
	{"cancellation", nil, false, func(ctx context.Context, c *Client, nonce string) error {
		calling, cancel := context.WithCancel(ctx)
		go func() {
			_ = c.observer.await(ctx, begun, nonce)
			cancel()
		}()
		if _, err := c.CallTool(calling, c.named("cancel"), nonceOf{nonce}); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the call ends with %v", err)
		}
		return c.observer.await(ctx, cancelled, nonce)
	}},
	{"logging", nil, false, func(ctx context.Context, c *Client, nonce string) error {
		if err := c.SetLogLevel(ctx, mcp.LevelDebug); err != nil {
			return err
		}
		if err := c.Wants(ctx, "log", nonce, "logged"); err != nil {
			return err
		}
		select {
		case got := <-c.logs:
			if got != c.Server+`.tool debug {"message":"`+nonce+`"}` {
				return fmt.Errorf("received %s", got)
			}
			return nil
		case <-ctx.Done():
			return errors.New("no message")
		}
	}},
	{"list changes", nil, false, func(ctx context.Context, c *Client, nonce string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		changed := false
		for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
			switch {
			case err != nil:
				return err
			case change.Resync && !changed:
				changed = true
				if err := c.Wants(ctx, "add", nonce, "added"); err != nil {
					return err
				}
				continue
			}
			for tool, err := range c.Tools(ctx, client.WithRefresh()) {
				if err != nil {
					return err
				}
				if tool.Name == c.named(nonce) {
					return nil
				}
			}
		}
		return errors.New("the tool is not listed")
	}},
	{"resource updates", nil, false, func(ctx context.Context, c *Client, nonce string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		updates := 0
		for change, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{resourceURI}}) {
			if err != nil {
				return err
			}
			if updates++; !change.Resync && updates > 1 {
				return nil
			}
			// The gateway subscribes after the client.
			if err := c.Wants(ctx, "update", nonce, "updated"); err != nil {
				return err
			}
		}
		return errors.New("no update")
	}},
}
