package legacy

import (
	"context"
	"sync"
	"sync/atomic"
)

// concurrently calls f with 0 to n-1, in at most the given number of goroutines, until an error
// occurs or ctx ends. It returns an error of f, or the cause of ctx.
func concurrently(ctx context.Context, goroutines, n int, f func(i int) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	errs := make([]error, min(goroutines, n))
	var workers sync.WaitGroup
	for w := range errs {
		workers.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[w] = context.Cause(ctx)
				if errs[w] == nil {
					errs[w] = f(i)
				}
				if errs[w] != nil {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
