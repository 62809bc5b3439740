//go:build integration && unix

package faults

import (
	"context"
	"errors"
	"net/url"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/parley-mcp/parley/internal/ledger"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
	"github.com/parley-mcp/parley/store/redisstore"
)

// replica is the program under test.
type replica struct {
	settings
	server  *server.Server
	db      redisstore.Store
	journal *ledger.Journal
}

// arguments contains the arguments of every tool.
type arguments struct {
	// Nonce identifies the call in the ledger. Every tool returns it.
	Nonce string `json:"nonce"`
	// Steps is the number of progress notifications.
	Steps int `json:"steps,omitempty"`
	// Pause is the time before each step, in milliseconds.
	Pause int `json:"pause,omitempty"`
	// Name is the name of a gate or a list entry, or another nonce.
	Name string `json:"name,omitempty"`
}

// form is what users are asked for.
type form struct {
	User string `json:"user"`
}

// Keys that the tests themselves use in the store.
const (
	gatePrefix   = "test/gate/"   // tasks wait until the key exists
	fatePrefix   = "test/fate/"   // what became of a call of the tool wait
	entriesTopic = "test/entries" // names of tools that all replicas add
	testTTL      = 24 * time.Hour
)

// offer adds everything that the tests use.
func (r *replica) offer(ctx context.Context) {
	tool := func(name string, handle func(context.Context, arguments) (string, error), options ...server.Option) {
		server.AddTool(r.server, mcp.Tool{Name: name, Description: "A tool of the fault tests"}, handle, options...)
	}
	tool("echo", r.started(echo))
	tool("steps", r.started(steps))
	tool("wait", r.started(r.wait))
	tool("fate", r.fate)
	tool("replica", func(context.Context, arguments) (string, error) { return r.Name, nil })
	server.AddTool(r.server, mcp.Tool{Name: "usage", Description: "A tool of the fault tests"}, measure)

	tool("goroutines", func(context.Context, arguments) (string, error) {
		var text strings.Builder
		err := pprof.Lookup("goroutine").WriteTo(&text, 1)
		return text.String(), err
	})

	asks := map[string]func(context.Context, arguments) (string, error){"elicit": elicit, "sample": sample,
		"roots": roots}
	for name, ask := range asks {
		tool(name, r.startedOnce(ask))
		tool(name+"-parked", r.started(ask), server.Parked())
	}

	fast := server.TaskOptions{PollInterval: 200 * time.Millisecond}
	replayed := fast
	replayed.Replay = true
	tool("job", r.started(r.job), server.AsTask(fast))
	tool("job-replayed", r.started(r.job), server.AsTask(replayed))
	tool("job-asking", r.startedOnce(elicit), server.AsTask(replayed))

	tool("log", r.started(func(ctx context.Context, in arguments) (string, error) {
		server.Logger(ctx).Info(in.Nonce)
		return in.Nonce, nil
	}))
	tool("update", r.started(func(_ context.Context, in arguments) (string, error) {
		r.server.ResourceUpdated(in.Name)
		return in.Nonce, nil
	}))
	tool("add", r.started(func(ctx context.Context, in arguments) (string, error) {
		return in.Nonce, r.db.Publish(ctx, entriesTopic, []byte(in.Name))
	}))
	go r.addEntries(ctx, tool)

	type name struct {
		Name string `json:"name"`
	}
	server.AddTemplate(r.server, mcp.ResourceTemplate{Name: "note", URITemplate: "test:///{name}"},
		func(_ context.Context, in name) (string, error) {
			return "note of " + in.Name, nil
		})
	server.AddStatic(r.server, mcp.Resource{Name: "static", URI: "test:///static"}, "static")
	server.AddPrompt(r.server, mcp.Prompt{Name: "greet"},
		func(_ context.Context, in name) (string, error) { return "Greet " + in.Name, nil },
		server.CompleteFrom("name", "Ada", "Bob"))
}

// addEntries adds the tools whose names the tool add has published.
func (r *replica) addEntries(ctx context.Context, add func(string, func(context.Context, arguments) (string, error),
	...server.Option)) {
	entries, err := r.db.Subscribe(ctx, entriesTopic, 16)
	if err != nil {
		return
	}
	defer entries.Close()
	for {
		select {
		case m, open := <-entries.C:
			if !open {
				return
			}
			if !m.Lost {
				add(string(m.Data), r.started(echo))
			}
		case <-ctx.Done():
			return
		}
	}
}

// started records the start of a handler.
func (r *replica) started(handle func(context.Context, arguments) (string, error)) func(context.Context,
	arguments) (string, error) {
	return func(ctx context.Context, in arguments) (string, error) {
		if err := r.journal.Started(server.PrincipalOf(ctx).Subject(), in.Nonce); err != nil {
			return "", err
		}
		return handle(ctx, in)
	}
}

// startedOnce records the first start of a handler that runs again with each answer.
func (r *replica) startedOnce(handle func(context.Context, arguments) (string, error)) func(context.Context,
	arguments) (string, error) {
	return func(ctx context.Context, in arguments) (string, error) {
		_, err := server.Once(ctx, "start", func(ctx context.Context, _ string) (bool, error) {
			return true, r.journal.Started(server.PrincipalOf(ctx).Subject(), in.Nonce)
		})
		if err != nil {
			return "", err
		}
		return handle(ctx, in)
	}
}

// recordsOnce reports whether startedOnce records the start of a tool's handler.
func recordsOnce(tool string) bool {
	return tool == "elicit" || tool == "sample" || tool == "roots" || tool == "job-asking"
}

func echo(_ context.Context, in arguments) (string, error) { return in.Nonce, nil }

// steps reports progress, with the nonce as the message.
func steps(ctx context.Context, in arguments) (string, error) {
	ticker := time.NewTicker(max(time.Duration(in.Pause)*time.Millisecond, time.Millisecond))
	defer ticker.Stop()
	for i := range in.Steps {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
		if err := server.Progress(ctx, float64(i+1), float64(in.Steps), in.Nonce); err != nil {
			return "", err
		}
	}
	return in.Nonce, nil
}

// wait reports progress and waits for its cancellation, for as long as a call may take: a cancellation may be lost with
// Redis. The tool fate tells what became of the call.
func (r *replica) wait(ctx context.Context, in arguments) (string, error) {
	put := func(fate string) error {
		_, err := r.db.Put(context.WithoutCancel(ctx), fatePrefix+in.Nonce, []byte(fate),
			store.PutOptions{TTL: testTTL})
		return err
	}
	// The client may cancel the call once it has started, so the progress comes first.
	if err := errors.Join(server.Progress(ctx, 0, 0, in.Nonce), put("started")); err != nil {
		return "", err
	}
	late := time.NewTimer(callTime)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return "", errors.Join(context.Cause(ctx), put("cancelled"))
	case <-late.C:
		return "", errors.New("the call was not cancelled")
	}
}

func (r *replica) fate(ctx context.Context, in arguments) (string, error) {
	item, err := r.db.Get(ctx, fatePrefix+in.Name)
	return string(item.Value), err
}

// job waits until its gate opens.
func (r *replica) job(ctx context.Context, in arguments) (string, error) {
	poll := time.NewTicker(time.Second)
	defer poll.Stop()
	for {
		switch _, err := r.db.Get(ctx, gatePrefix+in.Name); {
		case err == nil:
			return in.Nonce, nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
}

// The tools that ask return the nonce and the answer, which names the user. Questions contain the nonce.

func elicit(ctx context.Context, in arguments) (string, error) {
	answer, err := server.Elicit[form](ctx, in.Nonce, server.Keyed("user"))
	return in.Nonce + " " + answer.User, err
}

func sample(ctx context.Context, in arguments) (string, error) {
	answer, err := server.Sample(ctx, mcp.CreateMessageParams{
		MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: "user", Content: []mcp.Content{mcp.Text(in.Nonce)}}},
	}, server.Keyed("sample"))
	if err != nil {
		return "", err
	}
	text, _ := answer.Content[0].(*mcp.TextContent)
	return in.Nonce + " " + text.Text, nil
}

func roots(ctx context.Context, in arguments) (string, error) {
	answer, err := server.Roots(ctx, server.Keyed("roots"))
	if err != nil {
		return "", err
	}
	u, err := url.Parse(answer[0].URI)
	if err != nil {
		return "", err
	}
	return in.Nonce + " " + strings.TrimPrefix(u.Path, "/"), nil
}
