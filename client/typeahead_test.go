package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// completionServer returns a server that numbers its completions and takes a second for each.
func completionServer(answers ...string) *script {
	s := modernServer()
	for i := range 400 {
		s.Answers["completion/complete"] = append(s.Answers["completion/complete"],
			fmt.Sprintf(`"result":{"resultType":"complete","completion":{"values":["%d"],"total":1}}`, i+1))
	}
	s.Answers["completion/complete"] = append(answers, s.Answers["completion/complete"]...)
	s.After = map[string]time.Duration{"completion/complete": time.Second}
	return s
}

func newTypeahead(t *testing.T, answers ...string) (*client.Typeahead, func() (requests, cancelled int)) {
	c, rec := dial(t, completionServer(answers...))
	return c.Typeahead(mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"}), func() (int, int) {
		c.Close()
		received := rec.methods()
		return strings.Count(received, "completion/complete"), strings.Count(received, "notifications/cancelled")
	}
}

func TestTypeaheadRequestsTheLastInputOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, counts := newTypeahead(t)
		var typing sync.WaitGroup
		for i := 1; i <= 5; i++ {
			typing.Go(func() {
				got, err := x.Complete(t.Context(), "language", "python"[:i], nil)
				if i < 5 && !errors.Is(err, client.ErrSuperseded) || i == 5 && (err != nil || got.Values[0] != "1") {
					t.Errorf("keystroke %d: %+v, %v", i, got, err)
				}
			})
			time.Sleep(100 * time.Millisecond)
		}
		typing.Wait()
		if requests, cancelled := counts(); requests != 1 || cancelled != 0 {
			t.Errorf("the server received %d requests and %d cancellations", requests, cancelled)
		}
	})
}

// A later input cancels the request for an earlier one, also at the server.
func TestLaterInputCancelsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, counts := newTypeahead(t)
		first := make(chan error, 1)
		go func() {
			_, err := x.Complete(t.Context(), "language", "p", nil)
			first <- err
		}()
		time.Sleep(500 * time.Millisecond)
		begin := time.Now()
		got := make(chan *mcp.Completion, 1)
		go func() {
			c, err := x.Complete(t.Context(), "language", "py", map[string]string{"framework": "flask"})
			if err != nil {
				t.Error(err)
			}
			got <- c
		}()
		if err := <-first; !errors.Is(err, client.ErrSuperseded) || time.Since(begin) > 0 {
			t.Errorf("the first call ended after %v with %v", time.Since(begin), err)
		}
		if c := <-got; c == nil || c.Values[0] != "2" {
			t.Errorf("got %+v", c)
		}
		// Another argument does not interfere, and no input is requested twice.
		for range 2 {
			if _, err := x.Complete(t.Context(), "framework", "f", nil); err != nil {
				t.Error(err)
			}
			if c, err := x.Complete(t.Context(), "language", "py", map[string]string{"framework": "flask"}); err != nil || c.Values[0] != "2" {
				t.Errorf("%+v, %v", c, err)
			}
		}
		if requests, cancelled := counts(); requests != 3 || cancelled != 1 {
			t.Errorf("the server received %d requests and %d cancellations", requests, cancelled)
		}
	})
}

func TestEqualInputsShareOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, counts := newTypeahead(t)
		cancelled, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := x.Complete(cancelled, "language", "p", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("the cancelled call returned %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			all.Go(func() {
				c, err := x.Complete(t.Context(), "language", "p", nil)
				if err != nil || c.Values[0] != "1" {
					t.Errorf("%+v, %v", c, err)
					return
				}
				c.Values[0], *c.Total = "changed", 7
			})
		}
		synctest.Wait()
		leave() // another call takes over
		all.Wait()
		if c, err := x.Complete(t.Context(), "language", "p", nil); err != nil || c.Values[0] != "1" || *c.Total != 1 {
			t.Errorf("%+v, %v", c, err)
		}
		if requests, _ := counts(); requests != 1 {
			t.Errorf("the server received %d requests", requests)
		}
	})
}

func TestTypeaheadCachesNoErrorsOrOldCompletions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, counts := newTypeahead(t, `"error":{"code":-32602,"message":"unknown prompt"}`)
		x.Delay = -1
		var reported *jsonrpc.Error
		if _, err := x.Complete(t.Context(), "language", "p", nil); !errors.As(err, &reported) {
			t.Errorf("got %v", err)
		}
		for _, want := range []string{"1", "1", "2"} {
			if want == "2" {
				time.Sleep(time.Minute)
			}
			if c, err := x.Complete(t.Context(), "language", "p", nil); err != nil || c.Values[0] != want {
				t.Errorf("%+v, %v; want %s", c, err, want)
			}
		}
		if requests, _ := counts(); requests != 3 {
			t.Errorf("the server received %d requests", requests)
		}
	})
}

func TestTypeaheadCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, counts := newTypeahead(t)
		x.Keep = time.Hour
		ask := func(i int) {
			if _, err := x.Complete(t.Context(), "language", fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 300 {
			ask(i)
		}
		ask(299) // cached
		ask(0)   // evicted
		if requests, _ := counts(); requests != 301 {
			t.Errorf("the server received %d requests", requests)
		}
	})
}
