package modern

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// answers is a wire to a server that answers each request with the next message of a list.
// "$id" is replaced by the id of the request.
type answers struct {
	to   outbound.Receiver
	list []string
	sent []string
	fail error // returned by Send when the list is empty
}

func (a *answers) Send(_ context.Context, out *outbound.Outgoing) error {
	a.sent = append(a.sent, string(out.Message))
	if len(a.list) == 0 {
		return a.fail
	}
	raw := strings.ReplaceAll(a.list[0], "$id", out.ID.String())
	a.list = a.list[1:]
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	if err != nil {
		a.to.ReceiveInvalid(&m, err)
	} else {
		a.to.Receive(&m)
	}
	return nil
}

func (a *answers) SetRevision(mcp.Revision) {}
func (a *answers) Close() error             { return nil }

func newClient(t *testing.T, list ...string) (*Client, *answers) {
	t.Helper()
	c, err := NewClient(mcp.Implementation{Name: "c", Version: "1"}, mcp.ClientCapabilities{}, nil, false,
		slog.New(slog.DiscardHandler))
	must.Do(t, err)
	wire := &answers{to: c, list: list}
	c.Wire = wire
	return c, wire
}

func result(members string) string { return `{"jsonrpc":"2.0","id":$id,"result":{` + members + `}}` }

// Rule J9.
func TestResultTypeDecidesHowAResultIsRead(t *testing.T) {
	for members, valid := range map[string]bool{
		`"resultType":"complete","a":1`:    true,
		`"resultType":"\u0063omplete"`:     true,
		`"a":1`:                            true, // an older server's
		`"resultType":"input_required"`:    false,
		`"resultType":"task","taskId":"t"`: false,
		`"resultType":"surprise"`:          false,
		`"resultType":""`:                  false,
		`"resultType":7`:                   false,
		`"resultType":null`:                false,
		`"resultType":["complete"]`:        false,
		`"x":{"resultType":"surprise"}`:    true,
		`"resultType":"complete","a":"\n"`: true,
	} {
		c, _ := newClient(t, result(members))
		raw, err := c.Call(t.Context(), &outbound.Request{Method: mcp.MethodListTools})
		must.CheckEqual(t, err == nil, valid, members, raw, err)
		must.CheckThat(t, err == nil || errors.Is(err, call.ErrInvalidResponse),
			"%s: error %v, want ErrInvalidResponse", members, err)
	}
}

// Rule J10: callers can distinguish errors that the server reports from local errors.
func TestServerErrorsDifferFromLocalErrors(t *testing.T) {
	c, _ := newClient(t, `{"jsonrpc":"2.0","id":$id,"error":{"code":-32602,"message":"not like this","data":{"a":1}}}`)
	_, err := c.Call(t.Context(), &outbound.Request{Method: mcp.MethodListTools})
	var reported *jsonrpc.Error
	must.CheckThat(t, errors.As(err, &reported) && reported.Code == -32602 && string(reported.Data) == `{"a":1}`,
		"%#v", err)
	c, _ = newClient(t, `{"jsonrpc":"2.0","id":$id,"result":7}`)
	_, err = c.Call(t.Context(), &outbound.Request{Method: mcp.MethodListTools})
	must.CheckThat(t, errors.Is(err, call.ErrInvalidResponse) && !errors.As(err, &reported), "%v", err)
}

func TestRequestsCarryMetadata(t *testing.T) {
	c, wire := newClient(t, result(`"resultType":"complete"`))
	must.Get(c.Call(t.Context(), &outbound.Request{Method: mcp.MethodListTools}))(t)
	var got struct {
		Params struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		} `json:"params"`
	}
	must.Do(t, json.Unmarshal([]byte(wire.sent[0]), &got))
	for key, want := range map[string]string{
		mcp.MetaProtocolVersion:    `"2026-07-28"`,
		mcp.MetaClientInfo:         `{"name":"c","version":"1"}`,
		mcp.MetaClientCapabilities: `{}`,
	} {
		must.CheckEqual(t, string(got.Params.Meta[key]), want, key)
	}
}

const rejectsVersion = `{"jsonrpc":"2.0","id":$id,"error":{"code":-32022,"message":"no","data":{"supported":[%s],` +
	`"requested":"2026-07-28"}}}`

// A server may reject the version although it lists it. The client asks once more, with a new id. It sends no other
// request again, because the error may come from a handler that has run.
func TestRejectedButListedVersionIsDiscoveredOnceMore(t *testing.T) {
	listed, older := fmt.Sprintf(rejectsVersion, `"2026-07-28"`), fmt.Sprintf(rejectsVersion, `"2025-11-25"`)
	complete := result(`"resultType":"complete"`)
	for _, tc := range []struct {
		method    string
		responses []string
		sent      int
		rejected  bool
	}{
		{mcp.MethodDiscover, []string{listed, complete}, 2, false},
		{mcp.MethodDiscover, []string{listed, listed, complete}, 2, true},
		{mcp.MethodDiscover, []string{older, complete}, 1, true},
		{mcp.MethodCallTool, []string{listed, complete}, 1, true},
		{mcp.MethodListTools, []string{listed, complete}, 1, true},
	} {
		c, wire := newClient(t, tc.responses...)
		_, err := c.Call(t.Context(), &outbound.Request{Method: tc.method})
		if IsModernError(err) != tc.rejected || len(wire.sent) != tc.sent ||
			tc.sent == 2 && wire.sent[0] == wire.sent[1] {
			t.Errorf("%s: %v after %q", tc.method, err, wire.sent)
		}
	}
}

// Rule U5.
func TestIsModernErrorRecognizesModernCodes(t *testing.T) {
	for _, tc := range []struct {
		err        error
		recognised bool
	}{
		{&jsonrpc.Error{Code: mcp.CodeHeaderMismatch}, true},
		{&call.StatusError{Status: 400, Err: &jsonrpc.Error{Code: mcp.CodeMissingCapability}}, true},
		{fmt.Errorf("wrapped: %w", &jsonrpc.Error{Code: mcp.CodeUnsupportedVersion}), true},
		{&call.StatusError{Status: 400}, false},
		{&jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound}, false},
		{errors.New("dial"), false},
		{nil, false},
	} {
		must.CheckEqual(t, IsModernError(tc.err), tc.recognised, tc.err)
	}
	supported, ok := UnsupportedVersion(&jsonrpc.Error{Code: mcp.CodeUnsupportedVersion,
		Data: json.RawMessage(`7`)})
	must.CheckThat(t, ok && supported == nil, "an error without a list: %q, %v", supported, ok)
}

func TestDiscoverDecodesTheResult(t *testing.T) {
	c, _ := newClient(t,
		result(`"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,`+
			`"cacheScope":"private",`+
			`"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"s","version":"2"}}`))
	found, info, err := c.Discover(t.Context(), &outbound.Request{Method: mcp.MethodDiscover})
	must.CheckThat(t, err == nil && found.Capabilities.Tools != nil && info.Name == "s",
		"%+v, %+v, %v", found, info, err)
	// Some legacy servers answer unknown methods with an empty result.
	c, _ = newClient(t, result(``))
	if _, _, err := c.Discover(t.Context(), &outbound.Request{Method: mcp.MethodDiscover}); !errors.Is(err,
		call.ErrInvalidResponse) || IsModernError(err) {
		t.Errorf("%v", err)
	}
	c, _ = newClient(t,
		result(`"supportedVersions":["2026-07-28"],"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":7}`))
	if _, info, err := c.Discover(t.Context(), &outbound.Request{Method: mcp.MethodDiscover}); err != nil ||
		info.Name != "" {
		t.Errorf("%+v, %v: a malformed server info must be ignored", info, err)
	}
}

// Rules T22, J3, J15: a response to no request is ignored, and a request of a server is not answered.
func TestInvalidServerMessagesAreIgnored(t *testing.T) {
	c, wire := newClient(t)
	wire.fail = errors.New("unreachable")
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}`,
		`{"jsonrpc":"2.0","id":99,"result":{}}`,
		`{"jsonrpc":"2.0","method":"notifications/whatever"}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":99,"progress":1}}`,
	} {
		c.Receive(parseMessage(t, raw))
	}
	m, err := jsonrpc.Parse([]byte(`{"jsonrpc":"2.0","id":99,"result":7}`), jsonrpc.Limits{})
	c.ReceiveInvalid(&m, err)
	must.CheckEqual(t, len(wire.sent), 0, wire.sent)
	c.Lost(call.ErrConnectionLost)
	must.CheckIs(t, must.Err(c.Call(t.Context(), &outbound.Request{Method: mcp.MethodListTools})),
		call.ErrConnectionLost)
}

func parseMessage(t *testing.T, raw string) *jsonrpc.Message {
	t.Helper()
	m, err := jsonrpc.Parse([]byte(raw), jsonrpc.Limits{})
	must.Do(t, err, raw)
	return &m
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
