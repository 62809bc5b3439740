package server_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

// Each notification of a handler that runs several times arrives once, however its questions change.
func TestProgressOfAllRoundsArrivesOnce(t *testing.T) {
	type form struct{ Name string }
	report := func(ctx context.Context, done float64) { _ = server.Progress(ctx, done, 9, fmt.Sprint(done)) }
	asks := func(ctx context.Context, question string) error {
		_, err := server.Elicit[form](ctx, question)
		return err
	}
	for name, test := range map[string]struct {
		handle func(ctx context.Context, run int) error
		want   []string
	}{
		"the same questions": {func(ctx context.Context, _ int) error {
			report(ctx, 1)
			if err := asks(ctx, "one?"); err != nil {
				return err
			}
			report(ctx, 2)
			report(ctx, 3)
			if err := asks(ctx, "two?"); err != nil {
				return err
			}
			report(ctx, 4)
			return nil
		}, []string{"1", "2", "3", "4"}},
		"a question whose text changes": {func(ctx context.Context, run int) error {
			if err := asks(ctx, fmt.Sprintf("%d?", run%2)); err != nil {
				return err
			}
			report(ctx, 1)
			if err := asks(ctx, "two?"); err != nil {
				return err
			}
			report(ctx, 2)
			return nil
		}, []string{"1", "2"}},
		"a question that is not asked again": {func(ctx context.Context, run int) error {
			if run == 1 {
				return asks(ctx, "one?")
			}
			report(ctx, 1)
			if err := asks(ctx, "two?"); err != nil {
				return err
			}
			report(ctx, 2)
			return nil
		}, []string{"1", "2"}},
		"more progress in the first run": {func(ctx context.Context, run int) error {
			for i := 0; run == 1 && i < 5; i++ {
				report(ctx, float64(i))
			}
			if err := asks(ctx, "one?"); err != nil {
				return err
			}
			report(ctx, 6)
			return nil
		}, []string{"0", "1", "2", "3", "4", "6"}},
		"progress that does not increase": {func(ctx context.Context, _ int) error {
			report(ctx, 1)
			report(ctx, 1)
			if err := asks(ctx, "one?"); err != nil {
				return err
			}
			report(ctx, 2)
			return nil
		}, []string{"1", "2"}},
	} {
		s := quiet()
		var runs atomic.Int32
		server.AddTool(s, mcp.Tool{Name: "a"}, func(ctx context.Context, _ struct{}) (string, error) {
			return "done", test.handle(ctx, int(runs.Add(1)))
		})
		c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20260728), func(d *client.Dialer) {
			d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				return mcp.AcceptElicit(form{"x"})
			}
		})
		var got []string
		r, err := c.CallTool(t.Context(), "a", nil,
			client.WithProgress(func(_, _ float64, text string) { got = append(got, text) }))
		must.CheckThat(t, err == nil && !r.IsError && slices.Equal(got, test.want),
			"%s: %q, want %q: %v, %v", name, got, test.want, r, err)
	}
}

// Middleware may ask before the handshake, when nothing is known of the client.
func TestQuestionsBeforeTheHandshakeAreErrors(t *testing.T) {
	for name, ask := range map[string]func(context.Context) error{
		"elicit": func(ctx context.Context) error {
			_, err := server.Elicit[struct{ A string }](ctx, "x")
			return err
		},
		"url": func(ctx context.Context) error { return server.ElicitURL(ctx, "https://a.example/", "x", nil) },
		"sample": func(ctx context.Context) error {
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1})
			return err
		},
		"sample with tools": func(ctx context.Context) error {
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Tools: []mcp.Tool{{Name: "a"}}})
			return err
		},
		"roots": func(ctx context.Context) error {
			_, err := server.Roots(ctx)
			return err
		},
		"capabilities": func(ctx context.Context) error {
			if declared := call.From(ctx).Peer().Capabilities; declared.Sampling != nil {
				return nil
			}
			return errors.ErrUnsupported
		},
	} {
		s := quiet()
		var got error
		s.Middleware = []call.Middleware{func(next call.Handler) call.Handler {
			return func(ctx context.Context, c *call.Call) (any, error) {
				got = ask(ctx)
				return next(ctx, c)
			}
		}}
		w := wiretest.Connect(t, s.ServeConn)
		w.Send(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		w.Expect(`{"jsonrpc":"2.0","id":1,"result":{}}`)
		_, missing := errors.AsType[*call.CapabilityError](got)
		must.CheckThat(t, missing || errors.Is(got, errors.ErrUnsupported) || errors.Is(got, server.ErrCannotAsk),
			"%s: %v", name, got)
	}
}

// payments calls a tool that pays and then asks, so that its handler runs twice in 2026-07-28. It returns the number of
// payments, and the errors of Once in each run.
func payments[T any](t *testing.T, kv store.Store, pay func() T) (paid int32, errs []error) {
	var count atomic.Int32
	s := quiet()
	s.Store = kv
	t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
		_, err := server.Once(ctx, "pay", func(context.Context, string) (T, error) {
			count.Add(1)
			return pay(), nil
		})
		errs = append(errs, err)
		if _, err := server.Elicit[struct{ Go bool }](ctx, "Send the receipt by mail?"); err != nil {
			return "", err
		}
		return "paid", nil
	})
	c := mcptest.Dial(t, s, mcptest.WithRevision(mcp.V20260728), func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return mcp.AcceptElicit(map[string]bool{"Go": true})
		}
	})
	r := must.Get(c.CallTool(t.Context(), "pay", nil))(t)
	must.That(t, !r.IsError, "%v", r)
	return count.Load(), errs
}

// oneWay has an encoding that it does not decode.
type oneWay struct{ Text string }

func (oneWay) MarshalJSON() ([]byte, error) { return []byte(`"a"`), nil }

func (*oneWay) UnmarshalJSON([]byte) error { return errors.New("cannot be read") }

type noWay struct{}

func (noWay) MarshalJSON() ([]byte, error) { return nil, errors.New("cannot be written") }

func TestAfterTheEffectEveryErrorOfOnceIsUncertain(t *testing.T) {
	type receipt struct{ Text string }
	check := func(name string, paid int32, errs []error, certain bool) {
		t.Helper()
		must.CheckEqual(t, paid, 1, name)
		for run, err := range errs {
			if certain && err != nil || !certain && !errors.Is(err, server.ErrOnceUncertain) {
				t.Errorf("%s: run %d: %v", name, run, err)
			}
		}
	}
	paid, errs := payments(t, nil, func() receipt { return receipt{"caf\xe9"} })
	check("not UTF-8", paid, errs, true)
	paid, errs = payments(t, nil, func() receipt { return receipt{strings.Repeat("x", 20_000)} })
	check("too long", paid, errs, false)
	paid, errs = payments(t, nil, func() noWay { return noWay{} })
	check("no encoding", paid, errs, false)
	paid, errs = payments(t, nil, func() any { return make(chan int) })
	check("no encoding of the value", paid, errs, false)
	paid, errs = payments(t, nil, func() oneWay { return oneWay{} })
	check("not decodable", paid, errs, false)
	paid, errs = payments(t, garbling{store.NewMemory()}, func() receipt { return receipt{"ok"} })
	check("damaged in the store", paid, errs[1:], false)
}

// garbling damages the results that it stores.
type garbling struct{ store.Store }

func (g garbling) Put(ctx context.Context, key string, value []byte, opt store.PutOptions) (uint64, error) {
	if strings.Contains(key, "once/") && opt.IfVersion != 0 {
		value = []byte("?")
	}
	return g.Store.Put(ctx, key, value, opt)
}

func TestOnceRejectsATypeThatCannotBeStoredBeforeTheEffect(t *testing.T) {
	paid, errs := payments(t, nil, func() map[string]chan int { return nil })
	must.CheckThat(t, paid == 0 && errs[0] != nil && strings.Contains(errs[0].Error(), "chan int"),
		"paid %d times, %v", paid, errs)
}
