package host

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/rpc"
)

const (
	// patience is how long a server may take to say that it reports changes before it
	// is used all the same.
	patience = 5 * time.Second

	// between is the least time between two listings of a server whose lists change all
	// the time.
	between = 250 * time.Millisecond

	// settle is how long more resources to follow are waited for before the server is
	// asked to report them: each time they are all asked for.
	settle = 50 * time.Millisecond

	// rewatch is after how long a watch is begun again that has ended while its server
	// goes on.
	rewatch = 5 * time.Second
)

// watcher follows the changes of a server on one connection, until the server is down,
// and is replaced with it.
// It has a watch for the lists, which stays, and one for resources, which is begun anew
// whenever others are followed.
type watcher struct {
	member *member
	client *client.Client
	open   chan struct{} // closed when the server reports changes of its lists, or will not
	late   atomic.Bool   // the first listing has not waited for that
	done   sync.WaitGroup
}

// startWatching returns when the server has begun to report changes of its lists, so
// that what is listed then misses none.
func (m *member) startWatching(ctx context.Context, c *client.Client) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watcher{member: m, client: c, open: make(chan struct{})}
	m.watcher = w
	m.mu.Lock()
	m.unwatch = cancel
	m.mu.Unlock()
	w.done.Go(func() { w.watchLists(ctx) })
	w.done.Go(func() { w.watchResources(ctx) })
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-w.open:
	case <-timer.C:
		w.late.Store(true)
	}
}

// stopWatching is called, like startWatching, by run only.
func (m *member) stopWatching() {
	if m.watcher != nil {
		m.mu.Lock()
		m.unwatch()
		m.mu.Unlock()
		m.watcher.done.Wait()
		m.watcher = nil
	}
}

func (w *watcher) watchLists(ctx context.Context) {
	opened := sync.OnceFunc(func() { close(w.open) })
	defer opened()
	has := w.client.Server().Capabilities
	options := client.WatchOptions{
		Tools:     has.Tools != nil && has.Tools.ListChanged,
		Prompts:   has.Prompts != nil && has.Prompts.ListChanged,
		Resources: has.Resources != nil && has.Resources.ListChanged,
		UntilLost: true,
	}
	if !options.Tools && !options.Prompts && !options.Resources {
		return
	}
	for first := true; ; first = false {
		for change, err := range w.client.Watch(ctx, options) {
			if err != nil && w.over(err) {
				return
			}
			opened()
			if err == nil && (!change.Unsure || !first || w.late.Load()) {
				w.relist(ctx, change.Kind)
			}
		}
		if !sleep(ctx, rewatch, nil) {
			return
		}
	}
}

// watchResources does without overlaps: when a watch begins, each of its resources may
// have been updated.
func (w *watcher) watchResources(ctx context.Context) {
	has := w.client.Server().Capabilities.Resources
	if has == nil || !has.Subscribe {
		return
	}
	for ctx.Err() == nil {
		uris, changed := w.member.follows.wanted()
		var err error
		if len(uris) > 0 {
			err = w.watchSome(ctx, uris, changed)
		}
		switch {
		case errors.Is(err, client.ErrNotOffered): // of these
		case err != nil && w.over(err):
			return
		case err != nil:
			sleep(ctx, rewatch, changed)
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
		if !sleep(ctx, settle, nil) {
			return
		}
	}
}

// watchSome watches resources until others are wanted, or returns why it cannot.
func (w *watcher) watchSome(ctx context.Context, uris []string, others <-chan struct{}) error {
	watching, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() {
		cancel()
		<-ended
	}()
	go func() {
		defer close(ended)
		select {
		case <-others:
			cancel()
		case <-watching.Done():
		}
	}()
	for change, err := range w.client.Watch(watching, client.WatchOptions{URIs: uris, UntilLost: true}) {
		if err != nil {
			return err
		}
		w.member.follows.updated(change.URI)
	}
	return nil
}

// over reports whether a watch is not to be begun again on this connection.
func (w *watcher) over(err error) bool {
	w.member.logger.Debug("the server's changes are not reported any more", "error", err)
	return errors.Is(err, client.ErrNotOffered)
}

// sleep reports whether ctx goes on, after a while or as soon as something happens.
func sleep(ctx context.Context, d time.Duration, until <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-until:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// relist replaces the lists of one kind. If that fails they stay as they are.
func (w *watcher) relist(ctx context.Context, kind rpc.ChangeKind) {
	m := w.member
	if !m.isReady(ctx, w.client) {
		return
	}
	var listed Status
	if err := list(ctx, w.client, &listed, kind); err != nil {
		if ctx.Err() == nil {
			m.logger.Warn("the server's list has changed, and could not be had", "list", kind, "error", err)
		}
		return
	}
	m.set(func(s *Status) bool {
		if m.client != w.client || s.State != Ready {
			return false
		}
		switch kind {
		case client.ToolsChanged:
			s.Tools = listed.Tools
		case client.PromptsChanged:
			s.Prompts = listed.Prompts
		case client.ResourcesChanged:
			s.Resources, s.Templates = listed.Resources, listed.Templates
		}
		return true
	})
	sleep(ctx, between, nil)
}

// isReady waits until what a client listed at first is known, and reports whether it is.
func (m *member) isReady(ctx context.Context, c *client.Client) bool {
	for {
		changed := m.changed.next()
		m.mu.Lock()
		ready, state := m.client == c && m.status.State == Ready, m.status.State
		m.mu.Unlock()
		if ready || state == Down {
			return ready
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
