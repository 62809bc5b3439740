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
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// A server of 2025-11-25 can refuse a call until its user has visited some URLs.

const initialized2511 = `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}`

func requires(elicitations ...string) string {
	return `"error":{"code":-32042,"message":"go there first","data":{"elicitations":[` + strings.Join(elicitations, ",") + `]}}`
}

func webPage(id string) string {
	return fmt.Sprintf(`{"mode":"url","message":"?","url":"https://example.com/%s","elicitationId":"%s"}`, id, id)
}

func complete(id string) string {
	return `{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":{"elicitationId":` + id + `}}`
}

// visitor dials a server of 2025-11-25 that answers calls so, and counts the URLs that its
// user agrees to visit.
func visitor(t *testing.T, calls ...string) (c *client.Client, visited *[]string, heard *played) {
	t.Helper()
	s := legacyServer()
	s.Answers["tools/call"] = calls
	return visitorOf(t, s)
}

func visitorOf(t *testing.T, s *script) (c *client.Client, visited *[]string, heard *played) {
	t.Helper()
	s.Answers["initialize"] = []string{initialized2511}
	visited = new([]string)
	d := quiet()
	d.Revision = mcp.V20251125
	d.ElicitURL = func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		*visited = append(*visited, params.URL)
		if strings.Contains(params.URL, "bad") {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
		return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
	}
	to, heard := target(s)
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, visited, heard
}

// The server need not report the end. What it reports may be of others, of nobody, and
// no report at all.
func TestARefusedCallIsMadeAgainWhenTheUserHasBeenThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		report := "!lines " + strings.Join([]string{
			complete(`"nobody"`), complete(`7`), complete(`null`), `{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`,
			`{"jsonrpc":"2.0","id":$id,` + requires(webPage("one"), webPage("two")) + `}`,
		}, "\n")
		c, visited, heard := visitor(t, report, called)
		start := time.Now()
		text, err := client.CallTool[string](t.Context(), c, "a", nil)
		if err != nil || text != "called" {
			t.Fatalf("%q, %v", text, err)
		}
		// Nothing was reported, so that it was worth a try after a while.
		if took := time.Since(start); took != 5*time.Minute {
			t.Errorf("it took %v", took)
		}
		if got := strings.Join(*visited, " "); got != "https://example.com/one https://example.com/two" {
			t.Errorf("the user was sent to %s", got)
		}
		_ = c.Close()
		if got := heard.methods(); strings.Count(got, "tools/call") != 2 {
			t.Errorf("it heard %s", got)
		}
	})
}

func TestTheEndOfAVisitIsHeardWheneverItIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := legacyServer()
		s.Answers["tools/call"] = []string{requires(webPage("one"), webPage("two")), called}
		s.Answers["ping"] = []string{"!lines " + complete(`"two"`) + "\n" + complete(`"one"`) + "\n" + complete(`"one"`) + "\n" + `{"jsonrpc":"2.0","id":$id,"result":{}}`}
		c, _, _ := visitorOf(t, s)
		start := time.Now()
		ended := make(chan error, 1)
		go func() {
			_, err := client.CallTool[string](t.Context(), c, "a", nil)
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it has not waited: %v", err)
		default:
		}
		if err := c.Ping(t.Context()); err != nil { // its answer brings the reports along
			t.Error(err)
		}
		if err := <-ended; err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// One retry, whatever the server says then.
func TestACallThatIsRefusedAgainIsNotMadeAThirdTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, visited, heard := visitor(t, requires(webPage("one")), requires(webPage("two")))
		_, err := client.CallTool[string](t.Context(), c, "a", nil)
		var reported *jsonrpc.Error
		if !errors.As(err, &reported) || reported.Code != mcp.CodeURLElicitationRequired || len(*visited) != 1 {
			t.Errorf("%v after %q", err, *visited)
		}
		_ = c.Close()
		if got := heard.methods(); strings.Count(got, "tools/call") != 2 {
			t.Errorf("it heard %s", got)
		}
	})
}

// H7: what is not a page that users can be sent to is not shown to them, and what the
// server may not ask for is not done. The call is not made again.
func TestH7RefusalsThatSendNobodyAnywhere(t *testing.T) {
	var nine []string
	for i := range 9 {
		nine = append(nine, webPage(fmt.Sprint("p", i)))
	}
	for name, test := range map[string]struct {
		refusal string
		visits  int
	}{
		"no data":             {`"error":{"code":-32042,"message":"?"}`, 0},
		"data of another":     {`"error":{"code":-32042,"message":"?","data":[1]}`, 0},
		"none":                {requires(), 0},
		"too many":            {requires(nine...), 0},
		"one twice":           {requires(webPage("one"), webPage("one")), 0},
		"a form":              {requires(`{"mode":"form","message":"?","elicitationId":"1","requestedSchema":{"type":"object","properties":{}}}`), 0},
		"no mode":             {requires(`{"message":"?","elicitationId":"1","url":"https://example.com"}`), 0},
		"no id":               {requires(`{"mode":"url","message":"?","url":"https://example.com"}`), 0},
		"unencrypted":         {requires(`{"mode":"url","message":"?","elicitationId":"1","url":"http://example.com"}`), 0},
		"a script":            {requires(`{"mode":"url","message":"?","elicitationId":"1","url":"javascript:alert(1)"}`), 0},
		"a flag":              {requires(`{"mode":"url","message":"?","elicitationId":"1","url":"--help"}`), 0},
		"declined":            {requires(webPage("bad"), webPage("two")), 1},
		"declined in the end": {requires(webPage("one"), webPage("bad")), 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, visited, heard := visitor(t, test.refusal, called)
				_, err := client.CallTool[string](t.Context(), c, "a", nil)
				var reported *jsonrpc.Error
				if !errors.As(err, &reported) || reported.Code != mcp.CodeURLElicitationRequired || len(*visited) != test.visits {
					t.Errorf("%v after %q", err, *visited)
				}
				_ = c.Close()
				if got := heard.methods(); strings.Count(got, "tools/call") != 1 {
					t.Errorf("it heard %s", got)
				}
			})
		})
	}
}

// H7: a question that sends the user somewhere they cannot be sent is answered for them.
func TestH7QuestionsWithBadURLsAreNotShown(t *testing.T) {
	for _, url := range []string{"http://example.com/", "file:///etc/passwd", "https://u:p@example.com/", "-x", `https://example.com/\u202egpj`} {
		synctest.Test(t, func(t *testing.T) {
			ask := `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"?","url":"` + url + `","elicitationId":"1"}}`
			c, visited, heard := visitor(t, "!lines "+ask+"\n"+`{"jsonrpc":"2.0","id":$id,`+called+`}`)
			if _, err := client.CallTool[string](t.Context(), c, "a", nil); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			_ = c.Close()
			if got := heard.methods(); len(*visited) != 0 || !strings.Contains(got, `"id":"q","error":{"code":-32602,`) {
				t.Errorf("%q, and it heard %s", *visited, got)
			}
		})
	}
}

// J10: an error of another revision is an error like any other.
func TestJ10RefusalsOfOtherRevisionsAreNotFollowed(t *testing.T) {
	for r, s := range map[mcp.Revision]*script{mcp.V20260728: modernServer(), mcp.V20250618: legacyServer()} {
		s.Answers["tools/call"] = []string{requires(webPage("one")), called}
		d := quiet()
		d.Revision = r
		d.ElicitURL = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			t.Errorf("%s: the user was asked", r)
			return nil, errors.New("no")
		}
		to, _ := target(s)
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.CallTool[string](t.Context(), c, "a", nil); err == nil {
			t.Errorf("%s: the call was made again", r)
		}
		_ = c.Close()
	}
}

// While a user is at a URL, the calls that are in flight may take longer, and those
// that are begun meanwhile may not.
func TestClocksStandStillWhileTheUserIsAtAURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":` + webPage("one") + `}`
		c, visited, _ := visitor(t, "!lines "+ask)
		start := time.Now()
		first := make(chan time.Duration, 1)
		go func() {
			_, err := client.CallTool[string](t.Context(), c, "a", nil)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			first <- time.Since(start)
		}()
		synctest.Wait()
		if len(*visited) != 1 {
			t.Fatalf("the user was sent to %q", *visited)
		}
		if took := <-first; took != 6*time.Minute { // 5 at the URL, and one of its own
			t.Errorf("it took %v", took)
		}
	})
}
