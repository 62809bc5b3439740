package server

import (
	"context"
	"runtime/debug"
	"sync"
)

// maxFollowed bounds the resources that are followed at the same time.
const maxFollowed = 10_000

// WhileSubscribed has follow run, in a goroutine of its own, while clients that see a
// resource are subscribed to it: for watching what changes it, only as long as somebody
// wants to know. Follow calls [Server.ResourceUpdated] when the contents have changed.
// It is given the URI that clients have subscribed to, and a context that ends when no
// client is any longer, the resource is removed or the server shut down; then it has
// to return. It runs once for all clients. If it returns earlier, it runs again when
// the next first client subscribes.
//
// With a template or a directory, follow runs for each URI of it that clients have
// subscribed to. At most 10,000 resources of a server are followed at the same time; a
// line in the log says so when there are more.
func WhileSubscribed(follow func(ctx context.Context, uri string)) ResourceOption {
	if follow == nil {
		panic("server: WhileSubscribed: the function is nil: leave the option out")
	}
	return whileSubscribed(follow)
}

type whileSubscribed func(ctx context.Context, uri string)

func (w whileSubscribed) ofResource(e *resourceOffer) { e.follow = w }

// followers runs what follows resources. One goroutine starts and ends the others, and
// is there as long as one of them is.
type followers struct {
	mu     sync.Mutex
	server *Server // nil while there is nothing that can be followed
	closed bool
	news   chan struct{}      // capacity 1: interest, or what is offered, has changed
	cancel context.CancelFunc // nil while nothing runs
	done   sync.WaitGroup
}

// expect notes that something of s can be followed.
func (f *followers) expect(s *Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.server = s
}

// changed has the interest, and what is offered, looked at again. It does not wait.
func (f *followers) changed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.server == nil || f.closed {
		return
	}
	if f.news == nil {
		f.news = make(chan struct{}, 1)
	}
	select {
	case f.news <- struct{}{}:
	default:
	}
	if f.cancel == nil {
		var ctx context.Context
		ctx, f.cancel = context.WithCancel(context.Background())
		s := f.server
		f.done.Go(func() { f.run(ctx, s) })
	}
}

// close ends what runs, and waits for it until ctx ends.
func (f *followers) close(ctx context.Context) error {
	f.mu.Lock()
	f.closed = true
	if f.cancel != nil {
		f.cancel()
	}
	f.mu.Unlock()
	done := make(chan struct{})
	go func() {
		f.done.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// follower is one resource that is followed.
type follower struct {
	offer  *resourceOffer
	cancel context.CancelFunc
}

func (f *followers) run(ctx context.Context, s *Server) {
	following := make(map[string]follower)
	defer func() {
		for _, one := range following {
			one.cancel()
		}
	}()
	for {
		select {
		case <-f.news:
		case <-ctx.Done():
			return
		}
		f.follow(ctx, s, following)
		if len(following) == 0 && f.rest() {
			return
		}
	}
}

// rest reports whether there is nothing to do, so that the goroutine can end.
func (f *followers) rest() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.news) > 0 {
		return false
	}
	f.cancel()
	f.cancel = nil
	return true
}

// follow starts what is wanted and does not run, and ends what is not wanted any more.
func (f *followers) follow(ctx context.Context, s *Server, following map[string]follower) {
	wanted := make(map[string]*resourceOffer)
	for _, of := range s.changes.Interest() {
		if offer := s.serving(of.URI, of.Who); offer != nil && offer.follow != nil {
			if len(wanted) == maxFollowed {
				s.logger().Warn("more resources are subscribed to than are followed", "followed", maxFollowed)
				break
			}
			wanted[of.URI] = offer
		}
	}
	for uri, one := range following {
		if wanted[uri] != one.offer {
			one.cancel()
			delete(following, uri)
		}
	}
	for uri, offer := range wanted {
		if _, runs := following[uri]; runs {
			continue
		}
		ctx, cancel := context.WithCancel(ctx)
		following[uri] = follower{offer, cancel}
		f.done.Go(func() {
			defer cancel()
			defer func() {
				if v := recover(); v != nil {
					s.logger().Error("WhileSubscribed panicked: the resource is not followed", "uri", uri, "panic", v, "stack", string(debug.Stack()))
				}
			}()
			offer.follow(ctx, uri)
		})
	}
}
