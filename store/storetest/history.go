package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// history records operations of concurrent callers.
type history struct {
	clock      atomic.Int64
	mu         sync.Mutex
	operations []porcupine.Operation
}

// do calls operation and records its input and its result.
func (h *history) do(caller int, input any, operation func() any) {
	begun := h.clock.Add(1)
	output := operation()
	done := h.clock.Add(1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.operations = append(h.operations, porcupine.Operation{ClientId: caller, Input: input, Call: begun, Output: output, Return: done})
}

// check fails the test unless the history is linearizable: there is an order of the
// operations in which the model gives their results, and in which an operation that had
// ended comes before those that began later.
func (h *history) check(t tb, model porcupine.Model) {
	t.Helper()
	const limit = time.Minute
	switch result := porcupine.CheckOperationsTimeout(model, h.operations, limit); result {
	case porcupine.Ok:
	case porcupine.Illegal:
		t.Errorf("the history is not linearizable")
		for _, o := range h.operations {
			t.Errorf("%4d to %4d, caller %d: %s", o.Call, o.Return, o.ClientId, model.DescribeOperation(o.Input, o.Output))
		}
	default:
		t.Errorf("cannot check %d operations within %v", len(h.operations), limit)
	}
}

// partition divides a history by a part of the input, such as the key.
func partition(of func(input any) string) func([]porcupine.Operation) [][]porcupine.Operation {
	return func(all []porcupine.Operation) [][]porcupine.Operation {
		parts := make(map[string][]porcupine.Operation)
		for _, o := range all {
			part := of(o.Input)
			parts[part] = append(parts[part], o)
		}
		var list [][]porcupine.Operation
		for _, part := range parts {
			list = append(list, part)
		}
		return list
	}
}
