//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/parley-mcp/parley/internal/storecheck"
	"github.com/parley-mcp/parley/store"
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
	h.operations = append(h.operations, porcupine.Operation{ClientId: caller, Input: input, Call: begun, Output: output,
		Return: done})
}

// check fails the test unless the history is linearizable: there is an order of the operations in which the model
// produces the same results, and in which an operation comes before all operations that began after it had ended.
func (h *history) check(t *testing.T, model porcupine.Model) {
	t.Helper()
	const limit = time.Minute
	switch result := porcupine.CheckOperationsTimeout(model, h.operations, limit); result {
	case porcupine.Ok:
	case porcupine.Illegal:
		t.Errorf("the history is not linearizable")
		for _, o := range h.operations {
			t.Errorf("%4d to %4d, caller %d: %s", o.Call, o.Return, o.ClientId,
				model.DescribeOperation(o.Input, o.Output))
		}
	default:
		t.Errorf("cannot check %d operations within %v", len(h.operations), limit)
	}
}

// partition splits a history by a part of the input, such as the key.
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

// kvInput is an operation on one key or one set.
type kvInput struct {
	method string // a method of store.KV or store.Set
	key    string
	value  string // value or member
	opt    store.PutOptions
	max    int
}

// kvOutput is the result of a kvInput.
type kvOutput struct {
	value   string // value or members
	version uint64
	err     error // one of the errors of package store
}

// item is the state of one key. A version of 0 means that there is no item.
type item struct {
	value   string
	version uint64
}

// kvModel is the specification of a key.
var kvModel = porcupine.Model{
	Partition: partition(func(input any) string { return input.(kvInput).key }),
	Init:      func() any { return item{} },
	Step: func(state, input, output any) (bool, any) {
		was, in, out := state.(item), input.(kvInput), output.(kvOutput)
		switch in.method {
		case "Get", "Touch":
			if was.version == 0 {
				return errors.Is(out.err, store.ErrNotFound), was
			}
			return out.err == nil && out.value == was.value && out.version == was.version, was
		case "Delete":
			return out.err == nil, item{}
		default:
			conflict := in.opt.IfAbsent && was.version != 0 || in.opt.IfVersion != 0 && was.version != in.opt.IfVersion
			if conflict {
				return errors.Is(out.err, store.ErrConflict), was
			}
			return out.err == nil && out.version != 0 && out.version != was.version, item{in.value, out.version}
		}
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// setModel is the specification of a set. Its state is the members, joined by spaces.
var setModel = porcupine.Model{
	Partition: partition(func(input any) string { return input.(kvInput).key }),
	Init:      func() any { return "" },
	Step: func(state, input, output any) (bool, any) {
		members, in, out := strings.Fields(state.(string)), input.(kvInput), output.(kvOutput)
		at, found := slices.BinarySearch(members, in.value)
		switch in.method {
		case "List":
			return out.err == nil && out.value == state.(string), state
		case "Remove":
			if found {
				members = slices.Delete(members, at, at+1)
			}
			return out.err == nil, strings.Join(members, " ")
		default:
			if found {
				return out.err == nil, state
			}
			if len(members) >= in.max {
				return errors.Is(out.err, store.ErrFull), state
			}
			return out.err == nil, strings.Join(slices.Insert(members, at, in.value), " ")
		}
	},
	DescribeOperation: kvModel.DescribeOperation,
}

// run executes the operation on kv.
func (in kvInput) run(kv *replicas) any {
	var out kvOutput
	ctx := context.Background()
	keep := func(got store.Item, err error) { out.value, out.version, out.err = string(got.Value), got.Version, err }
	switch in.method {
	case "Get":
		keep(kv.Get(ctx, in.key))
	case "Touch":
		keep(kv.Touch(ctx, in.key, time.Hour))
	case "Delete":
		out.err = kv.Delete(ctx, in.key)
	case "Put":
		out.version, out.err = kv.Put(ctx, in.key, []byte(in.value), in.opt)
	case "Add":
		out.err = kv.Add(ctx, in.key, in.value, time.Hour, in.max)
	case "Remove":
		out.err = kv.Remove(ctx, in.key, in.value)
	case "List":
		var members []string
		members, out.err = kv.List(ctx, in.key, "", storecheck.MaxList)
		out.value = strings.Join(members, " ")
	}
	return out
}

// callers and operations determine the size of a history. Checking takes exponential time
// in the number of operations that overlap.
const callers, operations = 5, 60

// random returns a generator for one caller of one round. The histories differ between runs
// in any case, because the goroutines are scheduled differently.
func random(caller, round int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(caller), uint64(round)))
}

func testKVHistory(t *testing.T, kv *replicas, keys int, methods ...string) {
	for round := range 3 {
		var h history
		concurrently(callers, func(caller int) {
			r := random(caller, round)
			seen := make(map[string]uint64) // the latest version that the caller knows of each key
			for n := range operations {
				in := kvInput{method: methods[r.IntN(len(methods))], key: fmt.Sprint("k", round, " ", r.IntN(keys))}
				if in.method == "Put" {
					in.value, in.opt.TTL = fmt.Sprint(caller, ".", n), time.Hour
				}
				if in.method == "Create" {
					in.method, in.value, in.opt = "Put", fmt.Sprint(caller, ".", n),
						store.PutOptions{TTL: time.Hour, IfAbsent: true}
				}
				if in.method == "Replace" {
					in.method, in.value, in.opt = "Put", fmt.Sprint(caller, ".", n),
						store.PutOptions{TTL: time.Hour, IfVersion: max(seen[in.key], 1)}
				}
				h.do(caller, in, func() any {
					out := in.run(kv).(kvOutput)
					if out.err == nil && out.version != 0 {
						seen[in.key] = out.version
					}
					return out
				})
			}
		})
		h.check(t, kvModel)
	}
}

// testSetHistory lets several callers add, remove and list members of two sets.
func testSetHistory(t *testing.T, sets *replicas) {
	for round := range 3 {
		var h history
		concurrently(callers, func(caller int) {
			r := random(caller, round)
			for range operations {
				in := kvInput{key: fmt.Sprint("s", round, " ", r.IntN(2)), value: string(rune('a' + r.IntN(5))), max: 3}
				in.method = []string{"Add", "Add", "Remove", "List", "List"}[r.IntN(5)]
				h.do(caller, in, func() any { return in.run(sets) })
			}
		})
		h.check(t, setModel)
	}
}

// logInput is an operation on one stream that is alone in its group.
type logInput struct {
	method     string // a method of store.Log
	group      string
	seq        uint64
	entry      string
	maxEntries int
}

type logOutput struct {
	entries string // joined by spaces
	err     error
}

// logState is the state of a stream: its entries, joined by spaces, and the number of the last.
type logState struct {
	entries string
	last    uint64
}

// logModel is the specification of a stream.
var logModel = porcupine.Model{
	Partition: partition(func(input any) string { return input.(logInput).group }),
	Init:      func() any { return logState{} },
	Step: func(state, input, output any) (bool, any) {
		was, in, out := state.(logState), input.(logInput), output.(logOutput)
		entries := strings.Fields(was.entries)
		switch in.method {
		case "Drop":
			return out.err == nil, logState{}
		case "Append":
			if len(entries) > 0 && in.seq != was.last+1 {
				return errors.Is(out.err, store.ErrConflict), was
			}
			entries = append(entries, in.entry)
			entries = entries[max(0, len(entries)-in.maxEntries):]
			return out.err == nil, logState{strings.Join(entries, " "), in.seq}
		default:
			if len(entries) == 0 || in.seq > was.last {
				return errors.Is(out.err, store.ErrNotFound), was
			}
			wanted := int(was.last - in.seq)
			if wanted > len(entries) {
				return errors.Is(out.err, store.ErrPurged), was
			}
			return out.err == nil && out.entries == strings.Join(entries[len(entries)-wanted:], " "), was
		}
	},
	DescribeOperation: kvModel.DescribeOperation,
}

// run executes the operation on log.
func (in logInput) run(log *replicas) any {
	ctx, key := context.Background(), store.StreamKey{Group: in.group, Stream: "s"}
	var out logOutput
	switch in.method {
	case "Drop":
		out.err = log.Drop(ctx, in.group)
	case "Append":
		opt := store.AppendOptions{TTL: time.Hour, MaxEntries: in.maxEntries, MaxBytes: 1 << 20}
		out.err = log.Append(ctx, key, in.seq, []byte(in.entry), opt)
	case "ReadAfter":
		entries, err := log.ReadAfter(ctx, key, in.seq)
		texts := make([]string, len(entries))
		for i, entry := range entries {
			texts[i] = string(entry)
		}
		out.entries, out.err = strings.Join(texts, " "), err
	}
	return out
}

// testLogHistory lets several callers read and try to write the next number. Each entry
// names its caller, so two entries with the same number are noticed.
func testLogHistory(t *testing.T, log *replicas, maxEntries int, methods ...string) {
	for round := range 3 {
		var h history
		concurrently(callers, func(caller int) {
			r := random(caller, round)
			var next [2]uint64
			for n := range operations {
				g := r.IntN(2)
				in := logInput{method: methods[r.IntN(len(methods))], group: fmt.Sprint("g", round, " ", g),
					maxEntries: maxEntries}
				switch in.method {
				case "Append":
					in.seq, in.entry = next[g]+1, fmt.Sprint(caller, ".", n)
				case "ReadAfter":
					in.seq = next[g] - min(next[g], uint64(r.IntN(3)))
				}
				h.do(caller, in, func() any {
					out := in.run(log).(logOutput)
					switch {
					case in.method == "Append" && (out.err == nil || errors.Is(out.err, store.ErrConflict)):
						next[g]++ // written by this caller or by another
					case in.method == "ReadAfter" && out.err == nil:
						next[g] = in.seq + uint64(len(strings.Fields(out.entries)))
					case errors.Is(out.err, store.ErrNotFound):
						next[g] = 0
					}
					return out
				})
			}
		})
		h.check(t, logModel)
	}
}

// concurrently runs f in n goroutines at once and waits for all of them.
func concurrently(n int, f func(caller int)) {
	var wg sync.WaitGroup
	start := make(chan struct{})
	for caller := range n {
		wg.Go(func() {
			<-start
			f(caller)
		})
	}
	close(start)
	wg.Wait()
}

// Concurrent callers of two replicas see results that some order of operations explains.
func TestHistoriesAreLinearizable(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		s := start(t, program)
		for name, test := range map[string]func(t *testing.T, r *replicas){
			"Items": func(t *testing.T, r *replicas) {
				testKVHistory(t, r, 3, "Get", "Get", "Put", "Create", "Replace", "Replace", "Touch", "Delete")
			},
			"Lease": func(t *testing.T, r *replicas) {
				testKVHistory(t, r, 1, "Get", "Create", "Create", "Replace", "Replace", "Delete")
			},
			"Sets":   testSetHistory,
			"Stream": func(t *testing.T, r *replicas) { testLogHistory(t, r, 1000, "Append", "ReadAfter") },
			"PurgedStream": func(t *testing.T, r *replicas) {
				testLogHistory(t, r, 2, "Append", "Append", "ReadAfter")
			},
			"DroppedGroup": func(t *testing.T, r *replicas) {
				testLogHistory(t, r, 1000, "Append", "Append", "Append", "ReadAfter", "ReadAfter", "ReadAfter", "Drop")
			},
		} {
			t.Run(name, func(t *testing.T) { test(t, openReplicas(t, at(s.addr), s)) })
		}
	})
}
