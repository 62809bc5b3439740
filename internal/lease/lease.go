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

	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/store"
)

// A lease is valid for TTL after each renewal. A replica renews its lease every Renew.
const (
	TTL   = 15 * time.Second
	Renew = TTL / 5
)

// After an outage of the store, leases of live replicas may have expired. A renewal that the store does not answer
// fails after renewTimeout and is repeated after retry, so a replica gets its lease back within renewTimeout+retry.
// Only an outage longer than maxPause can outlast a lease: its last renewal was up to Renew before the outage.
//
// So the store itself remembers whether it was within reach. Each renewal of any replica renews the entry reachedKey,
// which lives for maxPause. A replica that finds it expired first writes the entry outageKey. That entry expires after
// settle; until then, no replica is judged, and live replicas renew their leases. The rule depends on no single replica
// and no clock: while replicas fail one after another, a new replica can judge the others at once.
const (
	renewTimeout = 3 * time.Second
	retry        = time.Second
	maxPause     = TTL - Renew - renewTimeout - retry
	settle       = 2*Renew + renewTimeout + retry

	reachedKey = "replicas/reached"
	outageKey  = "replicas/outage"
)

// Lease is the lease of this replica: an entry in a KV that the replica renews. When the entry has expired,
// other replicas may end or take over the work of this one; see Ended. Set the fields before the first use. A
// Lease is safe for concurrent use.
type Lease struct {
	KV     store.KV
	Shared bool // other replicas use KV; otherwise the lease is never needed
	Logger *slog.Logger
	// Renewed is called each time the lease was renewed. It must return well before the next renewal is due. May be
	// nil.
	Renewed func(ctx context.Context)

	once sync.Once
	id   string
	life context.Context
	stop context.CancelFunc

	mu       sync.Mutex
	taking   chan struct{} // closed when the running Take has returned; nil if none runs
	taken    bool
	draining bool // see Drain
	users    int  // calls of Take without Release
	closed   bool
	renewing sync.WaitGroup

	failed loglimit.Limiter
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

// Take takes the lease, which is renewed until Release has been called as often as Take, or until Close. If
// the lease is not held yet, Take needs a few store operations.
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
	if l.users > 0 { // users is 0 if the lease is not shared
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
	ended    = 3 // see Close
)

// renew writes the entry of the lease. If Drain is called in the meantime, it writes the entry again.
func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewTimeout)
	defer cancel()
	for {
		value := l.state()
		if err := l.put(ctx, value); err != nil {
			return err
		}
		if value == l.state() {
			return l.reach(ctx)
		}
	}
}

// reach records that the store is within reach of a replica.
func (l *Lease) reach(ctx context.Context) error {
	_, err := l.KV.Touch(ctx, reachedKey, maxPause)
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// In this order, so that whoever finds the second entry also finds the first.
	if _, err := l.KV.Put(ctx, outageKey, []byte{1}, store.PutOptions{TTL: settle}); err != nil {
		return err
	}
	_, err = l.KV.Put(ctx, reachedKey, []byte{1}, store.PutOptions{TTL: maxPause})
	return err
}

func (l *Lease) put(ctx context.Context, value byte) error {
	_, err := l.KV.Put(ctx, Key(l.id), []byte{value}, store.PutOptions{TTL: TTL})
	return err
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

// Drain records that this replica is shutting down, if it holds its lease. It keeps the lease.
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
	timer := time.NewTimer(Renew)
	defer timer.Stop()
	for {
		select {
		case <-l.life.Done():
			return
		case <-timer.C:
		}
		if l.giveUp() {
			return
		}
		begin, pause := time.Now(), Renew
		switch err := l.renew(l.life); {
		case err == nil:
			if l.Renewed != nil {
				l.Renewed(l.life)
			}
			pause -= time.Since(begin)
		case l.life.Err() == nil:
			l.failed.Log(l.life, l.Logger, slog.LevelError, "cannot renew the lease of this replica",
				slog.Any("error", err))
			pause = retry
		}
		timer.Reset(pause)
	}
}

// get returns the value of the entry of a replica, or 0 if there is none.
func (l *Lease) get(ctx context.Context, replica string) (value byte, err error) {
	item, err := l.KV.Get(ctx, Key(replica))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(item.Value) != 1:
		return draining, nil // written by another version
	}
	return item.Value[0], nil
}

// Ended reports whether another replica has ended, so that its work may be ended or taken over. It has ended if it has
// given up its lease. It has also ended if the lease has expired while the store was within reach of replicas.
// Otherwise the other replica could not renew its lease either, and Ended reports false.
func (l *Lease) Ended(ctx context.Context, replica string) (bool, error) {
	l.ready()
	if replica == l.id || !l.Shared {
		return false, nil
	}
	begun := time.Now()
	value, err := l.get(ctx, replica)
	if err != nil || value != 0 {
		return value == ended, err
	}
	steady, err := l.isSteady(ctx)
	return steady && time.Since(begun) < renewTimeout, err // a paused process would mix old and new
}

// isSteady reports whether replicas have reached the store for so long that live ones hold their leases.
func (l *Lease) isSteady(ctx context.Context) (bool, error) {
	if reached, err := l.has(ctx, reachedKey); err != nil || !reached {
		return false, err
	}
	outage, err := l.has(ctx, outageKey)
	return err == nil && !outage, err
}

func (l *Lease) has(ctx context.Context, key string) (bool, error) {
	_, err := l.KV.Get(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Serves reports whether a replica holds its lease and is not shutting down.
func (l *Lease) Serves(ctx context.Context, replica string) (bool, error) {
	value, err := l.get(ctx, replica)
	return err == nil && value == serving, err
}

// Abandon stops renewing the lease, but lets it expire instead of giving it up. Call it if work of this
// replica may still run.
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
	return l.put(ctx, ended)
}
