package completion

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/credstore"
	"github.com/parley-mcp/parley/cmd/parley/internal/dialing"
	"github.com/parley-mcp/parley/cmd/parley/internal/listing"
	"github.com/parley-mcp/parley/mcp"
)

// Times of completion.
const (
	listsTimeout  = 2 * time.Second // for a server whose lists are unknown
	valuesTimeout = time.Second     // for completion/complete

	retryAfter  = time.Minute            // after a failure
	maxListsAge = time.Hour              // of the lists of a server at a URL
	endTimeout  = 100 * time.Millisecond // for a program that was started for completion
)

// usedURLs returns the URLs of servers in the cache.
func usedURLs() []string {
	cache, err := listing.OpenCache()
	if err != nil {
		return nil
	}
	return cache.URLs()
}

type patienceKey struct{}

// WithPatience returns a context in which completion waits longer than it does for a user, for tests on slow machines.
func WithPatience(ctx context.Context, limit time.Duration) context.Context {
	return context.WithValue(ctx, patienceKey{}, limit)
}

// within runs f until a time-out, after which the program ends at once: a shell waits for it.
func (c *completing) within(limit time.Duration, f func(ctx context.Context)) {
	if patience, ok := c.ctx.Value(patienceKey{}).(time.Duration); ok {
		limit = patience
	}
	ctx, cancel := context.WithTimeout(c.ctx, limit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// lists returns the entries of some lists of the server that is the first argument, or of the shell. It connects to the
// server only if they are not known, or if the server is at a URL and they are old.
func (c *completing) lists(names ...string) (entries []listing.Entry) {
	all := c.names()
	for _, name := range names {
		entries = append(entries, all.Lists[name]...)
	}
	return entries
}

func (c *completing) names() *listing.Names {
	if of := dialing.ShellOf(c.cmd); of != nil {
		return of.Names(c.ctx)
	}
	s, _ := c.server()
	if s == nil {
		return new(listing.Names)
	}
	return &s.Names
}

// server returns what the cache has of the server that is the first argument, or nil.
func (c *completing) server() (s *listing.Cached, atURL bool) {
	cache, err := listing.OpenCache()
	if err != nil || c.dial == nil {
		return nil, false
	}
	key, shown, atURL := c.dial.CacheKey(c.args[0])
	if key == "" {
		return nil, false
	}
	s = cache.Get(key)
	switch {
	case s != nil && s.Failed && cache.Age(s.Time) < retryAfter,
		s != nil && s.Lists != nil && (!atURL || cache.Age(s.Time) < maxListsAge):
		return s, atURL
	case !c.mayConnect(s):
		return s, atURL
	}
	c.within(listsTimeout, func(ctx context.Context) {
		client, err := c.connect(ctx)
		if err != nil {
			_ = cache.Update(key, cache.SetFailed)
			return
		}
		defer dialing.CloseQuietly(client)
		if listed, _ := listing.All(ctx, client); listed != nil {
			lists := listed.Names()
			lists.Completes = client.Server().Capabilities.Completions != nil
			_ = cache.Update(key, cache.SetNames(shown, lists))
		}
	})
	if now := cache.Get(key); now != nil {
		return now, atURL
	}
	_ = cache.Update(key, cache.SetFailed) // the time is over
	return nil, atURL
}

// mayConnect reports whether completion can start or connect to the server that is the first argument. s is its entry
// in the cache. A file that --config names can be of a project, which anyone may have written: the user must have used
// this server of it before.
func (c *completing) mayConnect(s *listing.Cached) bool {
	return dialing.IsURL(c.args[0]) || len(c.dial.Config.Paths) == 0 || s != nil
}

// connect connects to the server that is the first argument.
func (c *completing) connect(ctx context.Context) (*client.Client, error) {
	c.cmd.SetContext(ctx)
	return c.dial.Dial(c.cmd, c.args[:1], func(_ *client.Dialer, to client.Target) error {
		if p, ok := to.(*client.CommandTarget); ok {
			p.ExitGrace, p.TermGrace = endTimeout, endTimeout
		}
		return nil
	})
}

// values returns the values of an argument that begin with value, which the server completes. It does not start a
// program.
func (c *completing) values(ref mcp.CompleteReference, argument, value string, others map[string]string) []string {
	params := mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: argument, Value: value}}
	if len(others) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: others}
	}
	if of := dialing.ShellOf(c.cmd); of != nil {
		return of.Values(c.ctx, params)
	}
	if s, atURL := c.server(); s == nil || !s.Completes || !atURL {
		return nil
	}
	found := make(chan []string, 1)
	c.within(valuesTimeout, func(ctx context.Context) {
		client, err := c.connect(ctx)
		if err != nil {
			return
		}
		defer dialing.CloseQuietly(client)
		if completion, err := client.Complete(ctx, params); err == nil {
			found <- completion.Values
		}
	})
	select {
	case values := <-found:
		return values
	default:
		return nil
	}
}

// tasks returns the tasks that parley has started at the server that is the first argument, or at that of the shell.
func (c *completing) tasks() []client.TaskRecord {
	found := make(chan []client.TaskRecord, 1)
	if dialing.ShellOf(c.cmd) == nil {
		cache, err := listing.OpenCache()
		if err != nil {
			return nil
		}
		if key, _, _ := c.dial.CacheKey(c.args[0]); !c.mayConnect(cache.Get(key)) { // the target can refer to files
			return nil
		}
	}
	c.within(listsTimeout, func(ctx context.Context) {
		var server client.Target
		if of := dialing.ShellOf(c.cmd); of != nil {
			server = of.Target()
		} else {
			var err error
			c.cmd.SetContext(ctx)
			if server, err = c.dial.Target(c.cmd, c.args[:1]); err != nil {
				return
			}
		}
		stored, err := credstore.Open()
		if err != nil {
			return
		}
		records, _ := stored.TaskStore(nil).Tasks(ctx) // without logins there are no tasks
		found <- slices.DeleteFunc(records, func(r client.TaskRecord) bool { return r.Server != server.String() })
	})
	select {
	case records := <-found:
		return records
	default:
		return nil
	}
}

// Files completes the names of files.
func Files(*completing) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}
