package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/loglimit"
	"github.com/parley-mcp/parley/internal/seal"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
	"github.com/parley-mcp/parley/store"
)

var (
	// ErrNotFound means that the principal has no task with the id, or no longer has it.
	ErrNotFound = errors.New("task not found: it never existed, has expired or belongs to another principal")
	// ErrUnreadable means that the entry of a task is not one of this program, or that this replica cannot decrypt it.
	ErrUnreadable = errors.New("cannot read the stored task")
)

const (
	maxConflicts = 64       // attempts of one update
	maxInline    = 8 << 10  // bytes of a result in the entry of its task
	maxResult    = 12 << 20 // bytes; the KV accepts it when it is encrypted, too
)

// Values contains the tasks in a [store.KV], and the names of each principal's tasks in a [store.Set].
type Values interface {
	store.KV
	store.Set
}

// Store keeps tasks in a KV and announces their changes on a Bus. It is safe for concurrent use.
type Store struct {
	KV  Values
	Bus store.Bus
	Now func() time.Time // nil means time.Now
	// PerOwner is the maximum number of tasks of one principal. MaxAnonymous is that of all
	// anonymous callers together.
	PerOwner, MaxAnonymous int
	// Logger receives a record of each change. It may be nil.
	Logger *slog.Logger

	unreadable loglimit.Limiter
}

func (s *Store) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// key is the key of a task in the KV, and its topic on the Bus.
func key(owner principal.Principal, id string) string { return owner.Key() + "task/" + id }

// The set of an owner names its tasks in the order of their creation.
func ownerSet(owner principal.Principal) string { return owner.Key() + "tasks" }

// resultKey returns the key of a long result. Each run has its own, because a replica that has lost a
// task may still store its result.
func resultKey(t *Task) string {
	return key(t.Request.Principal, t.ID) + "/result/" + strconv.Itoa(t.Runs)
}

func memberOf(t *Task) string { return fmt.Sprintf("%013d/%s", t.Created.UnixMilli(), t.ID) }

// errTooManyOwned is the error if an owner has too many tasks.
var errTooManyOwned = &call.OverloadError{Limit: "tasks of one principal", RetryAfter: time.Minute}

// Create writes a new task. It is durable when Create returns. The error is a *call.OverloadError
// if the owner has too many tasks.
func (s *Store) Create(ctx context.Context, t *Task) error {
	if t.Created.IsZero() { // otherwise an earlier attempt may have written it
		t.Created = s.now().UTC().Truncate(time.Millisecond)
		t.Updated = t.Created
	}
	owner, limit := t.Request.Principal, s.PerOwner
	if owner == principal.Anonymous {
		limit = s.MaxAnonymous
	}
	err := s.KV.Add(ctx, ownerSet(owner), memberOf(t), time.Duration(t.TTL)*time.Millisecond, limit)
	if errors.Is(err, store.ErrFull) && errors.Is(err, store.ErrConflict) {
		return errTooManyOwned
	}
	if err != nil {
		return fmt.Errorf("cannot store the task: %w", err)
	}
	_, err = s.put(ctx, t, s.Remaining(t), store.PutOptions{IfAbsent: true})
	if errors.Is(err, store.ErrConflict) { // the id is random, so an earlier attempt has written it
		err = nil
	}
	if err != nil {
		_ = s.KV.Remove(context.WithoutCancel(ctx), ownerSet(owner), memberOf(t)) // otherwise it expires
		return err
	}
	s.logCreated(ctx, t)
	return nil
}

// Remove removes a task that its client does not know. If it fails, the task expires.
func (s *Store) Remove(ctx context.Context, t *Task) {
	if t.Status == mcp.TaskCompleted && t.Result == nil {
		_ = s.KV.Delete(ctx, resultKey(t))
	}
	_ = s.KV.Delete(ctx, key(t.Request.Principal, t.ID))
	_ = s.KV.Remove(ctx, ownerSet(t.Request.Principal), memberOf(t))
}

// List returns at most limit tasks of an owner in the order of their creation. After is "" or the
// next that an earlier List returned; next is "" after the last task.
func (s *Store) List(ctx context.Context, owner principal.Principal, after string,
	limit int) (page []*Task, next string, err error) {
	members, err := s.KV.List(ctx, ownerSet(owner), after, limit)
	if err != nil {
		return nil, "", fmt.Errorf("cannot list the tasks: %w", err)
	}
	unreadable := 0
	for _, member := range members {
		_, id, _ := strings.Cut(member, "/")
		t, err := s.Get(ctx, owner, id)
		switch {
		case errors.Is(err, ErrUnreadable):
			unreadable++
			continue
		case errors.Is(err, ErrNotFound), err == nil && t.Parked:
			continue
		case err != nil:
			return nil, "", err
		}
		page = append(page, t)
	}
	if unreadable > 0 && s.Logger != nil {
		s.unreadable.Log(ctx, s.Logger, slog.LevelWarn,
			"leaving stored tasks out of a list, because this replica cannot read them: replicas need the same Keys, "+
				"and different programs need different prefixes",
			slog.Int("tasks", unreadable), logPrincipal(owner))
	}
	if len(members) == limit {
		next = members[limit-1]
	}
	return page, next, nil
}

// Get returns a task. The error is ErrNotFound, ErrUnreadable or one of the KV. The KV ends the life of a task, and not
// the clock of this replica.
func (s *Store) Get(ctx context.Context, owner principal.Principal, id string) (*Task, error) {
	t, _, err := s.get(ctx, owner, id)
	return t, err
}

func (s *Store) get(ctx context.Context, owner principal.Principal, id string) (*Task, uint64, error) {
	if !mayBeID(id) {
		return nil, 0, ErrNotFound
	}
	item, err := s.KV.Get(ctx, key(owner, id))
	if err != nil {
		return nil, 0, readError(err)
	}
	t := new(Task)
	err = jsonv2.Unmarshal(item.Value, t)
	if err == nil && (t.ID != id || t.Request.Principal != owner) {
		err = errors.New("it is another task")
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrUnreadable, err)
	}
	return t, item.Version, nil
}

// readError translates an error of Get of the KV.
func readError(err error) error {
	switch {
	case errors.Is(err, store.ErrInvalidArgument), errors.Is(err, seal.ErrInvalid):
		return fmt.Errorf("%w: %w", ErrUnreadable, err)
	case errors.Is(err, store.ErrNotFound):
		return ErrNotFound
	}
	return fmt.Errorf("cannot read the task: %w", err)
}

// Remaining returns how long a stored task still lives. If the clock of this replica says that it lives no longer, or
// was not created yet, that clock is wrong, because the KV has the task.
func (s *Store) Remaining(t *Task) time.Duration {
	ttl := time.Duration(t.TTL) * time.Millisecond
	if rest := t.Expires().Sub(s.now()); rest > 0 && rest < ttl {
		return rest
	}
	return ttl
}

// maxID bounds the ids that are looked up: the store does not accept keys of any length.
const maxID = 256

func mayBeID(id string) bool { return id != "" && len(id) <= maxID }

// Update changes a task with change, which may run several times. It returns the task as it is
// afterwards. If change returns an error, nothing is written and Update returns the error.
func (s *Store) Update(ctx context.Context, owner principal.Principal, id string,
	change func(*Task) error) (*Task, error) {
	return s.update(ctx, owner, id, s.Remaining, change)
}

// update is Update. Remaining returns how long the task still lives.
func (s *Store) update(ctx context.Context, owner principal.Principal, id string, remaining func(*Task) time.Duration,
	change func(*Task) error) (*Task, error) {
	for range maxConflicts {
		t, version, err := s.get(ctx, owner, id)
		if err != nil {
			return nil, err
		}
		before := snapshotOf(t)
		switch err := change(t); {
		case errors.Is(err, errUnchanged):
			return t, nil
		case err != nil:
			return t, err
		}
		t.Updated = s.now().UTC().Truncate(time.Millisecond)
		_, err = s.put(ctx, t, remaining(t), store.PutOptions{IfVersion: version})
		switch {
		case err == nil:
			s.logChange(ctx, before, t)
			s.Announce(ctx, owner, id)
			return t, nil
		case !errors.Is(err, store.ErrConflict):
			if ctx.Err() != nil { // it may be stored, and nobody waits for the response
				s.Announce(ctx, owner, id)
			}
			return nil, err
		}
	}
	return nil, fmt.Errorf("cannot change the task: %w", store.ErrConflict)
}

// SaveResult stores the result of a task that is about to complete, for ttl. It returns the result if it is
// short, for [Task.Complete] to include, and nil if it is in an entry of its own.
func (s *Store) SaveResult(ctx context.Context, t *Task, ttl time.Duration,
	result json.RawMessage) (inline json.RawMessage, err error) {
	if len(result) <= maxInline {
		return result, nil
	}
	if _, err := s.KV.Put(ctx, resultKey(t), result, store.PutOptions{TTL: ttl}); err != nil {
		return nil, fmt.Errorf("cannot store the result of the task: %w", err)
	}
	return nil, nil
}

// Result returns the result of a completed task.
func (s *Store) Result(ctx context.Context, t *Task) (json.RawMessage, error) {
	if t.Result != nil {
		return t.Result, nil
	}
	item, err := s.KV.Get(ctx, resultKey(t))
	if err != nil {
		return nil, readError(err)
	}
	return item.Value, nil
}

func (s *Store) put(ctx context.Context, t *Task, ttl time.Duration, opt store.PutOptions) (uint64, error) {
	raw, err := jsonscan.Marshal(t)
	if err != nil {
		return 0, fmt.Errorf("cannot encode the task: %w", err)
	}
	opt.TTL = ttl
	version, err := s.KV.Put(ctx, key(t.Request.Principal, t.ID), raw, opt)
	if err != nil {
		return 0, fmt.Errorf("cannot store the task: %w", err)
	}
	return version, nil
}
