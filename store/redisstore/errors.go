package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/store"
)

var (
	// ErrUnavailable reports that Redis could not be reached or could not serve the
	// operation. It may succeed later. Whether a write was executed is unknown.
	ErrUnavailable = errors.New("redisstore: Redis is unavailable")

	// ErrEviction reports that the maxmemory-policy of Redis deletes items that have not
	// expired.
	ErrEviction = errors.New("redisstore: maxmemory-policy must be noeviction")
)

// errClosed is the error of a Store that was closed.
var errClosed = errors.New("redisstore: store is closed")

// advice says what to do about the errors of Redis that start with a code or, if the code is ERR,
// with a text after it.
var advice = []struct {
	code, text  string
	unavailable bool
}{
	{"NOAUTH", "set Username and Password", false},
	{"WRONGPASS", "check Username and Password", false},
	{"NOPERM",
		"grant the user of the store the commands of package redisstore, and keys and channels that start with the " +
			"prefix", false},
	{"DENIED", "protected mode of Redis rejects connections without a password: set one", false},
	{"MISCONF", "Redis cannot persist its data: read its log", true},
	{"NOREPLICAS", "Redis has fewer replicas than min-replicas-to-write", true},
	{"LOADING", "Redis is starting", true},
	{"READONLY", "the server is a replica: a fail-over is in progress, or Addrs names a replica", true},
	{"MASTERDOWN", "the replica has lost its master", true},
	{"CLUSTERDOWN", "the cluster does not serve the slot", true},
	{"TRYAGAIN", "the cluster moves the slot", true},
	{"MOVED", "the server is in a cluster: set Cluster, or wait until slots have moved", true},
	{"max number of clients", "raise maxclients of Redis, or lower Conns", true},
	{"unknown command", "use version 7 or newer of Redis or Valkey", false},
}

// foreign says what to do about a key that belongs to another program.
const foreign = "the key in Redis has a value of another program: use another Prefix"

// full reports whether Redis rejected a write because maxmemory is reached.
func full(err error) bool { return redis.HasErrorPrefix(err, "OOM ") }

// explain translates an error of go-redis for the caller.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ended := ctx.Err(); ended != nil {
		return ended
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		return context.DeadlineExceeded // the connection has the same deadline
	}
	if errors.Is(err, redis.Nil) {
		return store.ErrNotFound
	}
	if full(err) {
		return fmt.Errorf("%w: raise maxmemory of Redis, or lower the limits and times to live of the server: %w",
			store.ErrFull, err)
	}
	if redis.HasErrorPrefix(err, "WRONGTYPE") {
		return fmt.Errorf("%w: %s: %w", store.ErrInvalidArgument, foreign, err)
	}
	for _, a := range advice {
		if !redis.HasErrorPrefix(err, a.code) {
			continue
		}
		if a.unavailable {
			return fmt.Errorf("%w: %s: %w", ErrUnavailable, a.text, err)
		}
		return fmt.Errorf("redisstore: %s: %w", a.text, err)
	}
	if errors.Is(err, redis.ErrClosed) {
		return errClosed
	}
	var reply redis.Error
	if errors.As(err, &reply) {
		return fmt.Errorf("redisstore: %w", err)
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: check that it runs and that Addrs is right: %w", ErrUnavailable, err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		// The caller's context has not ended.
		return fmt.Errorf("%w: time-out of the connection; check that Addrs and TLS are right: %v", ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", ErrUnavailable, err)
}
