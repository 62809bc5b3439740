// Package lease lets the replicas that share a store know which of them are alive.
package lease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/parley-mcp/parley/store"
)

// A lease lives for TTL after each renewal. A replica renews its lease every Renew.
const (
	TTL   = 15 * time.Second
	Renew = TTL / 3
)

// Lease is the lease of this replica: an entry of a KV that it renews. When the entry has expired, other
// replicas may end or take over the work of this one. Set the fields before the first use. A Lease is safe
// for concurrent use.
type Lease struct {
	KV     store.KV
	Shared bool // other replicas use KV; otherwise the lease is never needed
	Logger *slog.Logger
	// Renewed is called each time the lease was renewed. It must return well before the next renewal is due. May be nil.
	Renewed func(ctx context.Context)

	once sync.Once
	id   string
	life context.Context
	stop context.CancelFunc

	mu       sync.Mutex
	taking   chan struct{} // closed when the Take that runs has ended; nil if none runs
	taken    bool
	draining bool // see Drain
	users    int  // calls of Take without Release
	closed   bool
	renewing sync.WaitGroup
}

func (l *Lease) ready() {
	l.once.Do(func() {
		l.id = rand.Text()
		l.life, l.stop = context.WithCancel(context.Background())
	})
}

// ID returns the random name of this replica.
func (l *Lease) ID() string {
	l.ready()
	return l.id
}

// Key returns the key of the lease of a replica in the KV.
func Key(replica string) string { return "replica/" + replica }

// errClosed is the error of Take after Close.
var errClosed = errors.New("the server is stopping")

// Take takes the lease, which is renewed until Release is called as often as Take, or until Close. It needs
// one store operation if the lease is not taken.
func (l *Lease) Take(ctx context.Context) error {
	l.ready()
	if !l.Shared {
		return nil
	}
	for {
		l.mu.Lock()
		switch taking := l.taking; {
		case l.closed:
			l.mu.Unlock()
			return errClosed
		case l.taken:
			l.users++
			l.mu.Unlock()
			return nil
		case taking != nil:
			l.mu.Unlock()
			select {
			case <-taking:
				continue
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		l.taking = make(chan struct{})
		l.mu.Unlock()
		return l.take(ctx)
	}
}

// take takes the lease. The caller has set taking.
func (l *Lease) take(ctx context.Context) error {
	err := l.renew(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.taking)
	l.taking = nil
	switch {
	case err != nil:
		return fmt.Errorf("cannot take the lease of this replica: %w", err)
	case l.closed:
		return errClosed
	}
	l.taken, l.users = true, l.users+1
	l.renewing.Go(l.keep)
	return nil
}

// Release ends one use of the lease. The lease of a replica without uses expires.
func (l *Lease) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users > 0 { // 0: not shared
		l.users--
	}
}

// giveUp gives up the lease if it has no uses.
func (l *Lease) giveUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		l.taken = false
	}
	return !l.taken
}

// Values of the entry of a lease.
const (
	serving  = 1
	draining = 2
)

// renew writes the entry of the lease. If Drain is called meanwhile, it writes the entry again.
func (l *Lease) renew(ctx context.Context) error {
	for {
		value := l.state()
		if _, err := l.KV.Put(ctx, Key(l.id), []byte{value}, store.PutOptions{TTL: TTL}); err != nil || value == l.state() {
			return err
		}
	}
}

// state returns the value of the entry.
func (l *Lease) state() byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining {
		return draining
	}
	return serving
}

// Drain records that this replica is shutting down, if it has its lease. The lease remains.
func (l *Lease) Drain(ctx context.Context) error {
	l.mu.Lock()
	l.draining = true
	taken := l.taken
	l.mu.Unlock()
	if !taken {
		return nil
	}
	return l.renew(ctx)
}

func (l *Lease) keep() {
	ticker := time.NewTicker(Renew)
	defer ticker.Stop()
	for {
		select {
		case <-l.life.Done():
			return
		case <-ticker.C:
		}
		if l.giveUp() {
			return
		}
		switch err := l.renew(l.life); {
		case err == nil:
			if l.Renewed != nil {
				l.Renewed(l.life)
			}
		case l.life.Err() == nil:
			l.Logger.Error("cannot renew the lease of this replica", "error", err)
		}
	}
}

// Alive reports whether a replica has its lease.
func (l *Lease) Alive(ctx context.Context, replica string) (bool, error) {
	l.ready()
	if replica == l.id || !l.Shared {
		return true, nil
	}
	_, err := l.KV.Get(ctx, Key(replica))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Serves reports whether a replica has its lease and is not shutting down.
func (l *Lease) Serves(ctx context.Context, replica string) (bool, error) {
	item, err := l.KV.Get(ctx, Key(replica))
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && len(item.Value) == 1 && item.Value[0] == serving, err
}

// Abandon stops renewing the lease, and keeps it until it expires. Call it if work of this replica may still
// run.
func (l *Lease) Abandon() {
	l.ready()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.renewing.Wait()
}

// Close gives up the lease, so that other replicas take over at once. It may be called more than once.
func (l *Lease) Close(ctx context.Context) error {
	l.Abandon()
	l.mu.Lock()
	taken := l.taken
	l.taken = false
	l.mu.Unlock()
	if !taken {
		return nil
	}
	return l.KV.Delete(ctx, Key(l.id))
}
