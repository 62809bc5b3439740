package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/schema"
)

const (
	numberSchema = `{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}`
	textSchema   = `{"type":"object","properties":{"n":{"type":"string"}},"required":["n"]}`
)

func listedWith(output string) string {
	return `"result":{"tools":[{"name":"count","inputSchema":{"type":"object"},"outputSchema":` + output + `}]}`
}

func structured(value string) string {
	return `"result":{"content":[{"type":"text","text":"x"}],"structuredContent":` + value + `}`
}

// withTool returns a server with the given responses to tools/list and tools/call.
func withTool(s *script, list []string, calls ...string) *script {
	s.Answers["tools/list"], s.Answers["tools/call"] = list, calls
	return s
}

// Rule V6: a result that does not match the output schema is an error that has the result.
func TestResultsAreValidated(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			c, rec := dial(t, withTool(s, []string{listedWith(numberSchema)},
				structured(`{"n":"one"}`), structured(`{"n":1}`), structured(`{"n":"one"}`), content(""), `"result":{"content":[],"isError":true}`, structured(`{"n":2}`)))
			if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
				t.Errorf("before the tools are listed: %v", err)
			}
			names(t, c)
			if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
				t.Errorf("valid result: %v", err)
			}
			_, err := c.CallTool(t.Context(), "count", nil)
			var output *client.OutputError
			var invalid *schema.ValidationError
			if !errors.As(err, &output) || !errors.As(err, &invalid) || !errors.Is(err, client.ErrInvalidResponse) ||
				string(output.Result.StructuredContent) != `{"n":"one"}` || output.Tool != "count" {
				t.Errorf("invalid result: %v", err)
			}
			if _, err = c.CallTool(t.Context(), "count", nil); !errors.As(err, &output) || output.Result == nil {
				t.Errorf("a result without structured content: %v", err)
			}
			if result, err := c.CallTool(t.Context(), "count", nil); err != nil || !result.IsError {
				t.Errorf("a tool that failed: %v", err)
			}
			if n, err := client.CallTool[map[string]int](t.Context(), c, "count", nil); err != nil || n["n"] != 2 {
				t.Errorf("%v, %v", n, err)
			}
			c.Close()
			if received := rec.methods(); strings.Count(received, "tools/list") != 1 {
				t.Errorf("the server received %s", received)
			}
		})
	}
}

func TestSkipOutputValidation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _ := target(withTool(modernServer(), []string{listedWith(numberSchema)}, structured(`{"n":"one"}`)))
		d := quiet()
		d.SkipOutputValidation = true
		c, err := d.Dial(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		names(t, c)
		if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
			t.Error(err)
		}
	})
}

// A tool may have changed since it was listed. The client lists it again before it rejects a
// result.
func TestOldSchemaIsFetchedBeforeAResultIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, rec := dial(t, withTool(modernServer(), []string{listedWith(numberSchema), listedWith(textSchema)}, structured(`{"n":"one"}`), structured(`{"n":1}`)))
		names(t, c)
		time.Sleep(time.Minute)
		if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
			t.Error(err)
		}
		for range 3 {
			var output *client.OutputError
			if _, err := c.CallTool(t.Context(), "count", nil); !errors.As(err, &output) {
				t.Errorf("got %v", err)
			}
		}
		c.Close()
		if received := rec.methods(); strings.Count(received, "tools/list") != 2 || strings.Count(received, "tools/call") != 4 {
			t.Errorf("the server received %s", received)
		}
	})
}

// dialLogged connects to s in memory. It returns the log of the client.
func dialLogged(t *testing.T, s *script) (*client.Client, *bytes.Buffer) {
	t.Helper()
	to, _ := target(s)
	log := new(bytes.Buffer)
	d := client.Dialer{Logger: slog.New(slog.NewTextHandler(log, nil))}
	c, err := d.Dial(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, log
}

// Rule V5: the client logs an invalid output schema once and returns the results.
func TestInvalidOutputSchemaIsLogged(t *testing.T) {
	for _, output := range []string{`{"$schema":"https://example.com/mine","type":"object"}`, `{"type":12}`, `{"$ref":"https://example.com/x"}`} {
		synctest.Test(t, func(t *testing.T) {
			c, log := dialLogged(t, withTool(modernServer(), []string{listedWith(output)}, structured(`{"n":"one"}`)))
			names(t, c)
			for range 2 {
				if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
					t.Errorf("%s: %v", output, err)
				}
			}
			if n := strings.Count(log.String(), "cannot validate"); n != 1 {
				t.Errorf("%s: logged %d times: %s", output, n, log.String())
			}
		})
	}
}

// The number of remembered output schemas is limited.
func TestOutputSchemasAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists []string
		for page := range 12 {
			var b strings.Builder
			for i := range 1000 {
				fmt.Fprintf(&b, `{"name":"t%d","inputSchema":{"type":"object"},"outputSchema":%s},`, page*1000+i, numberSchema)
			}
			lists = append(lists, fmt.Sprintf(`"result":{"nextCursor":"%d","tools":[%s]}`, page, strings.TrimSuffix(b.String(), ",")))
		}
		lists = append(lists, `"result":{"tools":[]}`)
		c, _ := dial(t, withTool(modernServer(), lists, structured(`{"n":"one"}`)))
		names(t, c)
		if _, err := c.CallTool(t.Context(), "t0", nil); err != nil {
			t.Errorf("the schema of the first tool was not evicted: %v", err)
		}
		var output *client.OutputError
		if _, err := c.CallTool(t.Context(), "t11999", nil); !errors.As(err, &output) {
			t.Errorf("the schema of the last tool was not applied: %v", err)
		}
	})
}

// The parts of a schema that cannot be checked are logged once. The others are checked.
func TestUncheckedKeywordsOfOutputSchemasAreLogged(t *testing.T) {
	const lookahead = `{"type":"object","properties":{"n":{"type":"string","pattern":"^(?=a)a$"},"m":{"pattern":"(?!b)"}},"required":["n"]}`
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			c, log := dialLogged(t, withTool(s, []string{listedWith(lookahead)}, structured(`{"n":"b"}`), structured(`{"n":1}`)))
			names(t, c)
			if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
				t.Error(err)
			}
			if _, err := c.CallTool(t.Context(), "count", nil); !errors.As(err, new(*client.OutputError)) {
				t.Errorf("got %v, want an *OutputError", err)
			}
			if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "tool=count") || !strings.Contains(got, "count=2") || !strings.Contains(got, "/pattern") {
				t.Errorf("the log is %s", got)
			}
		})
	}
}
