package tasks

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// 2025-11-25, basic/utilities/tasks, Task Status Lifecycle: a task in a terminal status must not change its status.
func TestEndedTasksDoNotChange(t *testing.T) {
	question := rpc.InputRequest{Method: mcp.MethodElicit, Params: json.RawMessage(`{"message":"?"}`)}
	answer := map[string]json.RawMessage{"k": json.RawMessage(`{"action":"accept"}`)}
	failure := &jsonrpc.Error{Code: -32603, Message: "failed"}
	ends := map[string]func(*Task) error{
		"complete": func(t *Task) error { return t.Complete(json.RawMessage(`{}`), false) },
		"fail":     func(t *Task) error { return t.Fail(failure) },
		"cancel":   (*Task).Cancel,
	}
	changes := map[string]func(*Task) error{
		"ask":      func(t *Task) error { return t.Ask("k2", question) },
		"answer":   func(t *Task) error { return t.Answer(answer) },
		"reject":   func(t *Task) error { return t.Reject("k", failure) },
		"describe": func(t *Task) error { return t.Describe("text") },
	}
	for name, change := range ends {
		changes[name] = change
	}
	for end, finish := range ends {
		for name, change := range changes {
			task := &Task{Status: mcp.TaskWorking}
			err := task.Ask("k", question)
			must.That(t, err == nil && task.Status == mcp.TaskInputRequired, "%v %v", err, task.Status)
			if err := finish(task); err != nil || !task.Status.Terminal() {
				t.Fatal(end, err, task.Status)
			}
			before, _ := json.Marshal(task)
			if err := change(task); err == nil {
				t.Errorf("%s after %s has no error", name, end)
			}
			after, _ := json.Marshal(task)
			must.CheckThat(t, string(after) == string(before), "%s after %s: %s, before %s", name, end, after, before)
		}
	}
}

// Tasks extension, Task Update Requests: a part of the answers leaves the task in input_required,
// and keys that are not outstanding are ignored.
func TestTaskWorksAgainWhenAllQuestionsAreAnswered(t *testing.T) {
	task := &Task{Status: mcp.TaskWorking}
	for _, key := range []string{"a", "b"} {
		must.Do(t, task.Ask(key, rpc.InputRequest{Method: mcp.MethodElicit,
			Params: json.RawMessage(`{"message":"` + key + `"}`)}))
	}
	responses := func(text string) map[string]json.RawMessage {
		m := make(map[string]json.RawMessage)
		must.Do(t, json.Unmarshal([]byte(text), &m))
		return m
	}
	for _, step := range []struct {
		responses string
		changed   bool
		open      string
		status    mcp.TaskStatus
	}{
		{`{}`, false, "a,b", mcp.TaskInputRequired},
		{`{"c":{}}`, false, "a,b", mcp.TaskInputRequired},
		{`{"a":"text","b":null}`, false, "a,b", mcp.TaskInputRequired},
		{`{"a":{"n":1},"c":{}}`, true, "b", mcp.TaskInputRequired},
		{`{"a":{"n":2}}`, false, "b", mcp.TaskInputRequired},
		{`{"b":{"n":3}}`, true, "", mcp.TaskWorking},
		{`{"b":{"n":4}}`, false, "", mcp.TaskWorking},
	} {
		err := task.Answer(responses(step.responses))
		var open []string
		for _, key := range []string{"a", "b"} {
			if _, ok := task.Open()[key]; ok {
				open = append(open, key)
			}
		}
		if (err == nil) != step.changed || strings.Join(open, ",") != step.open || task.Status != step.status {
			t.Errorf("%s: %v, open %s, status %s", step.responses, err, open, task.Status)
		}
	}
	must.CheckEqual(t, string(task.Questions["a"].Answer)+string(task.Questions["b"].Answer), `{"n":1}{"n":3}`)
}

func TestQuestionsOfATaskAreLimited(t *testing.T) {
	for _, size := range []int{1, 64 << 10} {
		task := &Task{Status: mcp.TaskWorking}
		n := 0
		var err error
		for ; err == nil && n < 10_000; n++ {
			params, _ := json.Marshal(strings.Repeat("x", size) + string(rune('a'+n%26)))
			err = task.Ask(strings.Repeat("k", n+1), rpc.InputRequest{Method: mcp.MethodElicit, Params: params})
		}
		encoded, _ := json.Marshal(task)
		must.CheckThat(t, errors.Is(err, errTooManyQuestions) && len(encoded) <= 2*maxQuestionBytes,
			"questions of %d bytes: %d accepted, %d bytes, %v", size, n, len(encoded), err)
	}
	task := &Task{Status: mcp.TaskWorking}
	_ = task.Ask("k", rpc.InputRequest{Method: mcp.MethodElicit})
	err := task.Answer(map[string]json.RawMessage{"k": json.RawMessage(`{"a":"` +
		strings.Repeat("x", maxQuestionBytes) + `"}`)})
	must.CheckThat(t, err != nil, "an answer of more than 1 MiB was accepted")
}

func TestStatusMessageIsCutAtACharacter(t *testing.T) {
	task := &Task{Status: mcp.TaskWorking}
	err := task.Describe(strings.Repeat("é", maxMessage))
	must.CheckThat(t, err == nil && len(task.Message) == maxMessage, "%d bytes, %v", len(task.Message), err)
	if err := task.Describe("x" + strings.Repeat("é", maxMessage)); err != nil ||
		!strings.HasSuffix(task.Message, "é") || len(task.Message) != maxMessage-1 {
		t.Errorf("%d bytes, %v", len(task.Message), err)
	}
}
