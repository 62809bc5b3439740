package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/parley-mcp/parley/store"
)

// kvInput is an operation on one key or one set.
type kvInput struct {
	method string // of store.KV
	key    string
	value  string // or the member
	opt    store.PutOptions
	max    int
}

// kvOutput is its result.
type kvOutput struct {
	value   string // or the members
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
func (in kvInput) run(kv store.KV) any {
	var out kvOutput
	ctx := context.Background()
	keep := func(got store.Item, err error) { out.value, out.version, out.err = string(got.Value), got.Version, err }
	switch in.method {
	case "Get":
		keep(kv.Get(ctx, in.key))
	case "Touch":
		keep(kv.Touch(ctx, in.key, forever))
	case "Delete":
		out.err = kv.Delete(ctx, in.key)
	case "Put":
		out.version, out.err = kv.Put(ctx, in.key, []byte(in.value), in.opt)
	case "Add":
		out.err = kv.Add(ctx, in.key, in.value, store.AddOptions{TTL: forever, Max: in.max})
	case "Remove":
		out.err = kv.Remove(ctx, in.key, in.value)
	case "List":
		var members []string
		members, out.err = kv.List(ctx, in.key, "", store.MaxList)
		out.value = strings.Join(members, " ")
	}
	return out
}

// callers and operations are the size of a history. Checking takes exponential time in the
// number of operations that overlap.
const callers, operations = 5, 60

// random returns a generator for one caller of one round. The histories differ between runs
// in any case, because the goroutines are scheduled differently.
func random(caller, round int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(caller), uint64(round)))
}

func testKVHistory(t tb, kv store.KV, keys int, methods ...string) {
	for round := range 3 {
		var h history
		concurrently(callers, func(caller int) {
			r := random(caller, round)
			seen := make(map[string]uint64) // the latest version that the caller knows of each key
			for n := range operations {
				in := kvInput{method: methods[r.IntN(len(methods))], key: fmt.Sprint("k", round, " ", r.IntN(keys))}
				if in.method == "Put" {
					in.value, in.opt.TTL = fmt.Sprint(caller, ".", n), forever
				}
				if in.method == "Create" {
					in.method, in.value, in.opt = "Put", fmt.Sprint(caller, ".", n), store.PutOptions{TTL: forever, IfAbsent: true}
				}
				if in.method == "Replace" {
					in.method, in.value, in.opt = "Put", fmt.Sprint(caller, ".", n), store.PutOptions{TTL: forever, IfVersion: max(seen[in.key], 1)}
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

var kvHistoryCases = []testCase[store.KV]{
	{"HistoryOfItemsIsLinearizable", func(t tb, kv store.KV) {
		testKVHistory(t, kv, 3, "Get", "Get", "Put", "Create", "Replace", "Replace", "Touch", "Delete")
	}},
	{"HistoryOfLeaseIsLinearizable", func(t tb, kv store.KV) {
		testKVHistory(t, kv, 1, "Get", "Create", "Create", "Replace", "Replace", "Delete")
	}},
	{"HistoryOfCompareAndSwapIsLinearizable", func(t tb, kv store.KV) {
		testKVHistory(t, kv, 1, "Get", "Replace", "Replace", "Create")
	}},
	{"HistoryOfSetsIsLinearizable", func(t tb, kv store.KV) {
		for round := range 3 {
			var h history
			concurrently(callers, func(caller int) {
				r := random(caller, round)
				for range operations {
					in := kvInput{key: fmt.Sprint("s", round, " ", r.IntN(2)), value: string(rune('a' + r.IntN(5))), max: 3}
					in.method = []string{"Add", "Add", "Remove", "List", "List"}[r.IntN(5)]
					h.do(caller, in, func() any { return in.run(kv) })
				}
			})
			h.check(t, setModel)
		}
	}},
}
