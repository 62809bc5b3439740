package main

import (
	"context"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// answer makes a client that answers what the mock servers ask.
func answer(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		schema, err := mcp.ParseElicitSchema(form.RequestedSchema)
		if err != nil {
			return nil, err
		}
		// Only what is required: the library fills in the defaults of the rest.
		content := map[string]any{}
		for _, p := range schema.Properties {
			if p.Name == "confirmed" {
				content[p.Name] = true
			}
		}
		return mcp.AcceptElicit(content)
	}
}

// echoState calls the tools of the scenario about what a server has its client keep.
func echoState(ctx context.Context, c *client.Client) error {
	if err := list(ctx, c); err != nil {
		return err
	}
	for _, tool := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
		if err := must(ctx, c, tool, struct{}{}); err != nil {
			return err
		}
	}
	return nil
}
