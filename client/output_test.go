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

func offering(output string) string {
	return `"result":{"tools":[{"name":"count","inputSchema":{"type":"object"},"outputSchema":` + output + `}]}`
}

func structured(value string) string {
	return `"result":{"content":[{"type":"text","text":"x"}],"structuredContent":` + value + `}`
}

// counter is a server whose tool is listed and answers so.
func counter(s *script, list []string, calls ...string) *script {
	s.Answers["tools/list"], s.Answers["tools/call"] = list, calls
	return s
}

// V6: a result that does not fit is an error that has the result.
func TestResultsAreHeldAgainstTheOutputSchema(t *testing.T) {
	for _, s := range []*script{modernServer(), legacyServer()} {
		synctest.Test(t, func(t *testing.T) {
			c, played := dial(t, counter(s, []string{offering(numberSchema)},
				structured(`{"n":"one"}`), structured(`{"n":1}`), structured(`{"n":"one"}`), content(""), `"result":{"content":[],"isError":true}`, structured(`{"n":2}`)))
			if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
				t.Errorf("before the tools are listed: %v", err)
			}
			names(t, c)
			if _, err := c.CallTool(t.Context(), "count", nil); err != nil {
				t.Errorf("a result that fits: %v", err)
			}
			_, err := c.CallTool(t.Context(), "count", nil)
			var output *client.OutputError
			var invalid *schema.ValidationError
			if !errors.As(err, &output) || !errors.As(err, &invalid) || !errors.Is(err, client.ErrInvalidResponse) ||
				string(output.Result.StructuredContent) != `{"n":"one"}` || output.Tool != "count" {
				t.Errorf("a result that does not: %v", err)
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
			if heard := played.methods(); strings.Count(heard, "tools/list") != 1 {
				t.Errorf("the server heard %s", heard)
			}
		})
	}
}

func TestResultsAreTakenAsTheyComeIfToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		to, _ := target(counter(modernServer(), []string{offering(numberSchema)}, structured(`{"n":"one"}`)))
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

// A tool may have changed since it was listed, which is found out when it matters.
func TestAnOldSchemaIsLookedUpBeforeAResultIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, played := dial(t, counter(modernServer(), []string{offering(numberSchema), offering(textSchema)}, structured(`{"n":"one"}`), structured(`{"n":1}`)))
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
		if heard := played.methods(); strings.Count(heard, "tools/list") != 2 || strings.Count(heard, "tools/call") != 4 {
			t.Errorf("the server heard %s", heard)
		}
	})
}

// V5: a schema that cannot be used is said so once, and keeps nobody from the result.
func TestASchemaOfNoUseIsLogged(t *testing.T) {
	for _, output := range []string{`{"$schema":"https://example.com/mine","type":"object"}`, `{"type":12}`, `{"$ref":"https://example.com/x"}`} {
		synctest.Test(t, func(t *testing.T) {
			to, _ := target(counter(modernServer(), []string{offering(output)}, structured(`{"n":"one"}`)))
			var log bytes.Buffer
			d := client.Dialer{Logger: slog.New(slog.NewTextHandler(&log, nil))}
			c, err := d.Dial(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
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

// What a server lists without end is not remembered without end.
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
		c, _ := dial(t, counter(modernServer(), lists, structured(`{"n":"one"}`)))
		names(t, c)
		if _, err := c.CallTool(t.Context(), "t0", nil); err != nil {
			t.Errorf("the first is remembered: %v", err)
		}
		var output *client.OutputError
		if _, err := c.CallTool(t.Context(), "t11999", nil); !errors.As(err, &output) {
			t.Errorf("the last is not: %v", err)
		}
	})
}
