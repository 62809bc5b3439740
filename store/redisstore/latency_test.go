//go:build integration

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/parley-mcp/parley/internal/wiretest"
	mcpserver "github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Everything works with 2 seconds of latency.
func TestLatency(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		p.delay.Store(int64(2 * time.Second))
		var using sync.WaitGroup
		for i := range 8 {
			using.Go(func() {
				key := fmt.Sprint("k", i)
				subscription, err := s.Subscribe(ctx, key, 10)
				if err != nil {
					t.Errorf("Subscribe: %v", err)
					return
				}
				defer subscription.Close()
				version, err := s.Put(ctx, key, []byte(key), hour)
				if err != nil {
					t.Errorf("Put: %v", err)
				}
				if item, err := s.Get(ctx, key); err != nil || string(item.Value) != key || item.Version != version {
					t.Errorf("Get(%s) = %q version %d, %v; want version %d", key, item.Value, item.Version, err,
						version)
				}
				if err := s.Publish(ctx, key, []byte(key)); err != nil {
					t.Errorf("Publish: %v", err)
				}
				if m, err := next(subscription); err != nil || string(m.Data) != key {
					t.Errorf("received %+v, %v", m, err)
				}
			})
		}
		using.Wait()
	})
}

// Operations return as soon as their context ends, and an answer that arrives later does not reach another operation.
func TestContextEndsWhileRedisDoesNotAnswer(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		o := at(p.addr)
		o.Conns = 2
		s := connect(t, o)
		for i := range 4 {
			if _, err := s.Put(ctx, fmt.Sprint("k", i), fmt.Append(nil, i), hour); err != nil {
				t.Fatal(err)
			}
		}
		p.delay.Store(int64(time.Hour))
		for want, end := range map[error]func() (context.Context, context.CancelFunc){
			context.DeadlineExceeded: func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, 50*time.Millisecond)
			},
			context.Canceled: func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(50*time.Millisecond, cancel)
				return ctx, cancel
			},
		} {
			for name, do := range map[string]func(ctx context.Context) error{
				"Get":       func(ctx context.Context) error { _, err := s.Get(ctx, "k0"); return err },
				"Put":       func(ctx context.Context) error { _, err := s.Put(ctx, "late", nil, hour); return err },
				"Append":    func(ctx context.Context) error { return s.Append(ctx, stream, 1, nil, entries) },
				"Subscribe": func(ctx context.Context) error { _, err := s.Subscribe(ctx, "t", 1); return err },
			} {
				ctx, cancel := end()
				if err := do(ctx); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", name, err, want)
				}
				cancel()
			}
		}
		p.delay.Store(0)
		p.cut(false) // discards the answers that the proxy holds
		for i := range 4 {
			item, err := s.Get(ctx, fmt.Sprint("k", i))
			if err != nil || string(item.Value) != fmt.Sprint(i) {
				t.Errorf("Get(k%d) = %q, %v", i, item.Value, err)
			}
		}
	})
}

// Commands that wait at the same time share a round trip, and each has its own outcome.
func TestWaitingCommandsShareARoundTrip(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		if _, err := s.Put(ctx, "k", nil, hour); err != nil { // opens a connection
			t.Fatal(err)
		}
		busy := &redisStore{client: s.client, waiting: make(chan request, maxPipelined)}
		var all []request
		for _, args := range [][]any{{"set", "a", "1"}, {"lpop", "a"}, {"get", "none"}, {"get", "a"}} {
			all = append(all, request{redis.NewCmd(ctx, args...), make(chan struct{})})
			busy.waiting <- all[len(all)-1]
		}
		close(busy.waiting)
		before := p.trips.Load()
		busy.work()
		if n := p.trips.Load() - before; n != 1 {
			t.Errorf("%d commands take %d round trips", len(all), n)
		}
		for i, want := range []string{
			"set a 1: OK", "lpop a: WRONGTYPE Operation against a key holding the wrong kind of value",
			"get none: redis: nil", "get a: 1",
		} {
			<-all[i].done
			if got := all[i].command.String(); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
	})
}

// A Get whose connection ends before the answer is sent once more. A write, which may have been executed, is not.
func TestGetIsRepeatedWhenItsConnectionEnds(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		if _, err := s.Put(ctx, "k", []byte("value"), hour); err != nil {
			t.Fatal(err)
		}
		interrupt := func(operation func() error) error {
			p.delay.Store(int64(time.Hour))
			before := p.trips.Load()
			outcome := make(chan error, 1)
			go func() { outcome <- operation() }()
			wait(t, "the command is sent", func() error {
				if p.trips.Load() == before {
					return errors.New("it was not sent")
				}
				return nil
			})
			p.delay.Store(0)
			p.cut(false)
			return <-outcome
		}
		if err := interrupt(func() error { _, err := s.Get(ctx, "k"); return err }); err != nil {
			t.Errorf("Get: %v", err)
		}
		if err := interrupt(func() error { _, err := s.Put(ctx, "k", nil, hour); return err }); !errors.Is(err,
			ErrUnavailable) {
			t.Errorf("Put: %v, want ErrUnavailable", err)
		}
	})
}

// A command whose context ends while it waits is not sent.
func TestACommandWithoutACallerIsNotSent(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		o := at(server.addr)
		o.Conns = 1
		s := connect(t, o)
		var blocking sync.WaitGroup
		blocking.Go(func() {
			if err := s.process(ctx, redis.NewCmd(ctx, "blpop", "list", 0)); err != nil {
				t.Errorf("BLPOP: %v", err)
			}
		})
		wait(t, "the only connection is busy", func() error {
			if n := field(server.command("info", "clients").(string), "blocked_clients"); n != "1" {
				return fmt.Errorf("%s clients are blocked", n)
			}
			return nil
		})
		limited, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		if _, err := s.Put(limited, "k", nil, hour); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put: %v", err)
		}
		server.command("rpush", "list", "x")
		blocking.Wait()
		if _, err := s.Get(ctx, "k"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get: %v, want ErrNotFound", err)
		}
	})
}

// next returns the next message of a subscription.
func next(s *store.Subscription) (store.Message, error) {
	select {
	case m, open := <-s.C:
		if !open {
			return m, errors.New("the subscription was closed")
		}
		return m, nil
	case <-time.After(patience):
		return store.Message{}, errors.New("no message arrived")
	}
}

func receive(t *testing.T, s *store.Subscription) store.Message {
	t.Helper()
	m, err := next(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// wantLost checks that a subscription reports loss and that messages arrive after it.
func wantLost(t *testing.T, s *redisStore, subscription *store.Subscription, topic string) {
	t.Helper()
	if m := receive(t, subscription); !m.Lost {
		t.Fatalf("received %+v, want a report of loss", m)
	}
	if err := s.Publish(ctx, topic, []byte("after")); err != nil {
		t.Fatal(err)
	}
	if m := receive(t, subscription); string(m.Data) != "after" {
		t.Fatalf("received %+v, want the message after the report of loss", m)
	}
}

// While Redis cannot be reached, operations fail at once. Later, they succeed, and
// subscribers learn that they may have missed messages.
func TestPartition(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		if _, err := s.Put(ctx, "k", []byte("value"), hour); err != nil {
			t.Fatal(err)
		}
		p.cut(true)
		if _, err := s.Get(ctx, "k"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Get: %v, want ErrUnavailable", err)
		}
		if _, err := s.Put(ctx, "k", nil, hour); !errors.Is(err, ErrUnavailable) {
			t.Errorf("Put: %v, want ErrUnavailable", err)
		}
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Subscribe(limited, "other", 10); err == nil {
			t.Error("Subscribe succeeded")
		}
		p.allow()
		wait(t, "Redis can be reached", func() error { _, err := s.Get(ctx, "k"); return err })
		wantLost(t, s, subscription, "t")
	})
}

// A connection of the subscriptions that is open but silent is replaced.
func TestSilentConnectionIsReplaced(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		p := newProxy(t, start(t, program).addr)
		s := connect(t, at(p.addr))
		s.bus.silence, s.bus.ping = time.Second, 100*time.Millisecond
		subscription, err := s.Subscribe(ctx, "t", 10)
		if err != nil {
			t.Fatal(err)
		}
		defer subscription.Close()
		opened := p.opened.Load()
		p.delay.Store(int64(time.Hour)) // applies to parts of answers that arrive from now on
		wait(t, "another connection is opened", func() error {
			if p.opened.Load() == opened {
				return errors.New("no connection was opened")
			}
			return nil
		})
		p.cut(true) // before the delay ends: cutting a working connection would be a second loss
		p.delay.Store(0)
		p.allow()
		wantLost(t, s, subscription, "t")
	})
}

// A user who may not subscribe is told so.
func TestSubscribeExplainsMissingPermission(t *testing.T) {
	forEachProgram(t, func(t *testing.T, program string) {
		server := start(t, program)
		server.command("acl", "setuser", "ada", "on", ">secret", "+@all", "~*", "resetchannels")
		o := at(server.addr)
		o.Username, o.Password = "ada", "secret"
		s := connect(t, o)
		s.bus.timeout = time.Second
		if err := s.Publish(ctx, "t", nil); err == nil || !strings.Contains(err.Error(), "grant") {
			t.Errorf("Publish: %v, want an error that says what to grant", err)
		}
		if _, err := s.Subscribe(ctx, "t", 1); err == nil || !strings.Contains(err.Error(), "grant") {
			t.Errorf("Subscribe: %v, want an error that says what to grant", err)
		}
		s.bus.timeout = patience
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.Subscribe(short, "t", 1); !errors.Is(err, context.DeadlineExceeded) ||
			!strings.Contains(err.Error(), "grant") {
			t.Errorf("Subscribe with a deadline: %v, want an error that says what to grant", err)
		}
	})
}

// 2,000 idle sessions in Redis, each of which this replica has served, need at most 2 KiB each in the process, no
// goroutine and no connection, and at most 1 KiB each in Redis.
func TestIdleSessionsNeedLittleMemory(t *testing.T) {
	const n, maxInProcess, maxInRedis = 2_000, 2 << 10, 1 << 10
	redis := start(t, "redis-server")
	shared := connect(t, at(redis.addr))
	s := &mcpserver.Server{Store: shared, Keys: [][]byte{make([]byte, 32)},
		Limits: mcpserver.Limits{SessionsPerAddress: 2 * n, Sessions: 2 * n}}
	defer s.Shutdown(t.Context())
	begin := func() {
		session := post(t, s, "",
			`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",`+
				`"clientInfo":{"name":"a-client-of-the-usual-kind","title":"A client of the usual kind",`+
				`"version":"1.23.4"},"capabilities":{"roots":{"listChanged":true},"sampling":{},`+
				`"elicitation":{"form":{},"url":{}}}}}`)
		post(t, s, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		post(t, s, session, `{"jsonrpc":"2.0","id":2,"method":"ping"}`)
	}
	for range 100 { // opens the connections
		begin()
	}
	goroutines, process, stored := runtime.NumGoroutine(), heap(), usedMemory(t, redis)
	for range n {
		begin()
	}
	inProcess, inRedis := (heap()-process)/n, (usedMemory(t, redis)-stored)/n
	t.Logf("%d bytes in the process and %d bytes in Redis for each session", inProcess, inRedis)
	if inProcess > maxInProcess || inRedis > maxInRedis {
		t.Errorf("a session needs %d bytes in the process, the limit is %d, and %d bytes in Redis, the limit is %d",
			inProcess, maxInProcess, inRedis, maxInRedis)
	}
	// The Redis client may have reopened a connection.
	if now := runtime.NumGoroutine(); now > goroutines+defaultConns {
		t.Errorf("%d goroutines with the sessions, %d without", now, goroutines)
	}
	clients, err := strconv.Atoi(field(redis.command("info", "clients").(string), "connected_clients"))
	if err != nil || clients > defaultConns+2 { // one for subscriptions, and the test's own
		t.Errorf("Redis has %d connections: %v", clients, err)
	}
	runtime.KeepAlive(s)
}

// post sends a message to s without a network, and returns the id of the session.
func post(t *testing.T, s *mcpserver.Server, session, body string) string {
	t.Helper()
	w := wiretest.Record(s, http.MethodPost, "http://127.0.0.1/", body, "Mcp-Session-Id", session)
	if w.Code/100 != 2 {
		t.Fatalf("status %d of %s: %s", w.Code, body, w.Body)
	}
	return w.Header().Get("Mcp-Session-Id")
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// usedMemory returns the bytes that Redis has allocated.
func usedMemory(t *testing.T, redis *server) int64 {
	t.Helper()
	n, err := strconv.ParseInt(field(redis.command("info", "memory").(string), "used_memory"), 10, 64)
	if err != nil {
		t.Fatalf("used_memory: %v", err)
	}
	return n
}

// BenchmarkStore compares operations with a GET of go-redis over the same number of connections, which is the baseline.
// It reports the CPU time that Redis needs per operation. CAPACITY.md contains these figures.
func BenchmarkStore(b *testing.B) {
	var callers atomic.Int64
	for _, program := range programs {
		server := start(b, program)
		s := connect(b, at(server.addr))
		value := []byte(strings.Repeat("v", 512))
		if _, err := s.Put(ctx, "k", value, hour); err != nil {
			b.Fatal(err)
		}
		baseline := redis.NewClient(&redis.Options{Addr: server.addr, PoolSize: defaultConns, Protocol: 2})
		b.Cleanup(func() { _ = baseline.Close() })
		limits := store.AppendOptions{TTL: time.Hour, MaxEntries: 100, MaxBytes: 1 << 20}
		name := s.name(itemKind, "k")
		for _, operation := range []struct {
			name string
			do   func(ctx context.Context, caller int64, n uint64) error
		}{
			{"baseline", func(ctx context.Context, _ int64, _ uint64) error { return baseline.Get(ctx, name).Err() }},
			{"Get", func(ctx context.Context, _ int64, _ uint64) error { _, err := s.Get(ctx, "k"); return err }},
			{"Touch", func(ctx context.Context, _ int64,
				_ uint64) error {
				_, err := s.Touch(ctx, "k", time.Hour)
				return err
			}},
			{"Put", func(ctx context.Context, caller int64, _ uint64) error {
				_, err := s.Put(ctx, fmt.Sprint("k", caller), value, hour)
				return err
			}},
			{"Append", func(ctx context.Context, caller int64, n uint64) error {
				return s.Append(ctx, store.StreamKey{Group: fmt.Sprint("g", caller), Stream: "s"}, n, value, limits)
			}},
			{"Publish", func(ctx context.Context, _ int64, _ uint64) error { return s.Publish(ctx, "t", value) }},
			{"Publish to 10 replicas", func(ctx context.Context, _ int64,
				_ uint64) error {
				return s.Publish(ctx, "replicas", value)
			}},
		} {
			b.Run(program+"/"+operation.name, func(b *testing.B) {
				b.ReportAllocs()
				b.SetParallelism(8)
				if strings.HasSuffix(operation.name, "replicas") {
					subscribeReplicas(b, server, "replicas", 10)
				}
				before := cpuOf(b, server)
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				b.RunParallel(func(pb *testing.PB) {
					caller := callers.Add(1)
					for n := uint64(1); pb.Next(); n++ {
						if err := operation.do(ctx, caller, n); err != nil {
							b.Error(err)
							return
						}
					}
				})
				b.ReportMetric((cpuOf(b, server)-before)*1e6/float64(b.N), "redis-µs/op")
			})
		}
	}
}

// cpuOf returns the CPU time of a server, in seconds.
func cpuOf(b *testing.B, s *server) (seconds float64) {
	info := s.command("info", "cpu").(string)
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		part, err := strconv.ParseFloat(field(info, name), 64)
		if err != nil {
			b.Fatal(err)
		}
		seconds += part
	}
	return seconds
}

// subscribeReplicas subscribes n Stores to a topic, which receive and drop its messages.
func subscribeReplicas(b *testing.B, s *server, topic string, n int) {
	for range n {
		if _, err := connect(b, at(s.addr)).Subscribe(ctx, topic, 1); err != nil {
			b.Fatal(err)
		}
	}
}
