package corpus_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/corpus"
	"github.com/parley-mcp/parley/internal/spec"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// place is one revision on one surface.
type place struct {
	surface  string
	revision mcp.Revision
}

// places are all surfaces in all revisions that have them. A gateway serves clients of every revision.
func places() []place {
	var all []place
	for _, r := range mcp.Revisions() {
		web := "http"
		if r == mcp.V20241105 {
			web = "pair"
		}
		for _, surface := range []string{"memory", "stream", web, "gateway"} {
			all = append(all, place{surface, r})
		}
	}
	return all
}

// onEveryPlace runs f in parallel for each place, with a function that connects a peer.
func onEveryPlace(t *testing.T, f func(t *testing.T, pl place, connect func() *peer)) {
	for _, pl := range places() {
		t.Run(pl.surface+"/"+string(pl.revision), func(t *testing.T) {
			t.Parallel()
			s := newServer()
			if pl.surface == "gateway" {
				s = newGateway(t, inMemory(t, s))
			}
			f(t, pl, func() *peer { return newPeer(t, pl.surface, pl.revision, s) })
		})
	}
}

// Each message of the corpus has its outcome, and the server still serves the next request.
func TestServersAnswerBadMessages(t *testing.T) {
	onEveryPlace(t, func(t *testing.T, _ place, connect func() *peer) {
		p, failures := connect(), 0
		for _, name := range corpus.Files(t) {
			if !strings.HasPrefix(name, "server/") {
				continue
			}
			for _, c := range corpus.Cases(t, name) {
				if err := p.try(t, c); err != nil {
					t.Errorf("%s: %s: %v", c.Place, c.Name, err)
					p = reconnect(t, &failures, connect)
				}
			}
		}
	})
}

// reconnect returns a new peer after a failed case, so that no further case fails because of it. After many failures, which
// may each have waited for a message, it ends the test.
func reconnect[P any](t *testing.T, failures *int, connect func() P) P {
	t.Helper()
	if *failures++; *failures == 10 {
		t.Fatal("too many failures: the other cases are not tried")
	}
	return connect()
}

// try sends a case and compares the responses with the outcome.
func (p *peer) try(t *testing.T, c corpus.Case) error {
	want := c.Want(p.tags()...)
	message := c.Bytes(t, p.fragments())
	if want == "" || !p.carries(message) {
		return nil
	}
	expected := strings.Split(want, "; ")
	if want == "none" {
		expected = nil
	}
	responses, err := p.exchange(message, len(expected))
	if err != nil {
		return fmt.Errorf("%w, want %s", err, want)
	}
	got := make([]string, len(responses))
	for i, response := range responses {
		if got[i], err = p.describe(response); err != nil {
			return fmt.Errorf("%w: %.300s", err, response)
		}
	}
	slices.Sort(got)
	slices.Sort(expected)
	if !slices.Equal(got, expected) {
		return fmt.Errorf("responses are %.600q, want %q", responses, expected)
	}
	return nil
}

// carries reports whether the surface can carry a message: on a byte stream each line is one, and in memory each message is
// one line.
func (p *peer) carries(message []byte) bool {
	switch p.surface {
	case "stream":
		return !bytes.ContainsAny(message, "\n")
	case "memory", "gateway":
		return len(message) > 0 && !bytes.ContainsAny(message, "\r\n")
	}
	return true
}

// describe returns a response in the form of an outcome.
func (p *peer) describe(response string) (string, error) {
	if strings.HasPrefix(response, "[") {
		var batch []json.RawMessage
		if err := json.Unmarshal([]byte(response), &batch); err != nil {
			return "", err
		}
		parts := make([]string, len(batch))
		for i, one := range batch {
			part, err := p.describe(string(one))
			if err != nil {
				return "", err
			}
			parts[i] = part
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	}
	m, err := jsonrpc.Parse([]byte(response), jsonrpc.Limits{})
	if err != nil {
		return "", err
	}
	if m.Kind != jsonrpc.Response {
		return "", errors.New("message must be a response")
	}
	text := "result"
	if m.Err != nil {
		text = fmt.Sprint(m.Err.Code)
		if err := spec.ValidateMessage(p.revision, []byte(response), ""); err != nil {
			return "", err
		}
	} else if bytes.Contains(m.Raw, []byte(`"isError":true`)) {
		text = "tool error"
	}
	if !m.ID.IsZero() {
		text += " " + m.ID.String()
	}
	return text, nil
}
