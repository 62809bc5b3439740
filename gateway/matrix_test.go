//lint:file-ignore SA1019 deprecated features must still work

package gateway_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/gatewaytest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// cell is a feature between a client and a server behind a gateway.
type cell struct {
	name string
	// Without are the revisions that do not have the feature, with the reason in the specification. If
	// one side has such a revision, use must fail, unless it would block.
	without map[mcp.Revision]string
	blocks  bool
	use     func(ctx context.Context, c *matrixClient, nonce string) error
}

// matrixClient is a client of the gateway. Its functions answer with nonces.
type matrixClient struct {
	*client.Client
	logs     chan string
	answered chan string
}

const (
	noForms = "elicitation is since 2025-06-18 (2025-06-18, changelog, Major changes 6)"
	noURLs  = "elicitation by URL is since 2025-11-25 (2025-11-25, changelog, Major changes 6)"
)

var noTasks = map[mcp.Revision]string{mcp.V20241105: tasksSince, mcp.V20250326: tasksSince, mcp.V20250618: tasksSince}

const tasksSince = "tasks are since 2025-11-25 (2025-11-25, changelog, Major changes 9)"

var cells = []cell{
	{"elicitation by form", map[mcp.Revision]string{mcp.V20241105: noForms, mcp.V20250326: noForms}, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		return c.wants(ctx, "form", nonce, "form "+nonce)
	}},
	{"elicitation by URL", map[mcp.Revision]string{mcp.V20241105: noURLs, mcp.V20250326: noURLs, mcp.V20250618: noURLs}, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		return c.wants(ctx, "url", nonce, "opened "+nonce)
	}},
	{"sampling", nil, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		return c.wants(ctx, "sample", nonce, "sampled "+nonce)
	}},
	{"roots", nil, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		return c.wants(ctx, "roots", nonce, "file:///"+nonce)
	}},
	{"questions of a prompt", map[mcp.Revision]string{mcp.V20241105: noForms, mcp.V20250326: noForms}, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		result, err := c.GetPrompt(ctx, "up__form", map[string]string{"Nonce": nonce})
		if err == nil && !strings.Contains(result.Messages[0].Content.(*mcp.TextContent).Text, nonce) {
			err = fmt.Errorf("the prompt is %q", result.Messages[0].Content)
		}
		return err
	}},
	{"tasks", noTasks, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		task, err := c.StartTool(ctx, "up__job", nonceOf{nonce})
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
	{"cancellation of tasks", noTasks, true, func(ctx context.Context, c *matrixClient, nonce string) error {
		task, err := c.StartTool(ctx, "up__cancel_task", nonceOf{nonce})
		if err != nil {
			return err
		}
		select {
		case <-begun(nonce):
		case <-ctx.Done():
			return errors.New("not begun")
		}
		if err := task.Cancel(ctx); err != nil {
			return err
		}
		select {
		case <-cancels(nonce):
			return nil
		case <-ctx.Done():
			return errors.New("the server is not notified")
		}
	}},
	{"tools that require tasks", map[mcp.Revision]string{mcp.V20241105: noForms, mcp.V20250326: noForms}, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		return c.wants(ctx, "job", nonce, "form "+nonce)
	}},
	{"progress", nil, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		var reported []string
		_, err := client.CallTool[string](ctx, c.Client, "up__progress", nonceOf{nonce}, client.WithProgress(func(done, total float64, message string) {
			reported = append(reported, fmt.Sprint(done, " of ", total))
		}))
		if want := []string{"1 of 2", "2 of 2"}; err == nil && !slices.Equal(reported, want) {
			err = fmt.Errorf("progress %v", reported)
		}
		return err
	}},
	{"cancellation", nil, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		cancelled, cancel := context.WithCancel(ctx)
		go func() {
			<-begun(nonce)
			cancel()
		}()
		if _, err := c.CallTool(cancelled, "up__cancel", nonceOf{nonce}); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("the call ends with %v", err)
		}
		select {
		case <-cancels(nonce):
			return nil
		case <-ctx.Done():
			return errors.New("the server is not notified")
		}
	}},
	{"logging", nil, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		if err := c.SetLogLevel(ctx, mcp.LevelDebug); err != nil {
			return err
		}
		if err := c.wants(ctx, "log", nonce, "logged"); err != nil {
			return err
		}
		select {
		case got := <-c.logs:
			if got != `up.tool debug {"message":"`+nonce+`"}` {
				return fmt.Errorf("received %s", got)
			}
			return nil
		case <-ctx.Done():
			return errors.New("no message")
		}
	}},
	{"list changes", nil, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		changed := false
		for change, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) {
			switch {
			case err != nil:
				return err
			case change.Resync && !changed:
				changed = true
				if err := c.wants(ctx, "add", nonce, "added"); err != nil {
					return err
				}
				continue
			}
			for tool, err := range c.Tools(ctx, client.WithRefresh()) {
				if err != nil {
					return err
				}
				if tool.Name == "up__"+nonce {
					return nil
				}
			}
		}
		return errors.New("the tool is not listed")
	}},
	{"resource updates", nil, false, func(ctx context.Context, c *matrixClient, nonce string) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		updates := 0
		for change, err := range c.Watch(ctx, client.WatchFilter{URIs: []string{"lib://a"}}) {
			if err != nil {
				return err
			}
			if updates++; !change.Resync && updates > 1 {
				return nil
			}
			// The gateway subscribes after the client.
			if err := c.wants(ctx, "update", nonce, "updated"); err != nil {
				return err
			}
		}
		return errors.New("no update")
	}},
}

// wants calls a tool with a nonce, and returns an error unless the text of its result is want.
func (c *matrixClient) wants(ctx context.Context, tool, nonce, want string) error {
	got, err := client.CallTool[string](ctx, c.Client, "up__"+tool, nonceOf{nonce})
	if err == nil && got != want {
		err = fmt.Errorf("the result of %s is %q, want %q", tool, got, want)
	}
	return err
}

type nonceOf struct{ Nonce string }

// text returns the text of the only content.
func text(content []mcp.Content) string { return content[0].(*mcp.TextContent).Text }

// matrixServer returns a server with a tool for each feature.
func matrixServer(r mcp.Revision) *server.Server {
	support := mcp.TaskRequired
	if noTasks[r] != "" {
		support = mcp.TaskForbidden
	}
	s := &server.Server{Name: "up", Logger: quiet}
	add := func(name string, handle func(ctx context.Context, nonce string) (string, error)) {
		server.AddTool(s, mcp.Tool{Name: name}, func(ctx context.Context, in nonceOf) (string, error) { return handle(ctx, in.Nonce) })
	}
	form := func(ctx context.Context, nonce string) (string, error) {
		answer, err := server.Elicit[struct{ Text string }](ctx, "form "+nonce)
		return answer.Text, err
	}
	add("form", form)
	add("url", func(ctx context.Context, nonce string) (string, error) {
		return "opened " + nonce, server.ElicitURL(ctx, "https://example.com/"+nonce, "open", nil)
	})
	add("sample", func(ctx context.Context, nonce string) (string, error) {
		answer, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{&mcp.TextContent{Text: nonce}}}}})
		if err != nil {
			return "", err
		}
		return text(answer.Content), nil
	})
	add("roots", func(ctx context.Context, nonce string) (string, error) {
		all, err := server.Roots(ctx)
		if err != nil {
			return "", err
		}
		return all[0].URI + nonce, nil
	})
	add("progress", func(ctx context.Context, nonce string) (string, error) {
		return "", errors.Join(server.Progress(ctx, 1, 2, ""), server.Progress(ctx, 2, 2, ""))
	})
	server.AddTool(s, mcp.Tool{Name: "job"}, func(ctx context.Context, in nonceOf) (string, error) { return form(ctx, in.Nonce) },
		server.AsTask(server.TaskOptions{Support: support, PollInterval: 100 * time.Millisecond}))
	untilCancelled := func(ctx context.Context, in nonceOf) (string, error) {
		begun(in.Nonce) <- struct{}{}
		<-ctx.Done()
		cancels(in.Nonce) <- struct{}{}
		return "", context.Cause(ctx)
	}
	server.AddTool(s, mcp.Tool{Name: "cancel"}, untilCancelled)
	server.AddTool(s, mcp.Tool{Name: "cancel_task"}, untilCancelled, server.AsTask(server.TaskOptions{PollInterval: 100 * time.Millisecond}))
	add("log", func(ctx context.Context, nonce string) (string, error) {
		server.Logger(ctx).WithGroup("tool").Debug(nonce)
		return "logged", nil
	})
	add("add", func(ctx context.Context, nonce string) (string, error) {
		return "added", s.RegisterTool(mcp.Tool{Name: nonce, InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, json.RawMessage) (*mcp.CallToolResult, error) {
			return nil, errors.New("unused")
		})
	})
	server.AddStatic(s, mcp.Resource{URI: "lib://a", Name: "a"}, "a")
	add("update", func(ctx context.Context, nonce string) (string, error) {
		s.ResourceUpdated("lib://a")
		return "updated", nil
	})
	server.AddPrompt(s, mcp.Prompt{Name: "form"}, func(ctx context.Context, in nonceOf) (string, error) { return form(ctx, in.Nonce) })
	return s
}

// matrixGateway returns the URL of a gateway to a server in a revision.
func matrixGateway(t *testing.T, r mcp.Revision) string {
	up := httptest.NewServer(matrixServer(r))
	t.Cleanup(up.Close)
	s := &server.Server{Name: "gateway"}
	h := &host.Host{Servers: []host.ServerConfig{{Name: "up", Target: client.URL(up.URL)}}, Dialer: client.Dialer{Revision: r}}
	gatewaytest.Run(t, h, s)
	return serveHTTP(t, s)
}

// serveHTTP serves s until the test ends.
func serveHTTP(t *testing.T, s *server.Server) string {
	down := httptest.NewServer(s)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = s.Shutdown(ctx)
		down.Close()
	})
	return down.URL
}

// asksOf is the beginning of the questions of a server to the user.
func asksOf(name string) string { return "The server \"" + name + "\" asks:\n\n> " }

// dialMatrix connects to a gateway in a revision.
func dialMatrix(t *testing.T, url string, r mcp.Revision) *matrixClient {
	c := &matrixClient{logs: make(chan string, 100), answered: make(chan string, 100)}
	d := client.Dialer{Revision: r, Logger: quiet}
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(struct{ Text string }{strings.TrimPrefix(form.Message, asksOf("up"))})
	}
	d.ElicitURL = func(_ context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	d.Sample = func(_ context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		return &mcp.CreateMessageResult{Model: "m", Role: mcp.RoleAssistant, Content: []mcp.Content{&mcp.TextContent{Text: "sampled " + text(params.Messages[0].Content)}}}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///"}}, nil }
	d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
		c.logs <- fmt.Sprintf("%s %s %s", m.Logger, m.Level, m.Data)
	}
	dialled, err := d.Dial(t.Context(), client.URL(url))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	c.Client = dialled
	return c
}

// Every feature works between a client of each revision and a server of each revision, over HTTP.
func TestEveryRevisionReachesEveryRevision(t *testing.T) {
	for _, theirs := range mcp.Revisions() {
		url := matrixGateway(t, theirs)
		for _, ours := range mcp.Revisions() {
			c := dialMatrix(t, url, ours)
			for _, cell := range cells {
				t.Run(fmt.Sprintf("client %s/server %s/%s", ours, theirs, cell.name), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
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
}
