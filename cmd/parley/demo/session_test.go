//lint:file-ignore SA1019 Deprecated features are still supported.

package demo_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/mcptest"
)

func TestBookTableAsksForMissingArguments(t *testing.T) {
	for _, r := range []mcp.Revision{mcp.V20250618, mcp.V20251125, mcp.Latest} {
		asked := 0
		c := mcptest.Dial(t, newServer(), mcptest.WithRevision(r), func(d *client.Dialer) {
			d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
				asked++
				return mcp.AcceptElicit(map[string]any{"date": "2027-01-31", "people": 3, "seat": "terrace",
					"remind": false, "diets": []string{"vegan"}})
			}
		})
		got, err := client.CallTool[string](t.Context(), c, "book_table", map[string]any{"restaurant": "Maaemo"})
		if want := "A table (terrace) at Maaemo for 3 on 2027-01-31; vegan. This is a demo; nothing was " +
			"booked."; err != nil || got != want || asked != 1 {
			t.Errorf("%s: %q, %v after %d questions, want %q", r, got, err, asked, want)
		}
	}
}

func TestBookTableAcceptsADecline(t *testing.T) {
	c := mcptest.Dial(t, newServer(), func(d *client.Dialer) {
		d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
		}
	})
	got, err := client.CallTool[string](t.Context(), c, "book_table", map[string]any{"restaurant": "Maaemo"})
	if err != nil || !strings.HasPrefix(got, "No table was booked") {
		t.Errorf("result %q, %v", got, err)
	}
}

func TestBookTableNamesMissingArgumentsIfItCannotAsk(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		_, err := client.CallTool[string](t.Context(), c, "book_table", map[string]any{"restaurant": "Maaemo"})
		if err == nil || !strings.Contains(err.Error(), "pass the arguments date and people") {
			t.Errorf("error is %v", err)
		}
	})
}

func TestCheckupLogsAtTheRequestedLevel(t *testing.T) {
	for _, r := range mcp.Revisions() {
		var mu sync.Mutex
		var levels []mcp.LoggingLevel
		c := mcptest.Dial(t, newServer(), mcptest.WithRevision(r), func(d *client.Dialer) {
			d.OnLog = func(_ context.Context, m mcp.LoggingMessageParams) {
				mu.Lock()
				defer mu.Unlock()
				levels = append(levels, m.Level)
			}
		})
		if err := c.SetLogLevel(t.Context(), mcp.LevelInfo); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CallTool(t.Context(), "checkup", nil); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		if want := []mcp.LoggingLevel{mcp.LevelInfo, mcp.LevelInfo, mcp.LevelWarning}; !slices.Equal(levels, want) {
			t.Errorf("%s: log levels %v, want %v", r, levels, want)
		}
		mu.Unlock()
	}
}

func TestCitiesAreReadAndCompletedInEveryRevision(t *testing.T) {
	mcptest.Everywhere(t, newServer, func(t *testing.T, c *client.Client) {
		got, err := c.ReadResource(t.Context(), "demo://cities/oslo")
		if err != nil || len(got.Contents) != 1 || !strings.Contains(got.Contents[0].Text, `"Norway"`) {
			t.Errorf("the resource of Oslo is %+v, %v", got, err)
		}
		for _, ref := range []mcp.CompleteReference{
			{Type: mcp.RefPrompt, Name: "postcard"},
			{Type: mcp.RefResource, URI: "demo://cities/{city}"},
		} {
			completion, err := c.Complete(t.Context(), mcp.CompleteParams{Ref: ref,
				Argument: mcp.CompleteArgument{Name: "city", Value: "os"}})
			if err != nil || !slices.Equal(completion.Values, []string{"Osaka", "Oslo"}) {
				t.Errorf("%s: completion of os is %+v, %v", ref.Type, completion, err)
			}
		}
		prompt, err := c.GetPrompt(t.Context(), "postcard", map[string]string{"city": "Oslo"})
		if err != nil || len(prompt.Messages) != 1 {
			t.Errorf("the prompt is %+v, %v", prompt, err)
		}
	})
}

func TestUnknownCitiesAreNotFound(t *testing.T) {
	if _, err := mcptest.Dial(t, newServer()).ReadResource(t.Context(), "demo://cities/Atlantis"); err == nil {
		t.Error("reading Atlantis returned no error")
	}
}
