package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/listcache"
	"github.com/parley-mcp/parley/cmd/parley/internal/toolargs"
	"github.com/parley-mcp/parley/mcp"
)

// Time-outs of completion. Tests raise them for slow machines.
var (
	listsTimeout  = 2 * time.Second // for a server whose lists are unknown
	valuesTimeout = time.Second     // for completion/complete
)

// Other times of completion.
const (
	retryAfter   = time.Minute // after a failure
	maxListsAge  = time.Hour   // of the lists of a server at a URL
	maxValuesAge = 5 * time.Minute
	endTimeout   = 100 * time.Millisecond // for a program that was started for completion
)

// completionCache returns the cache for completion, in the user's cache directory or in $PARLEY_CACHE_DIR.
func completionCache() (*listcache.Cache, error) {
	dir := os.Getenv("PARLEY_CACHE_DIR")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		dir = filepath.Join(user, "parley")
	}
	return listcache.New(filepath.Join(dir, "completion")), nil
}

// usedURLs returns the URLs of servers in the cache.
func usedURLs() []string {
	cache, err := completionCache()
	if err != nil {
		return nil
	}
	return cache.URLs()
}

// within runs f until a time-out, after which the program ends at once: a shell waits for it.
func (c *completing) within(limit time.Duration, f func(ctx context.Context)) {
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

// cacheKey identifies the lists of the server that name means. It contains everything that the lists depend on, except for
// the login. shown is the URL for the user, empty if it may have secrets. atURL reports whether the server is at a URL or connected. The key
// is empty if there is no such server.
func (f *dialFlags) cacheKey(name string) (key, shown string, atURL bool) {
	if isURL(name) {
		if u, err := url.Parse(name); err == nil && u.User == nil && u.RawQuery == "" && u.Fragment == "" {
			shown = name
		}
		return fmt.Sprintf("url %q %q %q", name, f.headers, f.revision), shown, true
	}
	if len(f.config.paths) == 0 && slices.Contains(connectionNames(), name) {
		return fmt.Sprintf("connection %q", name), "", true // a connection is open, as if the server were at a URL
	}
	loaded, _ := f.config.read()
	if loaded == nil {
		return "", "", false
	}
	s, err := loaded.Find(name)
	if err != nil {
		return "", "", false
	}
	key = fmt.Sprintf("server %q %q %q %q %q %q %q %q %q %q", loaded.Path(), s.Name, s.Command, s.Args, s.Env, s.EnvFile, s.Dir, s.URL, s.Headers, f.revision)
	return key, "", s.URL != ""
}

// use records that the user has used a server, for the completion of its URL, and so that completion may start it if it
// is of a file that --config names. Completion is not worth an error.
func (f *dialFlags) use(cmd *cobra.Command, target []string) {
	isName := !isURL(target[0])
	if f.isCommand(cmd) || f.named || isName && len(f.config.paths) == 0 {
		return
	}
	if cache, err := completionCache(); err == nil {
		if key, shown, _ := f.cacheKey(target[0]); shown != "" || isName && key != "" {
			_ = cache.Use(key, shown)
		}
	}
}

// remember keeps the lists of a server for completion.
func (f *dialFlags) remember(cmd *cobra.Command, target []string, c *client.Client, lists *listcache.Lists) {
	if f.isCommand(cmd) {
		return
	}
	cache, err := completionCache()
	if err != nil {
		return
	}
	if key, shown, _ := f.cacheKey(target[0]); key != "" {
		lists.Completes = c.Server().Capabilities.Completions != nil
		_ = cache.Update(key, cache.SetLists(shown, lists))
	}
}

// lists returns the names of the server that is the first argument, or of the shell. It connects to the server only if they are not known, or
// if the server is at a URL and they are old.
func (c *completing) lists() *listcache.Lists {
	if of := shellOf(c.cmd); of != nil {
		return of.lists.get(c.ctx, of)
	}
	s, _, _ := c.server()
	if s == nil {
		return new(listcache.Lists)
	}
	return &s.Lists
}

// server returns what the cache has of the server that is the first argument, or nil. The key is empty if there is no cache.
func (c *completing) server() (s *listcache.Server, key string, atURL bool) {
	cache, err := completionCache()
	if err != nil || c.dial == nil {
		return nil, "", false
	}
	key, shown, atURL := c.dial.cacheKey(c.args[0])
	if key == "" {
		return nil, "", false
	}
	s = cache.Get(key)
	switch {
	case s != nil && s.Failed && cache.Age(s.Time) < retryAfter,
		s != nil && s.Lists.Known() && (!atURL || cache.Age(s.Time) < maxListsAge):
		return s, key, atURL
	case !c.mayConnect(s):
		return s, key, atURL
	}
	c.within(listsTimeout, func(ctx context.Context) {
		client, err := c.connect(ctx)
		if err != nil {
			_ = cache.Update(key, cache.SetFailed)
			return
		}
		defer closeQuietly(client)
		if listed, _ := list(ctx, client); listed != nil {
			lists := listed.names()
			lists.Completes = client.Server().Capabilities.Completions != nil
			_ = cache.Update(key, cache.SetLists(shown, lists))
		}
	})
	if now := cache.Get(key); now != nil {
		return now, key, atURL
	}
	_ = cache.Update(key, cache.SetFailed) // the time is over
	return nil, key, atURL
}

// mayConnect reports whether completion can start or connect to the server that is the first argument. s is its entry
// in the cache. A file that --config names can be of a project, which anyone may have written: the user must have used
// this server of it before.
func (c *completing) mayConnect(s *listcache.Server) bool {
	return isURL(c.args[0]) || len(c.dial.config.paths) == 0 || s != nil
}

// connect connects to the server that is the first argument.
func (c *completing) connect(ctx context.Context) (*client.Client, error) {
	c.cmd.SetContext(ctx)
	return c.dial.dial(c.cmd, c.args[:1], func(_ *client.Dialer, to client.Target) error {
		if p, ok := to.(*client.CommandTarget); ok {
			p.ExitGrace, p.TermGrace = endTimeout, endTimeout
		}
		return nil
	})
}

// values returns the values of an argument that begin with value, which the server completes. It does not start a program.
func (c *completing) values(ref mcp.CompleteReference, argument, value string, others map[string]string) []string {
	params := mcp.CompleteParams{Ref: ref, Argument: mcp.CompleteArgument{Name: argument, Value: value}}
	if len(others) > 0 {
		params.Context = &mcp.CompleteContext{Arguments: others}
	}
	if of := shellOf(c.cmd); of != nil {
		return of.values(c.ctx, params)
	}
	s, key, atURL := c.server()
	cache, err := completionCache()
	if err != nil || s == nil || !s.Lists.Completes {
		return nil
	}
	text, err := json.Marshal(params)
	if err != nil {
		return nil
	}
	if known, ok := s.Values[string(text)]; ok && cache.Age(known.Time) < maxValuesAge {
		return known.Values
	}
	if !atURL {
		return nil
	}
	found := make(chan []string, 1)
	c.within(valuesTimeout, func(ctx context.Context) {
		client, err := c.connect(ctx)
		if err != nil {
			return
		}
		defer closeQuietly(client)
		if completion, err := client.Complete(ctx, params); err == nil {
			found <- completion.Values
			_ = cache.Update(key, cache.SetValues(string(text), completion.Values))
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
	if shellOf(c.cmd) == nil {
		cache, err := completionCache()
		if err != nil {
			return nil
		}
		if key, _, _ := c.dial.cacheKey(c.args[0]); !c.mayConnect(cache.Get(key)) { // the target can refer to files
			return nil
		}
	}
	c.within(listsTimeout, func(ctx context.Context) {
		var server client.Target
		if of := shellOf(c.cmd); of != nil {
			server = of.target
		} else {
			var err error
			c.cmd.SetContext(ctx)
			if server, err = c.dial.target(c.cmd, c.args[:1]); err != nil {
				return
			}
		}
		stored, err := openLogins()
		if err != nil {
			return
		}
		records, _ := (&taskStore{Store: stored.store}).tasks(ctx) // without logins there are no tasks
		found <- slices.DeleteFunc(records, func(r client.TaskRecord) bool { return r.Server != server.String() })
	})
	select {
	case records := <-found:
		return records
	default:
		return nil
	}
}

// names returns the lists for completion.
func (l *listing) names() *listcache.Lists {
	lists := &listcache.Lists{Tools: toolNames(l.Tools), Prompts: promptNames(l.Prompts), Resources: []listcache.Entry{}, Templates: []listcache.Entry{}}
	for _, r := range l.Resources {
		lists.Resources = append(lists.Resources, listcache.Entry{Name: r.URI, Description: cmp.Or(r.Title, r.Name, r.Description)})
	}
	for _, t := range l.Templates {
		lists.Templates = append(lists.Templates, listcache.Entry{Name: t.URITemplate, Description: cmp.Or(t.Title, t.Name, t.Description)})
	}
	return lists
}

func toolNames(tools []*mcp.Tool) []listcache.Entry {
	entries := []listcache.Entry{}
	for _, t := range tools {
		e := listcache.Entry{Name: t.Name, Description: cmp.Or(t.Title, t.Description)}
		for _, a := range toolargs.Arguments(t.InputSchema) {
			e.Arguments = append(e.Arguments, listcache.Argument{
				Name: a.Name, Description: cmp.Or(a.Description, a.Type), Required: a.Required, Repeats: a.Repeats, Values: a.Values,
			})
		}
		entries = append(entries, e)
	}
	return entries
}

func promptNames(prompts []*mcp.Prompt) []listcache.Entry {
	entries := []listcache.Entry{}
	for _, p := range prompts {
		e := listcache.Entry{Name: p.Name, Description: cmp.Or(p.Title, p.Description)}
		for _, a := range p.Arguments {
			e.Arguments = append(e.Arguments, listcache.Argument{Name: a.Name, Description: cmp.Or(a.Description, a.Title), Required: a.Required})
		}
		entries = append(entries, e)
	}
	return entries
}
