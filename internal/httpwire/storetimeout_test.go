package httpwire

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A timeout ends at its time, whether or not its Done channel was needed before.
func TestTimeoutEndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, waits := range []bool{false, true} {
			ctx := &timeout{at: time.Now().Add(time.Second)}
			if waits {
				select {
				case <-ctx.Done():
					t.Fatal("it ended early")
				default:
				}
			}
			if at, ok := ctx.Deadline(); ctx.Err() != nil || !ok || !at.Equal(ctx.at) {
				t.Errorf("before: %v, deadline %v, %v", ctx.Err(), at, ok)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("after: %v", err)
			}
			<-ctx.Done()
			child, cancel := context.WithCancel(ctx)
			if <-child.Done(); !errors.Is(child.Err(), context.DeadlineExceeded) {
				t.Errorf("child: %v", child.Err())
			}
			cancel()
			ctx.stop()
		}
	})
}
