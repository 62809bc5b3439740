package client_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/parley-mcp/parley/client"
)

// records is a TaskStore in memory.
type records struct {
	mu   sync.Mutex
	log  []string
	fail error
}

func (r *records) SaveTask(_ context.Context, record client.TaskRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, "save "+record.Server+" "+record.ID+" "+record.Tool)
	return r.fail
}

func (r *records) DeleteTask(_ context.Context, record client.TaskRecord) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, "delete "+record.Server+" "+record.ID+" "+record.Tool)
	return r.fail
}

func (r *records) dialer(d *client.Dialer) { d.Tasks = r }

func TestTasksAreSavedUntilTheyEnd(t *testing.T) {
	for name, last := range map[string]string{
		"completed": state("completed", outcome), "failed": state("failed", `"error":{"code":1,"message":"x"}`),
		"cancelled": state("cancelled", ""), "forgotten": forgotten,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r records
				c, _ := dialTask(t, r.dialer, taskServer(state("working", ""), last))
				task, err := c.StartTool(t.Context(), "a", nil)
				if err != nil {
					t.Fatal(err)
				}
				if want := []string{"save memory t a"}; !slices.Equal(r.log, want) {
					t.Errorf("%q, want %q", r.log, want)
				}
				_, _ = task.Wait(t.Context())
				if want := []string{"save memory t a", "delete memory t a"}; !slices.Equal(r.log, want) {
					t.Errorf("%q, want %q", r.log, want)
				}
			})
		})
	}
}

// A task whose outcome is unknown remains in the store.
func TestTaskWithUnknownOutcomeRemainsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r records
		c, _ := dialTask(t, r.dialer, taskServer(methodNotFound))
		if _, err := c.CallTool(t.Context(), "a", nil, client.WithoutTaskCancel()); err == nil {
			t.Fatal("no error")
		}
		if want := []string{"save memory t a"}; !slices.Equal(r.log, want) {
			t.Errorf("%q, want %q", r.log, want)
		}
	})
}

func TestTaskThatCannotBeSavedIsCancelled(t *testing.T) {
	r := records{fail: errors.New("the disk is full")}
	c, out := dialTask(t, r.dialer, taskServer())
	_, err := c.StartTool(t.Context(), "a", nil)
	var unknown *client.TaskError
	if !errors.Is(err, r.fail) || !errors.As(err, &unknown) || unknown.ID != "t" {
		t.Errorf("%v", err)
	}
	if got := out.of("tasks/cancel"); len(got) != 1 {
		t.Errorf("tasks/cancel %q", got)
	}
}

// The outcome matters more than an error of the store.
func TestOutcomeIsReturnedIfTheRecordCannotBeDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := records{fail: errors.New("the disk is full")}
		c, _ := dialTask(t, r.dialer, taskServer(state("completed", outcome)))
		task, err := c.Task("t")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := task.Wait(t.Context()); err != nil {
			t.Error(err)
		}
		if want := []string{"delete memory t "}; !slices.Equal(r.log, want) {
			t.Errorf("%q, want %q", r.log, want)
		}
	})
}

// A program may learn from any request that a task no longer exists.
func TestTaskThatDoesNotExistIsDeleted(t *testing.T) {
	for name, request := range map[string]func(*client.Task, context.Context) error{
		"get":    func(task *client.Task, ctx context.Context) error { _, err := task.Get(ctx); return err },
		"cancel": (*client.Task).Cancel,
		"wait":   func(task *client.Task, ctx context.Context) error { _, err := task.Wait(ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var r records
			s := taskServer(forgotten)
			s.Answers["tasks/cancel"] = []string{forgotten}
			c, _ := dialTask(t, r.dialer, s)
			task, err := c.Task("t")
			if err != nil {
				t.Fatal(err)
			}
			if err := request(task, t.Context()); !errors.Is(err, client.ErrTaskNotFound) {
				t.Errorf("%v, want ErrTaskNotFound", err)
			}
			if want := []string{"delete memory t "}; !slices.Equal(r.log, want) {
				t.Errorf("%q, want %q", r.log, want)
			}
		})
	}
}

func TestTaskThatServerCannotCancelRemainsSaved(t *testing.T) {
	var r records
	s := taskServer(state("working", ""))
	s.Answers["tasks/cancel"] = []string{methodNotFound}
	c, _ := dialTask(t, r.dialer, s)
	task, err := c.Task("t")
	if err != nil {
		t.Fatal(err)
	}
	if err := task.Cancel(t.Context()); err == nil {
		t.Error("no error")
	}
	if _, err := task.Get(t.Context()); err != nil {
		t.Error(err)
	}
	if r.log != nil {
		t.Errorf("%q, want nothing", r.log)
	}
}
