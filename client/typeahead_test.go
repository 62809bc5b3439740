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

// completing is a server that numbers its completions, and takes a second for each.
func completing(answers ...string) *script {
	s := modernServer()
	for i := range 400 {
		s.Answers["completion/complete"] = append(s.Answers["completion/complete"],
			fmt.Sprintf(`"result":{"resultType":"complete","completion":{"values":["%d"],"total":1}}`, i+1))
	}
	s.Answers["completion/complete"] = append(answers, s.Answers["completion/complete"]...)
	s.After = map[string]time.Duration{"completion/complete": time.Second}
	return s
}

func completer(t *testing.T, answers ...string) (*client.Typeahead, func() (asked, cancelled int)) {
	c, played := dial(t, completing(answers...))
	return c.Typeahead(mcp.CompleteReference{Type: mcp.RefPrompt, Name: "review"}), func() (int, int) {
		c.Close()
		heard := played.methods()
		return strings.Count(heard, "completion/complete"), strings.Count(heard, "notifications/cancelled")
	}
}

func TestTypingAsksForTheLastInputOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, heard := completer(t)
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
		if asked, cancelled := heard(); asked != 1 || cancelled != 0 {
			t.Errorf("%d were asked for, %d cancelled", asked, cancelled)
		}
	})
}

// An input that comes while the server works on the one before ends that, at the server too.
func TestALaterInputCancelsTheRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, heard := completer(t)
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
			t.Errorf("the first ended after %v with %v", time.Since(begin), err)
		}
		if c := <-got; c == nil || c.Values[0] != "2" {
			t.Errorf("got %+v", c)
		}
		// Another argument has nothing to do with it, and none is asked for twice.
		for range 2 {
			if _, err := x.Complete(t.Context(), "framework", "f", nil); err != nil {
				t.Error(err)
			}
			if c, err := x.Complete(t.Context(), "language", "py", map[string]string{"framework": "flask"}); err != nil || c.Values[0] != "2" {
				t.Errorf("%+v, %v", c, err)
			}
		}
		if asked, cancelled := heard(); asked != 3 || cancelled != 1 {
			t.Errorf("%d were asked for, %d cancelled", asked, cancelled)
		}
	})
}

func TestTheSameInputSharesOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, heard := completer(t)
		leaving, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := x.Complete(leaving, "language", "p", nil); !errors.Is(err, context.Canceled) {
				t.Errorf("who has left got %v", err)
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
		leave() // somebody else takes over
		all.Wait()
		if c, err := x.Complete(t.Context(), "language", "p", nil); err != nil || c.Values[0] != "1" || *c.Total != 1 {
			t.Errorf("%+v, %v", c, err)
		}
		if asked, _ := heard(); asked != 1 {
			t.Errorf("%d were asked for", asked)
		}
	})
}

func TestErrorsAndOldAnswersAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, heard := completer(t, `"error":{"code":-32602,"message":"unknown prompt"}`)
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
		if asked, _ := heard(); asked != 3 {
			t.Errorf("%d were asked for", asked)
		}
	})
}

func TestTypeaheadCacheIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x, heard := completer(t)
		x.Keep = time.Hour
		ask := func(i int) {
			if _, err := x.Complete(t.Context(), "language", fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 300 {
			ask(i)
		}
		ask(299) // remembered
		ask(0)   // not any more
		if asked, _ := heard(); asked != 301 {
			t.Errorf("%d were asked for", asked)
		}
	})
}
