package main

import (
	"context"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// answerElicitation makes a client answer the forms of the mock servers.
func answerElicitation(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		schema, err := mcp.ParseElicitSchema(form.RequestedSchema)
		if err != nil {
			return nil, err
		}
		// The library fills in the defaults of the optional fields.
		content := map[string]any{}
		for _, p := range schema.Properties {
			if p.Name == "confirmed" {
				content[p.Name] = true
			}
		}
		return mcp.AcceptElicit(content)
	}
}

// echoState calls the tools of the scenario about requestState.
func echoState(ctx context.Context, c *client.Client) error {
	if err := list(ctx, c); err != nil {
		return err
	}
	for _, tool := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated",
		"test_mrtr_no_result_type"} {
		if err := must(ctx, c, tool, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}
