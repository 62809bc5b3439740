package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A server of 2025-11-25 can reject a call until the user has opened some URLs.

const initialized2511 = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},` +
	`"serverInfo":{"name":"old","version":"1"}}`

func requires(elicitations ...string) string {
	return `"error":{"code":-32042,"message":"URL elicitation required","data":{"elicitations":[` +
		strings.Join(elicitations, ",") + `]}}`
}

func elicitation(id string) string {
	return fmt.Sprintf(`{"mode":"url","message":"?","url":"https://example.com/%s","elicitationId":"%s"}`, id, id)
}

func completed(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":` + id + `}}`
}

// dialEliciting connects to a server of 2025-11-25 with the given responses to tools/call. It
// records the URLs that the user is asked to open.
func dialEliciting(t *testing.T, calls ...string) (c *client.Client, opened *[]string, rec *recorder) {
	t.Helper()
	s := legacyServer()
	s.Answers["tools/call"] = calls
	return dialElicitingScript(t, s)
}

func dialElicitingScript(t *testing.T, s *script) (c *client.Client, opened *[]string, rec *recorder) {
	t.Helper()
	s.Answers["initialize"] = []string{initialized2511}
	opened = new([]string)
	d := quiet()
	d.Revision = mcp.V20251125
	d.ElicitURL = func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		*opened = append(*opened, params.URL)
		if strings.Contains(params.URL, "bad") {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	to, rec := target(s)
	c = must.Get(d.Dial(t.Context(), to))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c, opened, rec
}

// The server need not report the end of an elicitation. The client ignores invalid reports
// and reports about other elicitations.
func TestCallIsRepeatedAfterURLElicitation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := "!lines " + strings.Join([]string{
			completed(`"unknown"`), completed(`7`), completed(`null`),
			`{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`,
			`{"jsonrpc":"2.0","id":$id,` + requires(elicitation("one"), elicitation("two")) + `}`,
		}, "\n")
		c, opened, rec := dialEliciting(t, report, called)
		start := time.Now()
		must.Equal(t, must.Get(client.CallTool[string](t.Context(), c, "a", nil))(t), "called")
		// The server reports nothing, so the client waits for the whole time-out.
		must.CheckEqual(t, time.Since(start), 5*time.Minute)
		must.CheckEqual(t, strings.Join(*opened, " "), "https://example.com/one https://example.com/two")
		_ = c.Close()
		rec.wants(t, "tools/call", 2)
	})
}

func TestCallIsRepeatedWhenURLElicitationCompletes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		s.Answers["tools/call"] = []string{requires(elicitation("one"), elicitation("two")), called}
		s.Answers["ping"] = []string{"!lines " + completed(`"two"`) + "\n" + completed(`"one"`) + "\n" +
			completed(`"one"`) + "\n" + `{"jsonrpc":"2.0","id":$id,"result":{}}`}
		c, _, _ := dialElicitingScript(t, s)
		start := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := client.CallTool[string](t.Context(), c, "a", nil)
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("the call did not wait: %v", err)
		default:
		}
		must.Check(t, c.Ping(t.Context())) // the server sends the reports before the response
		err := <-ended
		must.CheckThat(t, err == nil && time.Since(start) == 0, "%v after %v", err, time.Since(start))
	})
}

// The client repeats a call once.
func TestCallIsRepeatedOnceAfterURLElicitation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, opened, rec := dialEliciting(t, requires(elicitation("one")), requires(elicitation("two")))
		_, err := client.CallTool[string](t.Context(), c, "a", nil)
		var reported *jsonrpc.Error
		if !errors.As(err, &reported) || reported.Code != mcp.CodeURLElicitationRequired || len(*opened) != 1 {
			t.Errorf("%v after %q", err, *opened)
		}
		_ = c.Close()
		rec.wants(t, "tools/call", 2)
	})
}

// Rule H7: the client does not show invalid elicitations to the user, and does not repeat the call.
func TestInvalidURLElicitationsAreNotShown(t *testing.T) {
	var nine []string
	for i := range 9 {
		nine = append(nine, elicitation(fmt.Sprint("p", i)))
	}
	for name, test := range map[string]struct {
		response string
		opened   int
	}{
		"no data":              {`"error":{"code":-32042,"message":"?"}`, 0},
		"data of another type": {`"error":{"code":-32042,"message":"?","data":[1]}`, 0},
		"no elicitations":      {requires(), 0},
		"too many":             {requires(nine...), 0},
		"duplicate id":         {requires(elicitation("one"), elicitation("one")), 0},
		"a form": {requires(`{"mode":"form","message":"?","elicitationId":"1",` +
			`"requestedSchema":{"type":"object","properties":{}}}`), 0},
		"no mode": {requires(`{"message":"?","elicitationId":"1","url":"https://example.com"}`), 0},
		"no id":   {requires(`{"mode":"url","message":"?","url":"https://example.com"}`), 0},
		"unencrypted": {requires(`{"mode":"url","message":"?","elicitationId":"1",` +
			`"url":"http://example.com"}`), 0},
		"a script": {requires(`{"mode":"url","message":"?","elicitationId":"1",` +
			`"url":"javascript:alert(1)"}`), 0},
		"a flag":              {requires(`{"mode":"url","message":"?","elicitationId":"1","url":"--help"}`), 0},
		"declined":            {requires(elicitation("bad"), elicitation("two")), 1},
		"declined in the end": {requires(elicitation("one"), elicitation("bad")), 2},
	} {
		inBubble(t, name, func(t *testing.T) {
			c, opened, rec := dialEliciting(t, test.response, called)
			_, err := client.CallTool[string](t.Context(), c, "a", nil)
			var reported *jsonrpc.Error
			if !errors.As(err, &reported) || reported.Code != mcp.CodeURLElicitationRequired ||
				len(*opened) != test.opened {
				t.Errorf("%v after %q", err, *opened)
			}
			_ = c.Close()
			rec.wants(t, "tools/call", 1)
		})
	}
}

// Rule H7: the client rejects an elicitation with an unsafe URL without asking the user.
func TestElicitationsWithUnsafeURLsAreRejected(t *testing.T) {
	for _, url := range []string{"http://example.com/", "file:///etc/passwd", "https://u:p@example.com/", "-x",
		`https://example.com/\u202egpj`} {
		synctest.Test(t, func(t *testing.T) {
			ask := `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"?",` +
				`"url":"` + url + `","elicitationId":"1"}}`
			c, opened, rec := dialEliciting(t, "!lines "+ask+"\n"+`{"jsonrpc":"2.0","id":$id,`+called+`}`)
			must.Check(t, must.Err(client.CallTool[string](t.Context(), c, "a", nil)))
			synctest.Wait()
			_ = c.Close()
			if got := rec.methods(); len(*opened) != 0 || !strings.Contains(got, `"id":"q","error":{"code":-32602,`) {
				t.Errorf("the user was asked to open %q, the server received %s", *opened, got)
			}
		})
	}
}

// Rule J10: the error code has no special meaning in other revisions.
func TestURLElicitationErrorsOfOtherRevisionsAreIgnored(t *testing.T) {
	for r, s := range map[mcp.Revision]*script{mcp.V20260728: modernServer(), mcp.V20250618: legacyServer()} {
		s.Answers["tools/call"] = []string{requires(elicitation("one")), called}
		d := quiet()
		d.Revision = r
		d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Errorf("%s: the user was asked", r)
			return nil, errors.New("no")
		}
		to, _ := target(s)
		c := must.Get(d.Dial(t.Context(), to))(t)
		_, err := client.CallTool[string](t.Context(), c, "a", nil)
		must.CheckThat(t, err != nil, "%s: the call was repeated", r)
		_ = c.Close()
	}
}

// The time-outs of calls in flight are paused while the user is at a URL.
func TestTimeoutsArePausedDuringURLElicitation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":` + elicitation("one") + `}`
		c, opened, _ := dialEliciting(t, "!lines "+ask)
		start := time.Now()
		first := make(chan time.Duration, 1)
		go func() {
			must.CheckIs(t, must.Err(client.CallTool[string](t.Context(), c, "a", nil)), context.DeadlineExceeded)
			first <- time.Since(start)
		}()
		synctest.Wait()
		if len(*opened) != 1 {
			t.Fatalf("the user was asked to open %q", *opened)
		}
		took := <-first
		must.CheckThat(t, took == 6*time.Minute, "the call took %v", took) // 5 min for the user, and 1 min for the call
	})
}
