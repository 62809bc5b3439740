package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/parley-mcp/parley/store"
)

// logInput is an operation on one stream that is alone in its group.
type logInput struct {
	method     string // of store.Log
	group      string
	seq        uint64
	entry      string
	maxEntries int
}

type logOutput struct {
	entries string // joined by spaces
	err     error
}

// logState is the state of a stream: its entries, joined by spaces, and the number of the
// last.
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
func (in logInput) run(log store.Log) any {
	ctx, key := context.Background(), stream(in.group, "s")
	var out logOutput
	switch in.method {
	case "Drop":
		out.err = log.Drop(ctx, in.group)
	case "Append":
		opt := generous
		opt.MaxEntries = in.maxEntries
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

// testLogHistory has several callers that each try to write the next number and read. Each
// entry names its caller, so two entries with one number are found.
func testLogHistory(t tb, log store.Log, maxEntries int, methods ...string) {
	for round := range 3 {
		var h history
		concurrently(callers, func(caller int) {
			r := random(caller, round)
			var next [2]uint64
			for n := range operations {
				g := r.IntN(2)
				in := logInput{method: methods[r.IntN(len(methods))], group: fmt.Sprint("g", round, " ", g), maxEntries: maxEntries}
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
						next[g]++ // written by this caller or another one
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

var logHistoryCases = []testCase[store.Log]{
	{"HistoryOfStreamIsLinearizable", func(t tb, log store.Log) {
		testLogHistory(t, log, 1000, "Append", "ReadAfter")
	}},
	{"HistoryOfPurgedStreamIsLinearizable", func(t tb, log store.Log) {
		testLogHistory(t, log, 2, "Append", "Append", "ReadAfter")
	}},
	{"HistoryOfDroppedGroupIsLinearizable", func(t tb, log store.Log) {
		testLogHistory(t, log, 1000, "Append", "Append", "Append", "ReadAfter", "ReadAfter", "ReadAfter", "Drop")
	}},
}
