package tasks

import (
	"context"
	"log/slog"

	"github.com/parley-mcp/parley/internal/digest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/principal"
)

// The audit log has a record of each change of a task: who has caused it, but no arguments, questions,
// answers, results or errors (2025-11-25, basic/utilities/tasks, Audit and Logging).

// loggedDigest is the length of the digests in log records.
const loggedDigest = 16

// LogID returns the attribute that identifies a task in log records. It has a digest of the id, because
// the id of an anonymous caller's task gives access to it.
func LogID(id string) slog.Attr { return slog.String("task", digest.Of(id)[:loggedDigest]) }

func logPrincipal(p principal.Principal) slog.Attr {
	if p == principal.Anonymous {
		return slog.String("principal", "anonymous")
	}
	return slog.String("principal", digest.Of(p.Key())[:loggedDigest])
}

// snapshot is the part of a task whose changes are logged.
type snapshot struct {
	status          mcp.TaskStatus
	replica         string
	questions, open int
}

func snapshotOf(t *Task) snapshot {
	s := snapshot{status: t.Status, replica: t.Replica, questions: len(t.Questions)}
	for _, q := range t.Questions {
		if q.IsOpen() {
			s.open++
		}
	}
	return s
}

func (s *Store) logCreated(ctx context.Context, t *Task) {
	name, _ := jsonrpc.Get(t.Request.Params, "name")
	s.log(ctx, slog.LevelInfo, "task created", t, slog.String("tool", jsonrpc.Unquote(name)),
		slog.Bool("parked", t.Parked))
}

// LogRetrieved logs that the outcome of a task was sent to its client.
func (s *Store) LogRetrieved(ctx context.Context, t *Task) {
	s.log(ctx, slog.LevelDebug, "task outcome retrieved", t, slog.String("status", string(t.Status)))
}

// logChange logs what has changed since before.
func (s *Store) logChange(ctx context.Context, before snapshot, t *Task) {
	now := snapshotOf(t)
	switch {
	case now.status.Terminal():
		s.log(ctx, slog.LevelInfo, "task ended", t, slog.String("status", string(now.status)),
			slog.Bool("tool_failed", t.Failed))
		return
	case now.replica != before.replica:
		s.log(ctx, slog.LevelInfo, "task taken over", t, slog.Int("runs", t.Runs))
	}
	asked := now.questions - before.questions
	if asked > 0 {
		s.log(ctx, slog.LevelDebug, "task requests input", t, slog.Int("requests", asked))
	}
	if answered := before.open + asked - now.open; answered > 0 {
		s.log(ctx, slog.LevelDebug, "task received input", t, slog.Int("responses", answered))
	}
}

func (s *Store) log(ctx context.Context, level slog.Level, text string, t *Task, more ...slog.Attr) {
	if s.Logger != nil {
		s.Logger.LogAttrs(ctx, level, text, append([]slog.Attr{LogID(t.ID), logPrincipal(t.Request.Principal)},
			more...)...)
	}
}
