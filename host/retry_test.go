package host_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/host"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

// unreachable is a network in which every request fails. It records when they were sent.
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

// checkBackoff checks when attempts were made that failed: the waits double from one
// second to the maximum, and each is shortened by at most a quarter.
func checkBackoff(t *testing.T, at []time.Duration, maximum time.Duration) {
	t.Helper()
	wait := time.Second
	for i := 1; i < len(at); i++ {
		if got := at[i] - at[i-1]; got > wait || got < wait*3/4 {
			t.Fatalf("attempt %d begins %v after the one before, want at most %v and at least three quarters of it",
				i+1, got, wait)
		}
		wait = min(2*wait, maximum)
	}
	end := at[len(at)-1]
	must.CheckThat(t, end >= time.Hour-2*maximum, "the last of %d attempts in an hour is at %v", len(at), end)
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
				must.Do(t, h.Start())
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
			Dialer: client.Dialer{HTTPClient: &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response,
				error) {
				if time.Since(begin) < 10*time.Minute {
					return nil, errors.New("connection refused")
				}
				answer := httptest.NewRecorder()
				late.ServeHTTP(answer, req)
				return answer.Result(), nil
			})}},
			Logger: slog.New(slog.DiscardHandler),
		}
		must.Do(t, h.Start())
		defer h.Close()
		watched, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		var last host.ServerStatus
		for last = range h.Watch(watched) {
			if last.State == host.Ready {
				break
			}
		}
		// The longest backoff plus the wait for the acknowledgement of a subscription, which this RoundTripper does
		// not pass on.
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
		must.Do(t, h.Start())
		defer h.Close()
		begin := time.Now()
		synctest.Wait()
		for range 10 {
			_, err := h.Client("away").CallTool(t.Context(), "who", nil)
			must.That(t, errors.As(err, new(*host.DownError)), "CallTool: %v, want a *DownError", err)
		}
		at := network.since(begin)
		must.CheckEqual(t, len(at), 1, at)
	})
}

// locked is an Authorizer without credentials. It records when it is called.
type locked struct{ unreachable }

func (l *locked) Authorize(*http.Request, string) error {
	_, _ = l.RoundTrip(nil)
	return errors.New("login required")
}

func (l *locked) Reauthorize(*http.Request, string, *http.Response) (bool, error) { return false, nil }

// A server that requires a login is tried again soon at first, and rarely later.
func TestServerThatRequiresLoginIsTriedMoreAndMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		authorizer := &locked{}
		h := &host.Host{
			Servers: []host.ServerConfig{{Name: "guarded", Target: client.URL("http://guarded.example/mcp")}},
			Dialer:  client.Dialer{Auth: authorizer, HTTPClient: &http.Client{Transport: &unreachable{}}},
			Logger:  slog.New(slog.DiscardHandler),
		}
		must.Do(t, h.Start())
		defer h.Close()
		begin := time.Now()
		time.Sleep(24 * time.Hour)
		at := authorizer.since(begin)
		checkBackoff(t, at, time.Hour)
		must.CheckThat(t, len(at) <= 50, "%d attempts in a day", len(at))
		s := h.Status()[0]
		must.CheckIs(t, s.Err, call.ErrUnauthorized, s)
		before := len(at)
		for range 10 {
			h.LoginsChanged()
			time.Sleep(time.Second)
		}
		must.CheckEqual(t, len(authorizer.since(begin)), before+1, "after logins")
	})
}

// A server that rejects the credentials of its target is not asked again and again: that can lock the account.
func TestRejectedCredentialsAreNotSentAgainAndAgain(t *testing.T) {
	for name, c := range map[string]struct {
		status     int
		retryAfter string
		most       int // maximum number of requests in a day
	}{"rejected": {401, "", 33}, "later": {401, "7200", 33}, "overloaded": {503, "1800", 66}} {
		synctest.Test(t, func(t *testing.T) {
			network := &unreachable{}
			target := &client.HTTPTarget{URL: "http://guarded.example/mcp",
				Header: http.Header{"Authorization": {"Bearer old"}}}
			h := &host.Host{
				Servers: []host.ServerConfig{{Name: "guarded", Target: target}},
				Dialer: client.Dialer{HTTPClient: &http.Client{Transport: roundTripper(
					func(req *http.Request) (*http.Response, error) {
						_, _ = network.RoundTrip(req)
						answer := httptest.NewRecorder()
						if c.retryAfter != "" {
							answer.Header().Set("Retry-After", c.retryAfter)
						}
						answer.WriteHeader(c.status)
						return answer.Result(), nil
					})}},
				Logger: slog.New(slog.DiscardHandler),
			}
			must.Do(t, h.Start())
			defer h.Close()
			begin := time.Now()
			time.Sleep(time.Minute)
			first := len(network.since(begin))
			if first > 2 {
				t.Errorf("%s: requests at %v", name, network.since(begin))
			}
			if c.status == 401 { // a call is worth an attempt: the credentials may be valid again
				for range 100 {
					_, err := h.Client("guarded").CallTool(t.Context(), "t", nil)
					must.CheckThat(t, errors.Is(err, call.ErrUnauthorized) || errors.As(err, new(*host.DownError)),
						"%s: %v", name, err)
				}
				if n := len(network.since(begin)); c.retryAfter == "" && n != 2*first || c.retryAfter != "" && n != first {
					t.Errorf("%s: requests for calls at %v", name, network.since(begin))
				}
			}
			time.Sleep(24 * time.Hour)
			at := network.since(begin)
			must.CheckThat(t, len(at) <= c.most*first, "%s: %d requests in a day", name, len(at))
			h.Status()
		})
	}
}

// A server that does not become ready does not hold anything up for long, whichever request it leaves
// unanswered.
func TestStartOfAServerHasOneLimit(t *testing.T) {
	for _, hangs := range []string{mcp.MethodInitialize, mcp.MethodListTools} {
		for _, limit := range []time.Duration{0, 5 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				s := newServer("slow")
				s.Middleware = append(s.Middleware, func(next call.Handler) call.Handler {
					return func(ctx context.Context, c *call.Call) (any, error) {
						if c.Method() == hangs {
							<-release
						}
						return next(ctx, c)
					}
				})
				config := configOf(t, s, "slow")
				config.StartTimeout, config.Revision = limit, mcp.V20251125
				h := &host.Host{Servers: []host.ServerConfig{config}, Logger: slog.New(slog.DiscardHandler)}
				must.Do(t, h.Start())
				defer h.Close()
				begin := time.Now()
				down := new(host.DownError)
				if err := h.WaitReady(t.Context()); !errors.As(err, &down) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%s: %v", hangs, err)
				}
				if limit > 0 {
					must.CheckContains(t, down.Error(), "not ready within 5s", hangs)
				}
				if took, most := time.Since(begin), cmp.Or(limit, 46*time.Second); took > most+time.Second {
					t.Errorf("%s: the state is known after %v: %v", hangs, took, down)
				}
			})
		}
	}
}

// flaky is a server in a network that a test interrupts.
type flaky struct {
	mu     sync.Mutex
	server *server.Server
	broken func() error // if set, requests fail with its error
	calls  atomic.Int32 // number of calls received
}

func (f *flaky) interrupt(err func() error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.broken = err
}

func (f *flaky) RoundTrip(req *http.Request) (*http.Response, error) {
	f.mu.Lock()
	broken, s := f.broken, f.server
	f.mu.Unlock()
	if broken != nil {
		if err := broken(); err != nil {
			return nil, err
		}
	}
	answer := httptest.NewRecorder()
	s.ServeHTTP(answer, req)
	return answer.Result(), nil
}

// unreachableHost returns the error of a request for which no connection can be made.
func unreachableHost() error { return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED} }

// newFlaky returns a server with the tool count, and a host in which it is ready.
func newFlaky(t *testing.T, r mcp.Revision) (*flaky, *host.Host) {
	t.Helper()
	f := &flaky{server: &server.Server{Name: "flaky", AllowedHosts: []string{"flaky.example"}}}
	server.AddTool(f.server, mcp.Tool{Name: "count"}, func(context.Context, none) (string, error) {
		f.calls.Add(1)
		return "", nil
	})
	h := &host.Host{
		Servers: []host.ServerConfig{{Name: "flaky", Target: client.URL("http://flaky.example/mcp"),
			Sharing: host.SharingEveryone}},
		Dialer: client.Dialer{Revision: r, HTTPClient: &http.Client{Transport: f},
			Logger: slog.New(slog.DiscardHandler)},
		Logger: slog.New(slog.DiscardHandler),
	}
	must.Do(t, h.Start())
	must.Do(t, h.WaitReady(t.Context()))
	return f, h
}

func TestCallsWaitForAServerThatRestarts(t *testing.T) {
	for _, c := range []struct {
		name   string
		ready  time.Duration // how long it is ready before it is lost
		away   time.Duration
		failed bool
	}{
		{"at once", 0, 10 * time.Millisecond, false},
		{"after a time of service", time.Minute, 10 * time.Millisecond, false},
		{"at the third attempt", time.Minute, 2500 * time.Millisecond, false},
		{"too late", time.Minute, 30 * time.Second, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, h := newFlaky(t, mcp.V20260728)
				defer h.Close()
				time.Sleep(c.ready)
				f.interrupt(unreachableHost)
				began := time.Now()
				back := time.AfterFunc(c.away, func() { f.interrupt(nil) })
				defer back.Stop()
				var calls sync.WaitGroup
				for i := range 20 {
					calls.Go(func() {
						time.Sleep(time.Duration(i) * c.away / 20)
						_, err := h.Client("flaky").CallTool(t.Context(), "count", nil)
						if down := errors.As(err, new(*host.DownError)); down != c.failed || !down && err != nil {
							t.Errorf("a call after %v: %v", time.Duration(i)*c.away/20, err)
						}
					})
				}
				calls.Wait()
				if n := f.calls.Load(); !c.failed && n != 20 || c.failed && n != 0 {
					t.Errorf("the server has received %d calls", n)
				}
				must.CheckThat(t, !c.failed || time.Since(began) <= 30*time.Second,
					"the calls have waited until %v after the loss", time.Since(began))
			})
		})
	}
}

func TestCallsDoNotWaitLongForAServerThatRemainsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := newFlaky(t, mcp.V20251125)
		defer h.Close()
		f.interrupt(unreachableHost)
		began := time.Now()
		for i := range 2 {
			_, err := h.Client("flaky").CallTool(t.Context(), "count", nil)
			if after := time.Since(began); !errors.As(err, new(*host.DownError)) || after > 10*time.Second {
				t.Errorf("call %d ends after %v: %v", i, after, err)
			}
		}
		time.Sleep(time.Minute)
		f.interrupt(nil)
		must.Get(h.Client("flaky").CallTool(t.Context(), "count", nil))(t)
		time.Sleep(time.Minute)
		f.interrupt(unreachableHost)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		began = time.Now()
		_, err := h.Client("flaky").CallTool(ctx, "count", nil)
		must.CheckThat(t, errors.Is(err, context.DeadlineExceeded) && time.Since(began) == time.Second/2,
			"a call with a deadline ends after %v: %v", time.Since(began), err)
	})
}

func TestCallThatTheServerMayHaveReceivedIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := newFlaky(t, mcp.V20260728)
		defer h.Close()
		var failed atomic.Bool
		f.interrupt(func() error {
			if failed.CompareAndSwap(false, true) {
				f.calls.Add(1)
				return io.ErrUnexpectedEOF
			}
			return nil
		})
		_, err := h.Client("flaky").CallTool(t.Context(), "count", nil)
		if !errors.Is(err, call.ErrConnectionLost) || errors.Is(err, call.ErrNotSent) || f.calls.Load() != 1 {
			t.Errorf("%d calls received: %v", f.calls.Load(), err)
		}
		must.Check(t, must.Err(h.Client("flaky").CallTool(t.Context(), "count", nil)))
	})
}

// The program is killed again and again while calls come.
func TestCallsWaitForAProgramThatRestarts(t *testing.T) {
	h := start(t, &host.Host{Servers: []host.ServerConfig{inProcess("s")}})
	await(t, h, "s", isReady)
	for range 2 {
		// The process ends within the call.
		must.CheckIs(t, must.Err(h.Client("s").CallTool(t.Context(), "die", nil)), call.ErrConnectionLost)
		var calls sync.WaitGroup
		for range 10 {
			calls.Go(func() { must.Check(t, must.Err(who(t, h, "s"))) })
		}
		calls.Wait()
	}
}

// The state of a server is correct even without calls: Down soon after the server goes away, and Ready soon after it
// comes back.
func TestStateIsTrueWithoutCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := newFlaky(t, mcp.V20251125)
		defer h.Close()
		time.Sleep(time.Minute)
		for range 5 { // even if it restarts often
			f.interrupt(unreachableHost)
			time.Sleep(40 * time.Second)
			if s := h.Status()[0]; s.State == host.Ready || s.Err == nil || len(s.Tools) == 0 {
				t.Errorf("the server is away and %s with %d tools: %v", s.State, len(s.Tools), s.Err)
			}
			time.Sleep(5 * time.Minute)
			f.interrupt(nil)
			// for the backoff, and for the subscription, which this network does not confirm
			time.Sleep(12 * time.Second)
			s := h.Status()[0]
			must.CheckEqual(t, s.State, host.Ready, "the server is back", s.Err)
		}
		must.CheckEqual(t, f.calls.Load(), 0)
	})
}

// A server that answers calls and is lost again and again does not count as failing again and again.
func TestServerThatHasAnsweredACallIsStartedAtOnceAfterItsLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := newFlaky(t, mcp.V20260728)
		defer h.Close()
		began := time.Now()
		for i := range 20 {
			must.Do(t, must.Err(h.Client("flaky").CallTool(t.Context(), "count", nil)), i)
			away := true
			f.interrupt(func() error {
				if away {
					away = false
					return unreachableHost()
				}
				return nil
			})
		}
		// This network does not confirm subscriptions, so each restart takes five seconds.
		took := time.Since(began)
		must.CheckThat(t, took <= 100*time.Second, "20 restarts have taken %v", took)
	})
}
