package host_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
)

// unreachable is a network in which every request fails. It records their times.
type unreachable struct {
	mu       sync.Mutex
	attempts []time.Time
}

func (u *unreachable) RoundTrip(req *http.Request) (*http.Response, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.attempts = append(u.attempts, time.Now())
	return nil, errors.New("network is unreachable")
}

// since returns the times of the attempts after begin.
func (u *unreachable) since(begin time.Time) []time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	var at []time.Duration
	for _, attempt := range u.attempts {
		at = append(at, attempt.Sub(begin))
	}
	return at
}

// checkBackoff checks the times of attempts that have failed: the waits double from one
// second to the maximum, and each is shortened by at most a quarter.
func checkBackoff(t *testing.T, at []time.Duration, maximum time.Duration) {
	t.Helper()
	wait := time.Second
	for i := 1; i < len(at); i++ {
		if got := at[i] - at[i-1]; got > wait || got < wait*3/4 {
			t.Fatalf("attempt %d begins %v after the one before, want at most %v and at least three quarters of it", i+1, got, wait)
		}
		wait = min(2*wait, maximum)
	}
	if end := at[len(at)-1]; end < time.Hour-2*maximum {
		t.Errorf("the last of %d attempts in an hour is at %v", len(at), end)
	}
}

func TestServerThatHasNeverBeenReadyIsRetriedForever(t *testing.T) {
	for name, target := range map[string]client.Target{
		"network": client.URL("http://away.example/mcp"),
		"program": client.Command("no-such-program-anywhere"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host.Host{
					Servers: []host.ServerConfig{{Name: "away", Target: target}},
					Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: &unreachable{}}},
					Logger:  slog.New(slog.DiscardHandler),
				}
				if err := h.Start(); err != nil {
					t.Fatal(err)
				}
				defer h.Close()
				begin := time.Now()
				watched, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var at []time.Duration
				for status := range h.Watch(watched) {
					if status.State != host.Down {
						continue
					}
					at = append(at, time.Since(begin))
					if wait := time.Until(status.Retry); status.Err == nil || wait <= 0 || wait > time.Minute {
						t.Fatalf("the status has the error %v and the next attempt in %v", status.Err, wait)
					}
				}
				checkBackoff(t, at, time.Minute)
			})
		})
	}
}

func TestServerThatComesUpLateBecomesReadyWithoutACall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newServer("late")
		late.AllowedHosts = []string{"late.example"}
		begin := time.Now()
		h := &host.Host{
			Servers: []host.ServerConfig{{Name: "late", Target: client.URL("http://late.example/mcp")}},
			Dialer: client.Dialer{HTTPClient: &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
				if time.Since(begin) < 10*time.Minute {
					return nil, errors.New("connection refused")
				}
				answer := httptest.NewRecorder()
				late.ServeHTTP(answer, req)
				return answer.Result(), nil
			})}},
			Logger: slog.New(slog.DiscardHandler),
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		watched, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var last host.ServerStatus
		for last = range h.Watch(watched) {
			if last.State == host.Ready {
				break
			}
		}
		// The longest backoff, and the wait for the acknowledgement of a subscription, which this RoundTripper does not pass on.
		latest := 11*time.Minute + 5*time.Second
		if after := time.Since(begin); last.State != host.Ready || after < 10*time.Minute || after > latest {
			t.Errorf("the server is %v after %v: %v", last.State, after, last.Err)
		}
	})
}

// roundTripper is a function that serves as http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestCallsDuringTheBackoffDoNotDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := &unreachable{}
		h := &host.Host{
			Servers: []host.ServerConfig{{Name: "away", Target: client.URL("http://away.example/mcp")}},
			Dialer:  client.Dialer{HTTPClient: &http.Client{Transport: network}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		begin := time.Now()
		synctest.Wait()
		for range 10 {
			if _, err := h.CallTool(t.Context(), "away", "who", nil); !errors.As(err, new(*host.DownError)) {
				t.Fatalf("CallTool: %v, want a *DownError", err)
			}
		}
		if at := network.since(begin); len(at) != 1 {
			t.Errorf("attempts at %v, want only the first", at)
		}
	})
}

// locked is an Authorizer without credentials. It records the times of its calls.
type locked struct{ unreachable }

func (l *locked) Authorize(*http.Request, string) error {
	_, _ = l.RoundTrip(nil)
	return errors.New("login required")
}

func (l *locked) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

func TestServerThatRequiresLoginIsRetriedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authorizer := &locked{}
		h := &host.Host{
			Servers: []host.ServerConfig{{Name: "guarded", Target: client.URL("http://guarded.example/mcp")}},
			Dialer:  client.Dialer{Auth: authorizer, HTTPClient: &http.Client{Transport: &unreachable{}}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		if err := h.Start(); err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		begin := time.Now()
		time.Sleep(time.Hour)
		at := authorizer.since(begin)
		checkBackoff(t, at, 15*time.Second)
		if s := h.Status()[0]; !errors.Is(s.Err, client.ErrUnauthorized) {
			t.Errorf("status: %+v", s)
		}
	})
}
