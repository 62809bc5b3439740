//lint:file-ignore SA1019 What is deprecated still has to work.

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

// question asks in the way that the client's revision has: with a form where there
// are forms, by way of the model before.
func question(ctx context.Context, what string) (string, error) {
	form, err := server.Elicit[struct {
		Answer string `json:"answer"`
	}](ctx, what)
	if !errors.Is(err, server.ErrUnsupported) {
		return form.Answer, err
	}
	said, err := server.Sample(ctx, mcp.CreateMessageParams{
		MaxTokens: 10, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text(what)}}},
	})
	if err != nil {
		return "", err
	}
	return said.Content[0].(*mcp.TextContent).Text, nil
}

// asking is a server whose handlers ask.
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
				var said mcp.CreateMessageResult
				var roots []mcp.Root
				err := server.Ask(ctx,
					server.SampleInto(&said, mcp.CreateMessageParams{MaxTokens: 5, Messages: []mcp.SamplingMessage{{Role: mcp.RoleUser, Content: []mcp.Content{mcp.Text("hello?")}}}}),
					server.RootsInto(&roots))
				if err != nil {
					return "", err
				}
				return fmt.Sprint(said.Content[0].(*mcp.TextContent).Text, " ", roots[0].URI), nil
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

// answering is a client that answers: forms with what they ask, models by echoing.
func answering(d *client.Dialer) {
	d.Elicit = func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		return mcp.AcceptElicit(map[string]string{"answer": form.Message + "!"})
	}
	d.Sample = func(_ context.Context, p *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
		asked := p.Messages[0].Content[0].(*mcp.TextContent).Text
		return &mcp.CreateMessageResult{Role: mcp.RoleAssistant, Model: "echo", Content: []mcp.Content{mcp.Text(asked + "!")}}, nil
	}
	d.Roots = func(context.Context) ([]mcp.Root, error) { return []mcp.Root{{URI: "file:///work"}}, nil }
}

// One handler asks three questions in a row in every revision, and charges once.
func TestOneHandlerAsksInEveryRevision(t *testing.T) {
	var charged atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		before := charged.Load()
		text, err := client.CallTool[string](t.Context(), c, "order", nil)
		want := fmt.Sprintf("first?! second?! third?! receipt %d", before+1)
		if err != nil || text != want {
			t.Errorf("%q, %v, want %q", text, err, want)
		}
		if n := charged.Load() - before; n != 1 {
			t.Errorf("the card was charged %d times", n)
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

// A client whose roots have changed tells the servers of sessions, and a server that has
// asked for them asks again.
func TestRootsThatChangeAreReported(t *testing.T) {
	told := make(chan struct{}, 1)
	rooted := func() *server.Server {
		s := newServer()
		s.RootsChanged = func(ctx context.Context) {
			if server.PeerOf(ctx).Info.Name == "" {
				t.Error("nobody knows whose roots have changed")
			}
			told <- struct{}{}
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
		case <-told:
		case <-time.After(10 * time.Second):
			t.Error("the server does not know")
		}
	}, answering)
}

// J15: a handler that does not want an answer any more takes its question back.
func TestQuestionsAreTakenBack(t *testing.T) {
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
			return // a question is part of a result there, and nobody waits for its answer
		}
		if text, err := client.CallTool[string](t.Context(), c, "hasty", nil); err != nil || text != "true" {
			t.Errorf("%q, %v", text, err)
		}
		if err := <-answered; !errors.Is(err, context.Canceled) {
			t.Errorf("the client's model was left at work: %v", err)
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

// M4: a client that has not declared what a question needs is told so, in its
// revision's way, and not asked.
func TestUndeclaredCapabilitiesAreNotAsked(t *testing.T) {
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

// V7: defaults of forms are filled in by the client, and answers that do not fit are
// asked for again.
func TestFormsAreCompletedAndChecked(t *testing.T) {
	var charged atomic.Int32
	for _, tt := range []struct {
		name    string
		answers []string // one after the other; the last again and again
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
						t.Error("a revision without forms has shown one")
					}
					return
				}
				text, err := client.CallTool[string](t.Context(), c, "book", nil)
				if err != nil || text != tt.want {
					t.Errorf("%q, %v", text, err)
				}
			}, func(d *client.Dialer) {
				asked := 0
				d.Elicit = func(context.Context, *mcp.ElicitParams) (*mcp.ElicitResult, error) {
					answer := tt.answers[min(asked, len(tt.answers)-1)]
					asked++
					return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(answer)}, nil
				}
			})
		})
	}
}

func TestDecliningAndDismissing(t *testing.T) {
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

// Calls that ask at the same time are all answered, though a client answers some at a
// time only.
func TestManyCallsAskAtOnce(t *testing.T) {
	var charged atomic.Int32
	everywhere(t, asking(&charged), func(t *testing.T, c *client.Client) {
		var calls sync.WaitGroup
		for range 30 { // more than a client answers at a time
			calls.Go(func() {
				if text, err := client.CallTool[string](t.Context(), c, "both", nil); err != nil || text != "hello?! file:///work" {
					t.Errorf("%q, %v", text, err)
				}
			})
		}
		calls.Wait()
	}, answering)
}
