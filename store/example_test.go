package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/store"
)

// Two replicas try to acquire the same lease. One succeeds.
func ExampleKV() {
	ctx := context.Background()
	var kv store.KV = store.NewMemory()
	for _, replica := range []string{"one", "two"} {
		_, err := kv.Put(ctx, "local/lease", []byte(replica), store.PutOptions{TTL: time.Minute, IfAbsent: true})
		fmt.Println(replica, err == nil, errors.Is(err, store.ErrConflict))
	}
	lease, _ := kv.Get(ctx, "local/lease")
	fmt.Printf("%s\n", lease.Value)
	// Output:
	// one true false
	// two false true
	// one
}

// A reader that has seen entry 1 of a stream continues after it.
func ExampleLog() {
	ctx := context.Background()
	var log store.Log = store.NewMemory()
	stream := store.StreamKey{Group: "local/session/1", Stream: "events"}
	limits := store.AppendOptions{TTL: time.Minute, MaxEntries: 100, MaxBytes: 1 << 20}
	for i, event := range []string{"started", "half", "done"} {
		if err := log.Append(ctx, stream, uint64(i+1), []byte(event), limits); err != nil {
			fmt.Println(err)
		}
	}
	events, err := log.ReadAfter(ctx, stream, 1)
	fmt.Printf("%s %v\n", events, err)
	// Output: [half done] <nil>
}

// The replicas of a server tell each other what has changed.
func ExampleBus() {
	ctx := context.Background()
	var bus store.Bus = store.NewMemory()
	changes, err := bus.Subscribe(ctx, "server/changes", 100)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer changes.Close()
	if err := bus.Publish(ctx, "server/changes", []byte("tools")); err != nil {
		fmt.Println(err)
	}
	if m := <-changes.C; m.Lost {
		fmt.Println("read everything again")
	} else {
		fmt.Printf("%s have changed\n", m.Data)
	}
	// Output: tools have changed
}

// A set lists the tasks of a principal, page by page, and limits their number.
func ExampleSet() {
	ctx := context.Background()
	var set store.Set = store.NewMemory()
	for _, task := range []string{"c", "a", "d", "b"} {
		err := set.Add(ctx, "local/tasks", task, time.Minute, 3)
		fmt.Println(task, err == nil, errors.Is(err, store.ErrFull))
	}
	page, err := set.List(ctx, "local/tasks", "", 2)
	fmt.Println(page, err)
	page, err = set.List(ctx, "local/tasks", page[len(page)-1], 2)
	fmt.Println(page, err)
	// Output:
	// c true false
	// a true false
	// d true false
	// b false true
	// [a c] <nil>
	// [d] <nil>
}
