package httpwire

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Rule U4.
func TestReconnectWaitsForTheRetryDelay(t *testing.T) {
	for _, tc := range []struct {
		stream string
		want   time.Duration
	}{
		{"retry: 3000\n\n", 3 * time.Second},
		{"retry: 3000\nid: 1\ndata: {}\n\n", 3 * time.Second},
		{"data: {}\n\n", defaultRetry},
		{"retry: 0\n\n", minRetry},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := reconnects{wait: defaultRetry}
			events := r.read(strings.NewReader(tc.stream), 1<<10)
			for {
				if _, err := events.next(); err != nil {
					break
				}
			}
			begin := time.Now()
			if !r.broke(t.Context(), events) || time.Since(begin) != tc.want {
				t.Errorf("%q: reconnected after %v, want %v", tc.stream, time.Since(begin), tc.want)
			}
			// A failed connection does not change the delay.
			begin = time.Now()
			if !r.broke(t.Context(), nil) || time.Since(begin) != tc.want {
				t.Errorf("%q: tried again after %v, want %v", tc.stream, time.Since(begin), tc.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if r.broke(ctx, nil) {
				t.Errorf("%q: reconnected after the context ended", tc.stream)
			}
		})
	}
}
