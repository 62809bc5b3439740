//lint:file-ignore SA1019 deprecated features must still work

package mcptest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
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
	if !errors.Is(err, server.ErrUnsupported) {
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
		server.AddTool(s, mcp.Tool{Name: "order", Description: "Asks three questions, and charges a card between them."},
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
					server.SampleInto(&sampled, mcp.CreateMessageParams{MaxTokens: 5, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("hello?")}}}}),
					server.RootsInto(&roots))
				if err != nil {
					return "", err
				}
				return fmt.Sprint(sampled.Content[0].(*mcp.TextContent).Text, " ", roots[0].URI), nil
			})
		server.AddTool(s, mcp.Tool{Name: "book", Description: "Asks for a booking."},
			func(ctx context.Context, _ struct{}) (string, error) {
				b, err := server.Elicit[booking](ctx, "When?", server.Key("booking"))
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
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "echo", Content: []mcp.Content{mcp.Text(question + "!")}}, nil
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
		if err != nil || text != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
		if n := charged.Load() - before; n != 1 {
			t.Errorf("the card was charged %d times, want 1", n)
		}
	}, answering)
}

func TestSeveralQuestionsAtOnce(t *testing.T) {
	var charged atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		text, err := client.CallTool[string](t.Context(), c, "both", nil)
		if err != nil || text != "hello?! file:///work" {
			t.Errorf("%q, %v", text, err)
		}
	}, answering)
}

// The notification exists in revisions with sessions only.
func TestServerReceivesRootsChanged(t *testing.T) {
	received := make(chan struct{}, 1)
	rooted := func() *server.Server {
		s := newServer()
		s.RootsChanged = func(ctx context.Context) {
			if server.PeerOf(ctx).Info.Name == "" {
				t.Error("RootsChanged cannot identify the client")
			}
			received <- struct{}{}
		}
		return s
	}
	everywhere(t, rooted, func(t *testing.T, c *client.Client) {
		if err := c.NotifyRootsChanged(t.Context()); err != nil {
			t.Fatal(err)
		}
		if c.Revision().Modern() {
			return
		}
		select {
		case <-received:
		case <-time.After(10 * time.Second):
			t.Error("the server has not received the notification")
		}
	}, answering)
}

// Rule J15: a handler that cancels its request for input cancels the client's handler.
func TestInputRequestsCanBeCancelled(t *testing.T) {
	asked, answered := make(chan struct{}, 1), make(chan error, 1)
	hasty := func() *server.Server {
		s := newServer()
		server.AddTool(s, mcp.Tool{Name: "hasty", Description: "Asks, and does not wait."}, func(ctx context.Context, _ struct{}) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() {
				select {
				case <-asked:
					cancel()
				case <-ctx.Done():
				}
			}()
			_, err := server.Sample(ctx, mcp.CreateMessageParams{MaxTokens: 1, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("well?")}}}})
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
		if text, err := client.CallTool[string](t.Context(), c, "hasty", nil); err != nil || text != "true" {
			t.Errorf("%q, %v", text, err)
		}
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("the context of the client's model ends with %v, want context.Canceled", err)
		}
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
			if !errors.As(err, &reported) || reported.Code != mcp.CodeMissingCapability {
				t.Errorf("got %v", err)
			}
			var data mcp.MissingCapabilityData
			if reported != nil && (json.Unmarshal(reported.Data, &data) != nil || data.RequiredCapabilities.Sampling == nil) {
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
					if err == nil {
						t.Error("Elicit succeeds in a revision without forms")
					}
					return
				}
				text, err := client.CallTool[string](t.Context(), c, "book", nil)
				if err != nil || text != tt.want {
					t.Errorf("%q, %v", text, err)
				}
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
	for action, want := range map[mcp.ElicitAction]error{mcp.ElicitDecline: server.ErrDeclined, mcp.ElicitCancel: server.ErrDismissed} {
		t.Run(string(action), func(t *testing.T) {
			everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
				if c.Revision() < mcp.V20250618 {
					return
				}
				_, err := client.CallTool[string](t.Context(), c, "book", nil)
				if err == nil || !errors.Is(want, want) || err.Error() != "tool book failed: "+want.Error() {
					t.Errorf("got %v", err)
				}
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
				if text, err := client.CallTool[string](t.Context(), c, "both", nil); err != nil || text != "hello?! file:///work" {
					t.Errorf("%q, %v", text, err)
				}
			})
		}
		calls.Wait()
	}, answering)
}
