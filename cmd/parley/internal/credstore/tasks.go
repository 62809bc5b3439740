package credstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/schema"
)

// taskKeys is the beginning of the keys of tasks in a credstore.Store.
const taskKeys = "task "

// maxTasks limits the tasks that parley remembers.
const maxTasks = 1000

// taskStore keeps the ids of tasks in an encrypted file, because an id can be all that protects a
// task. It is a client.TaskStore whose methods never fail: parley prints the id, so the user does not
// need the store.
type taskStore struct {
	*Store
	warn func(error)
}

// TaskStore returns the store of tasks. Warn receives its errors.
func (l *Logins) TaskStore(warn func(error)) *taskStore { return &taskStore{l.Store, warn} }

// SaveTask implements client.TaskStore.
func (s *taskStore) SaveTask(ctx context.Context, r client.TaskRecord) error {
	all, err := s.Tasks(ctx)
	if err == nil && len(all) >= maxTasks {
		err = fmt.Errorf("there are %d tasks; parley task ls forgets those that have expired", len(all))
	}
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(r); err == nil {
			err = s.Save(ctx, taskKey(r), raw)
		}
	}
	if err != nil {
		s.warn(err)
	}
	return nil
}

// DeleteTask implements client.TaskStore.
func (s *taskStore) DeleteTask(ctx context.Context, r client.TaskRecord) error {
	if err := s.Save(ctx, taskKey(r), nil); err != nil {
		s.warn(err)
	}
	return nil
}

// taskKey returns the key of a task. An id is unique on its server only.
func taskKey(r client.TaskRecord) string { return taskKeys + r.Server + " " + r.ID }

// Tasks returns the tasks in the order of their keys.
func (s *taskStore) Tasks(ctx context.Context) (all []client.TaskRecord, err error) {
	keys, err := s.Keys(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !strings.HasPrefix(key, taskKeys) {
			continue
		}
		raw, err := s.Load(ctx, key)
		var r client.TaskRecord
		switch {
		case err != nil:
			return nil, err
		case raw != nil && schema.Decode(raw, &r) == nil: // raw is nil if it was deleted meanwhile
			all = append(all, r)
		}
	}
	return all, nil
}
