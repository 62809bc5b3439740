package host

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// State is the state of a server of a Host.
type State int

// The states of a server.
const (
	// Starting means that the Host is starting or dialling the server, for the first
	// time or again.
	Starting State = iota
	// Ready means that the server is connected and its lists are known. If some are not complete, or could not be
	// updated, ServerStatus.Incomplete says so.
	Ready
	// Down means that the server could not be started, or that its connection was
	// lost. See ServerStatus.Err.
	Down
	// NeedsLogin means that the server is down because it requires a login, or rejects the credentials of its target.
	// The Host tries it again after [Host.LoginsChanged], after a change of its configuration, and for a call;
	// otherwise more and more rarely, up to once an hour.
	NeedsLogin
	// NotStarted means that a lazy server has not been needed yet, or that nobody has used the server for
	// ServerConfig.Idle. See [ServerConfig.Lazy].
	NotStarted
	// CallersOnly means that a server with [ServerConfig.CallerAuth] rejects requests without a caller. Requests of
	// callers are sent at once. The status contains no lists, or the last known ones.
	CallersOnly
	// Removed means that the server was removed from the Host. Only [Host.Watch] yields it.
	Removed
)

// String returns the state in lower case, such as "ready".
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Ready:
		return "ready"
	case NeedsLogin:
		return "needs login"
	case NotStarted:
		return "not started"
	case CallersOnly:
		return "callers only"
	case Removed:
		return "removed"
	}
	return "down"
}

// isUsable reports whether calls of the server are sent at once.
func (s State) isUsable() bool { return s == Ready || s == CallersOnly }

// isDown reports whether the server is not connected, and is not being connected.
func (s State) isDown() bool { return s == Down || s == NeedsLogin }

// ServerStatus is the status of a server at one moment.
type ServerStatus struct {
	// Name is the name of the server in its ServerConfig.
	Name  string
	State State

	// Err is the reason why the server is down, or why it was down before it is started
	// again. It is nil if the server is ready, or is started for the first time.
	Err error

	// The following fields keep their values from the last time the server was
	// ready. They are zero before that. They are shared and must not be modified.

	// Revision is the revision of the protocol in use.
	Revision mcp.Revision
	// Server is the description that the server gives of itself.
	Server client.ServerDetails
	// Incomplete is the reason why some of the following lists are not complete, for
	// example client.ErrIncompleteList, or names that are withheld, or why a list
	// could not be updated. It is nil if all are complete.
	Incomplete error
	// Tools are the tools of the server that are selected, with their names in the merged list.
	Tools []Tool
	// Prompts are the prompts of the server that are selected.
	Prompts []Prompt
	// Resources are the resources of the server.
	Resources []mcp.Resource
	// Templates are the resource templates of the server.
	Templates []mcp.ResourceTemplate

	// Version increases with each change of the status, and is unique within the Host. It is 0 if the server was
	// removed.
	Version uint64
	// Config is the configuration of the server. Its selections decide which tools and prompts are listed, under which
	// names. It must not be modified. For a removed server it contains only the name.
	Config *ServerConfig
	// Retry is the time of the next attempt to start a server that is down.
	Retry time.Time
	// Sharing says who shares a connection to the server. It is not SharingAuto once the server was ready.
	Sharing Sharing
}

// DownError reports that a server is down. Unwrap returns the reason.
type DownError struct {
	Server string // the name of the server in Host.Servers
	retry  time.Time
	err    error
}

// Error names the server, the reason, and the time until the next attempt.
func (e *DownError) Error() string {
	text := fmt.Sprintf("server %q is down: %v", e.Server, e.err)
	if wait := time.Until(e.retry).Round(time.Second); wait > 0 {
		text += fmt.Sprintf("; try again in %v", wait)
	}
	return text
}

// Unwrap returns the reason why the server is down.
func (e *DownError) Unwrap() error { return e.err }

// WaitReady waits until none of the named servers is starting, or without names, no server at all. It starts lazy
// servers that it is given by name, and does not wait for others that have not started. It returns nil if the servers
// are ready. Otherwise it joins a *DownError for each one that is down; the ready ones can be used. The Host keeps
// trying to start a server that was never ready, but WaitReady does not wait for that. It returns ErrUnknown for a name
// that is not in Host.Servers.
//
// When ctx ends first, the error wraps context.Cause(ctx) and names the servers that
// are still starting. WaitReady returns call.ErrClosed if the Host is closed or not started.
func (h *Host) WaitReady(ctx context.Context, names ...string) error {
	if h.ctx == nil {
		return errClosed
	}
	for {
		changed := h.changed.wait()
		var down, starting []error
		for _, name := range names {
			if h.find(name) == nil && h.ctx.Err() == nil {
				return unknown("server", name)
			}
		}
		for _, s := range h.all() {
			if len(names) > 0 && !slices.Contains(names, s.name) {
				continue
			}
			if len(names) > 0 && s.snapshot().State == NotStarted {
				s.want()
			}
			switch status := s.snapshot(); {
			case status.State == Starting:
				starting = append(starting, fmt.Errorf("server %q is still starting", status.Name))
			case status.State.isDown():
				down = append(down, status.downError())
			}
		}
		if h.ctx.Err() != nil {
			return errClosed
		}
		if len(starting) == 0 {
			return errors.Join(down...)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(append(append(down, starting...), context.Cause(ctx))...)
		case <-h.ctx.Done():
			return errClosed
		}
	}
}

func (s *ServerStatus) downError() *DownError {
	down := &DownError{Server: s.Name, retry: s.Retry, err: s.Err}
	if s.State == NeedsLogin { // a new login or a call may come earlier
		down.retry = time.Time{}
	}
	return down
}

// Status returns the status of each server at one moment, in the order of the servers. The
// caller owns the slice.
func (h *Host) Status() []ServerStatus {
	h.names.mu.RLock() // a change of one server can change the names of others
	defer h.names.mu.RUnlock()
	servers := h.all()
	all := make([]ServerStatus, 0, len(servers))
	for _, s := range servers {
		all = append(all, s.snapshot())
	}
	return all
}

// Watch yields the status of each server, and then each status that changes, until ctx ends or the Host is closed. A
// slow loop misses intermediate statuses, but receives the latest one of each server that has changed. For a removed
// server it receives a status with the Name and the State Removed.
func (h *Host) Watch(ctx context.Context) iter.Seq[ServerStatus] {
	return func(yield func(ServerStatus) bool) {
		seen := make(map[string]uint64)
		for {
			changed := h.changed.wait()
			for _, status := range h.news(seen) {
				if !yield(status) {
					return
				}
			}
			if h.ctx == nil {
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			case <-h.ctx.Done():
				return
			}
		}
	}
}

// news returns the statuses that have changed since seen, a map of names to versions, and updates it.
func (h *Host) news(seen map[string]uint64) (news []ServerStatus) {
	present := make(map[string]bool)
	for _, status := range h.Status() {
		present[status.Name] = true
		if seen[status.Name] != status.Version {
			seen[status.Name] = status.Version
			news = append(news, status)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		if !present[name] {
			delete(seen, name)
			news = append(news, ServerStatus{Name: name, State: Removed,
				Config: &ServerConfig{Name: name}})
		}
	}
	return news
}

// broadcast wakes all waiting goroutines when something changes.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that the next call of notify closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
