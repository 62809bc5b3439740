package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/wiretest"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
)

type booking struct {
	Day    string `json:"day" enum:"mon,tue,wed" doc:"which day"`
	People int    `json:"people" minimum:"1" maximum:"9" default:"2"`
}

// question asks the user with a form, or the model in revisions without forms.
func question(ctx context.Context, what string) (string, error) {
	form, err := server.Elicit[struct {
		Answer string `json:"answer"`
	}](ctx, what)
	if !errors.Is(err, errors.ErrUnsupported) {
		return form.Answer, err
	}
	sampled, err := server.Sample(ctx, mcp.CreateMessageParams{
		MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(what)}}},
	})
	if err != nil {
		return "", err
	}
	return sampled.Content[0].(*mcp.TextContent).Text, nil
}

// asking returns a server whose handlers request input.
func asking(charged *atomic.Int32) func() *server.Server {
	return func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "order",
			Description: "Asks three questions, and charges a card between them."},
			func(ctx context.Context, _ struct{}) (string, error) {
				first, err := question(ctx, "first?")
				if err != nil {
					return "", err
				}
				second, err := question(ctx, "second?")
				if err != nil {
					return "", err
				}
				receipt, err := server.Once(ctx, "charge", func(_ context.Context, key string) (string, error) {
					return fmt.Sprintf("receipt %d", charged.Add(1)), nil
				})
				if err != nil {
					return "", err
				}
				third, err := question(ctx, "third?")
				if err != nil {
					return "", err
				}
				return fmt.Sprint(first, " ", second, " ", third, " ", receipt), nil
			})
		server.AddTool(s, mcp.Tool{Name: "both", Description: "Asks two things at once."},
			func(ctx context.Context, _ struct{}) (string, error) {
				var sampled mcp.CreateMessageResult
				var roots []mcp.Root
				err := server.Ask(ctx,
					server.SampleInto(&sampled, mcp.CreateMessageParams{MaxTokens: 5,
						Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser,
							Content: []mcp.Content{mcp.Text("hello?")}}}}), server.RootsInto(&roots))
				if err != nil {
					return "", err
				}
				return fmt.Sprint(sampled.Content[0].(*mcp.TextContent).Text, " ", roots[0].URI), nil
			})
		server.AddTool(s, mcp.Tool{Name: "book", Description: "Asks for a booking."},
			func(ctx context.Context, _ struct{}) (string, error) {
				b, err := server.Elicit[booking](ctx, "When?", server.Keyed("booking"))
				if err != nil {
					return "", err
				}
				return fmt.Sprint(b.Day, b.People), nil
			})
		return s
	}
}

// answering configures a client that answers forms and sampling requests with the question and "!".
func answering(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]string{"answer": form.Message + "!"})
	}
	d.Sample = func(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		question := p.Messages[0].Content[0].(*mcp.TextContent).Text
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "echo",
			Content: []mcp.Content{mcp.Text(question + "!")}}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work"}}, nil }
}

// The handler asks three questions in a row and charges a card once.
func TestHandlerRequestsInputInEveryRevision(t *testing.T) {
	var charged atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		before := charged.Load()
		text, err := client.CallTool[string](t.Context(), c, "order", nil)
		want := fmt.Sprintf("first?! second?! third?! receipt %d", before+1)
		must.CheckThat(t, err == nil && text == want, "%q, %v, want %q", text, err, want)
		must.CheckEqual(t, charged.Load()-before, 1, "the card was charged")
	}, answering)
}

// The notification exists in revisions with sessions only.
func TestServerReceivesRootsChanged(t *testing.T) {
	received := make(chan struct{}, 1)
	rooted := func() *server.Server {
		s := newServer()
		s.Middleware = wiretest.OnRootsChanged(func(ctx context.Context) {
			must.CheckThat(t, call.From(ctx).Peer().Info.Name != "", "the middleware cannot identify the client")
			received <- struct{}{}
		})
		return s
	}
	everywhere(t, rooted, func(t *testing.T, c *client.Client) {
		must.Do(t, c.NotifyRootsChanged(t.Context()))
		if c.Revision().Modern() {
			return
		}
		must.Receive(t, received, "the notification")
	}, answering)
}

// Rule J15: a handler that cancels its request for input cancels the client's handler.
func TestInputRequestsCanBeCancelled(t *testing.T) {
	asked, answered := make(chan struct{}, 1), make(chan error, 1)
	hasty := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "hasty", Description: "Asks, and does not wait."},
			func(ctx context.Context, _ struct{}) (string, error) {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				go func() {
					select {
					case <-asked:
						cancel()
					case <-ctx.Done():
					}
				}()
				_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1,
					Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("well?")}}}})
				if errors.Is(err, server.ErrInputRequired) {
					return "", err
				}
				return fmt.Sprint(errors.Is(err, context.Canceled)), nil
			})
		return s
	}
	everywhere(t, hasty, func(t *testing.T, c *client.Client) {
		if c.Revision().Modern() {
			return // an input request is part of a result there, so no handler waits for it
		}
		must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "hasty", nil))(t), "true")
		must.CheckIs(t, <-answered, context.Canceled, "the context of the client's model ends")
		await(t, mcp.NotificationCancelled, false)
	}, func(d *client.Dialer) {
		d.Sample = func(ctx context.Context, _ *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			asked <- struct{}{}
			<-ctx.Done()
			answered <- ctx.Err()
			return nil, ctx.Err()
		}
	})
}

// Rule M4: a server does not send an input request that the client has not declared. The
// client receives an error of its revision.
func TestUndeclaredCapabilitiesAreNotRequested(t *testing.T) {
	var charged atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		_, err := client.CallTool[string](t.Context(), c, "both", nil)
		var reported *jsonrpc.Error
		var failed *client.ToolError
		if c.Revision().Modern() {
			must.CheckThat(t, errors.As(err, &reported) && reported.Code == mcp.CodeMissingCapability, "got %v", err)
			var data mcp.MissingCapabilityData
			if reported != nil && (json.Unmarshal(reported.Data, &data) != nil ||
				data.RequiredCapabilities.Sampling == nil) {
				t.Errorf("data %s", reported.Data)
			}
		} else if !errors.As(err, &failed) {
			t.Errorf("got %v", err)
		}
	})
}

// Rule V7: the client adds the defaults of a form and validates the answer.
func TestFormsAreCompletedAndValidated(t *testing.T) {
	var charged atomic.Int32
	for _, tt := range []struct {
		name    string
		answers []string // in this order; the last is repeated
		want    string
	}{
		{"complete", []string{`{"day":"tue","people":4}`}, "tue4"},
		{"default", []string{`{"day":"mon"}`}, "mon2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
				if c.Revision() < mcp.V20250618 {
					_, err := client.CallTool[string](t.Context(), c, "book", nil)
					must.CheckThat(t, err != nil, "Elicit succeeds in a revision without forms")
					return
				}
				must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "book", nil))(t), tt.want)
			}, func(d *client.Dialer) {
				n := 0
				d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					answer := tt.answers[min(n, len(tt.answers)-1)]
					n++
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(answer)}, nil
				}
			})
		})
	}
}

func TestDeclineAndCancelAreTypedErrors(t *testing.T) {
	var charged atomic.Int32
	for action, want := range map[mcp.ElicitAction]error{mcp.ElicitDecline: server.ErrDeclined,
		mcp.ElicitCancel: server.ErrDismissed} {
		t.Run(string(action), func(t *testing.T) {
			everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
				if c.Revision() < mcp.V20250618 {
					return
				}
				_, err := client.CallTool[string](t.Context(), c, "book", nil)
				must.CheckEqual(t, fmt.Sprint(err), "tool book failed: "+want.Error())
			}, func(d *client.Dialer) {
				d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					return &mcp.ElicitResult{Action: action}, nil
				}
			})
		})
	}
}

// A client handles a limited number of input requests at a time. The others wait.
func TestManyCallsRequestInputAtOnce(t *testing.T) {
	var charged atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		var calls sync.WaitGroup
		for range 30 { // more than a client handles at a time
			calls.Go(func() {
				text, err := client.CallTool[string](t.Context(), c, "both", nil)
				must.CheckThat(t, err == nil && text == "hello?! file:///work", "%q, %v", text, err)
			})
		}
		calls.Wait()
	}, answering)
}

// In a session the handler waits until the user is done, or rejects the call until then. In 2026-07-28 the client sends
// the call again.
func TestURLElicitationInEveryRevision(t *testing.T) {
	const bill, pay = "https://pay.example/bill?id=1", "Pay the bill"
	var paid atomic.Bool
	done := func(context.Context) (bool, error) { return paid.Load(), nil }
	for name, ask := range map[string]func(context.Context) error{
		"waiting": func(ctx context.Context) error { return server.ElicitURL(ctx, bill, pay, done) },
		"rejecting": func(ctx context.Context) error {
			switch {
			case paid.Load():
				return nil
			case call.From(ctx).Revision() < mcp.V20251125:
				return errors.ErrUnsupported
			}
			return &call.URLRequiredError{URLs: []call.RequiredURL{{URL: bill, Message: pay, Done: done}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			newShop := func() *server.Server {
				paid.Store(false)
				s := newServer()
				server.AddTool(s, mcp.Tool{Name: "pay"}, func(ctx context.Context, _ struct{}) (string, error) {
					err := ask(ctx)
					if errors.Is(err, errors.ErrUnsupported) {
						return "Pay in cash", nil
					}
					return "Thank you", err
				})
				return s
			}
			everywhere(t, newShop, func(t *testing.T, c *client.Client) {
				want := "Thank you"
				if c.Revision() < mcp.V20251125 {
					want = "Pay in cash"
				}
				must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "pay", nil))(t), want)
				if c.Revision() == mcp.V20251125 {
					await(t, mcp.NotificationElicitationComplete, false)
				}
			}, func(d *client.Dialer) {
				d.ElicitURL = func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					must.CheckThat(t, strings.HasPrefix(params.URL, "https://pay.example/"),
						"the URL is %s", params.URL)
					paid.Store(true)
					return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
				}
			})
		})
	}
}

// conversing returns a server with a tool that samples from a model with tools. On request
// its conversation has a tool use without a result.
func conversing() *server.Server {
	s := newServer()
	server.AddTool(s, mcp.Tool{Name: "forecast"}, func(ctx context.Context, in struct {
		Broken bool `json:"broken,omitempty"`
	}) (string, error) {
		params := mcp.CreateMessageParams{
			MaxTokens: 10,
			Messages:  []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("Is it hot?")}}},
			Tools:     []mcp.Tool{{Name: "weather", InputSchema: []byte(`{"type":"object"}`)}},
		}
		sampled, err := server.Sample(ctx, params, server.Keyed("first"))
		if errors.Is(err, errors.ErrUnsupported) {
			return "no idea", nil
		} else if err != nil {
			return "", err
		}
		use := sampled.Content[0].(*mcp.ToolUseContent)
		params.Messages = append(params.Messages, mcp.SamplingMessage{Role: sampled.Role, Content: sampled.Content})
		if !in.Broken {
			params.Messages = append(params.Messages, mcp.SamplingMessage{Role: mcp.RoleUser, Content: []mcp.Content{
				&mcp.ToolResultContent{ToolUseID: use.ID, Content: []mcp.Content{mcp.Text("-3 degrees")}},
			}})
		}
		if sampled, err = server.Sample(ctx, params, server.Keyed("second")); err != nil {
			return "", err
		}
		return sampled.Content[0].(*mcp.TextContent).Text, nil
	})
	return s
}

// model uses a tool in its first message and replies with text in the second.
func model(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
	result := &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "m", StopReason: mcp.StopToolUse,
		Content: []mcp.Content{&mcp.ToolUseContent{ID: "u1", Name: p.Tools[0].Name}}}
	if len(p.Messages) > 1 {
		result.StopReason, result.Content = mcp.StopEndTurn, []mcp.Content{mcp.Text("no")}
	}
	return result, nil
}

// Rule Y6: sampling with tools requires the capability and a result for every tool use.
func TestSamplingWithToolsNeedsACapability(t *testing.T) {
	t.Run("declared", func(t *testing.T) {
		everywhere(t, conversing, func(t *testing.T, c *client.Client) {
			want := "no"
			if c.Revision() < mcp.V20251125 {
				want = "no idea"
			}
			must.CheckEqual(t, must.Get(client.CallTool[string](t.Context(), c, "forecast", nil))(t), want)
			_, err := client.CallTool[string](t.Context(), c, "forecast", map[string]bool{"broken": true})
			must.CheckThat(t, c.Revision() < mcp.V20251125 || err != nil &&
				strings.Contains(err.Error(), "results of its tool uses must follow"),
				"a tool use without a result: %v", err)
		}, func(d *client.Dialer) { d.Sample, d.SampleTools = model, true })
	})
	t.Run("undeclared", func(t *testing.T) {
		everywhere(t, conversing, func(t *testing.T, c *client.Client) {
			text, err := client.CallTool[string](t.Context(), c, "forecast", nil)
			var reported *jsonrpc.Error
			switch r := c.Revision(); {
			case r < mcp.V20251125:
				must.CheckThat(t, err == nil && text == "no idea", "%q, %v", text, err)
			case r.Modern():
				must.CheckThat(t, errors.As(err, &reported) && reported.Code == mcp.CodeMissingCapability,
					"got %v", err)
			default:
				must.CheckFails(t, err, `"tools"`)
			}
		}, func(d *client.Dialer) {
			d.Sample = func(context.Context, *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
				t.Error("the client receives a sampling request")
				return nil, errors.New("no")
			}
		})
	})
}
