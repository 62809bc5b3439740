package store_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parley-mcp/parley/store"
)

// Two replicas claim the same key; one of them gets it.
func ExampleKV() {
	ctx := context.Background()
	s := store.NewMemory(store.MemoryOptions{})
	for _, replica := range []string{"one", "two"} {
		_, err := s.Put(ctx, "local/lease", []byte(replica), store.PutOptions{TTL: time.Minute, IfAbsent: true})
		fmt.Println(replica, err == nil, errors.Is(err, store.ErrConflict))
	}
	lease, _ := s.Get(ctx, "local/lease")
	fmt.Printf("%s\n", lease.Value)
	// Output:
	// one true false
	// two false true
	// one
}
