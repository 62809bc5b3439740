package server_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/store"
)

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
