package storetest

import (
	"context"
	"math"

	"github.com/parley-mcp/parley/store"
)

var logTTLCases = []testCase[store.Log]{
	{"GroupExistsUntilItExpires", func(t tb, log store.Log) {
		short := generous
		short.TTL = life
		add(t, log, stream("g", "a"), 1, 1, short)
		advance(log, life/2)
		add(t, log, stream("g", "b"), 1, 1, short) // extends the life of the whole group
		advance(log, life/2+slack)
		wantAfter(t, log, stream("g", "a"), 0, 1)
		advance(log, life/2)
		wantNoRead(t, log, stream("g", "a"), 0, store.ErrNotFound)
		wantNoRead(t, log, stream("g", "b"), 0, store.ErrNotFound)
		add(t, log, stream("g", "a"), 2, 2, short) // the writer continues its numbers
		wantNoRead(t, log, stream("g", "a"), 0, store.ErrPurged)
		wantAfter(t, log, stream("g", "a"), 1, 2)
	}},
	{"AppendNeverShortensTimeToLive", func(t tb, log store.Log) {
		short := generous
		short.TTL = life
		add(t, log, stream("g", "a"), 1, 1, generous)
		add(t, log, stream("g", "a"), 2, 2, short)
		advance(log, life+slack)
		wantAfter(t, log, stream("g", "a"), 0, 2)
	}},
	{"ReadAfterDoesNotExtendTimeToLive", func(t tb, log store.Log) {
		short := generous
		short.TTL = life
		add(t, log, stream("g", "a"), 1, 1, short)
		advance(log, life/2)
		wantAfter(t, log, stream("g", "a"), 0, 1)
		advance(log, life/2+slack)
		wantNoRead(t, log, stream("g", "a"), 0, store.ErrNotFound)
	}},
	{"ConflictDoesNotExtendTimeToLiveOfGroup", func(t tb, log store.Log) {
		key, short := stream("g", "s"), generous
		short.TTL = life
		add(t, log, key, 1, 1, short)
		wantError(t, "Append", log.Append(context.Background(), key, 1, nil, generous), store.ErrConflict)
		advance(log, life+slack)
		wantNoRead(t, log, key, 0, store.ErrNotFound)
	}},
	{"GroupsExpireIndependently", func(t tb, log store.Log) {
		short := generous
		short.TTL = life
		add(t, log, stream("g", "s"), 1, 1, short)
		add(t, log, stream("h", "s"), 1, 1, generous)
		advance(log, life+slack)
		wantNoRead(t, log, stream("g", "s"), 0, store.ErrNotFound)
		wantAfter(t, log, stream("h", "s"), 0, 1)
	}},
	{"MaximumTimeToLiveOfGroupDoesNotOverflow", func(t tb, log store.Log) {
		opt := generous
		opt.TTL = math.MaxInt64
		add(t, log, stream("g", "s"), 1, 2, opt)
		advance(log, slack)
		wantAfter(t, log, stream("g", "s"), 0, 2)
	}},
}
