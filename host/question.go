package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/parley-mcp/parley/call"
	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/internal/forms"
	"github.com/parley-mcp/parley/internal/plaintext"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// The functions of this file pass requests and messages of a server to the caller who uses the connection.

// MetaServer is the key in _meta that names the server, in the requests of servers that a [Caller] receives.
const MetaServer = "com.github.parley-mcp/server"

type serverKey struct{}

// AskingServer returns the name of the server that asks for roots, in the context of Caller.Roots; other requests name
// it in their _meta, as [MetaServer]. It is empty if users see the server as if there were no Host; see
// [Host.Attribute].
func AskingServer(ctx context.Context) string {
	name, _ := ctx.Value(serverKey{}).(string)
	return name
}

// errNobody is the response to a request of a server on a connection that several people share.
var errNobody = jsonrpc.Errorf(jsonrpc.CodeInternalError, "cannot pass the request on: it names no call, and several "+
	`callers may share this connection; set Sharing ("sharing" in a configuration) of the server to user or session`)

// errRepeated is the response to a request of a server if the answer arrives in another round of the caller's
// request: the request to the server is cancelled, and sent again with the answer.
var errRepeated = jsonrpc.Errorf(jsonrpc.CodeInternalError, "the request is cancelled, and repeated with the answer")

// dialerFor returns the settings of the client of a connection. Its functions check the requests of the server against
// the limits, the policy and the approver. Requests that the program does not answer itself go to the caller; a session
// declares what its caller can answer.
func (s *supervisor) dialerFor(c *connection, caller *Caller) client.Dialer {
	d := s.dialer
	d.Shared = c.key.isShared()
	can := inputKinds(allInputKinds)
	switch {
	case c.key == everyone && !s.host.Callers:
		can = 0
	case c.key.session != "":
		can = caller.inputKinds()
	}
	if d.Elicit == nil && can&formInput != 0 {
		d.Elicit = s.askForm
	}
	if d.ElicitURL == nil && can&urlInput != 0 {
		d.ElicitURL = s.askURL
	}
	if d.Sample == nil && can&samplingInput != 0 {
		d.Sample, d.SampleTools = s.askSample, can&samplingToolsInput != 0
	}
	if d.Roots == nil && can&rootsInput != 0 {
		d.Roots = func(ctx context.Context) ([]mcp.Root, error) { return s.askRoots(ctx, c) }
	}
	if d.OnLog == nil && (s.host.Callers || caller != nil) {
		d.OnLog = s.passLog
	}
	s.admitAll(&d, c)
	if log := d.OnLog; log != nil {
		d.OnLog = func(ctx context.Context, message mcp.LoggingMessageParams) {
			if ctx = c.context(ctx); pendingOf(ctx) != nil || c.allowsLog() {
				log(ctx, message)
			}
		}
	}
	d.Extensions = withNotifications(d.Extensions, func(f notificationFunc) notificationFunc {
		return func(ctx context.Context, params json.RawMessage) { f(c.context(ctx), params) }
	})
	return d
}

// admitAll wraps the functions of the dialer, so that they receive no request that the limits, the policy or the
// approver reject.
func (s *supervisor) admitAll(d *client.Dialer, c *connection) {
	if answer := d.Elicit; answer != nil {
		d.Elicit = func(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return asking(ctx, c, func(ctx context.Context) (*mcp.ElicitResult, error) {
				return s.elicit(ctx, form, answer)
			})
		}
	}
	if answer := d.ElicitURL; answer != nil {
		d.ElicitURL = func(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			return asking(ctx, c, func(ctx context.Context) (*mcp.ElicitResult, error) {
				return s.elicit(ctx, request, answer)
			})
		}
	}
	if answer := d.Sample; answer != nil {
		d.Sample = func(ctx context.Context, params *mcp.CreateMessageParams) (*mcp.CreateMessageResult, error) {
			return asking(ctx, c, func(ctx context.Context) (*mcp.CreateMessageResult, error) {
				return s.sample(ctx, params, answer)
			})
		}
	}
	if answer := d.Roots; answer != nil {
		d.Roots = func(ctx context.Context) ([]mcp.Root, error) { return s.listRoots(c.context(ctx), answer) }
	}
}

// declaring contains, for each set of kinds, the option with which a request declares only these kinds of
// input requests.
var declaring = func() (all [allInputKinds + 1]client.CallOption) {
	for kinds := range all {
		all[kinds] = client.WithCapabilities(inputKinds(kinds).capabilities())
	}
	return all
}()

// declared adds the option that declares what the caller of ctx can be asked, which matters in 2026-07-28.
func (s *supervisor) declared(ctx context.Context, options []client.CallOption) []client.CallOption {
	if !s.host.Callers {
		return options
	}
	all := make([]client.CallOption, 0, len(options)+1)
	return append(append(all, options...), declaring[s.local|callerFrom(ctx).inputKinds()])
}

// asked returns the caller who answers a request of the server. The error is for the server.
func asked(ctx context.Context, method string, kinds inputKinds) (*Caller, error) {
	c := callerFrom(ctx)
	if c == nil {
		return nil, errNobody
	}
	if missing := kinds &^ c.inputKinds(); missing != 0 {
		return nil, unsupported(method, missing)
	}
	return c, nil
}

// unsupported returns the error for a server whose request the caller does not support. It equals the error that a
// client without the capability returns (2025-11-25, client/elicitation, Error Handling; client/roots, Error Handling).
func unsupported(method string, missing inputKinds) error {
	code := int64(jsonrpc.CodeMethodNotFound)
	if missing&(formInput|urlInput|samplingToolsInput) != 0 && missing&samplingInput == 0 {
		code = jsonrpc.CodeInvalidParams
	}
	return jsonrpc.Errorf(code, "%s: the client of this call does not support it", method)
}

// forServer returns the error that the server receives if a caller answers with err.
func forServer(err error) error {
	switch rejected, ok := errors.AsType[*call.AnswerError](err); {
	case ok:
		return rejected.Err
	case errors.Is(err, call.ErrInputRequired):
		return errRepeated
	}
	return err
}

const (
	maxFormAttempts = 3   // how often a user may answer one form, as in server.Ask
	maxFormReason   = 500 // bytes of the reason why an answer is rejected
)

// askForm passes a form on. If the answer does not match the form, it asks again and adds the reason.
func (s *supervisor) askForm(ctx context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	c, err := asked(ctx, mcp.MethodElicit, formInput)
	if err != nil {
		return nil, err
	}
	fields, err := forms.Parse(form.RequestedSchema)
	if err != nil {
		return nil, err
	}
	message := s.host.Attribute(s.name, form.Message)
	params := &mcp.ElicitParams{Message: message, RequestedSchema: form.RequestedSchema}
	params.Meta = s.attributedMeta(form.Meta)
	for attempt := 2; ; attempt++ {
		result, err := c.Elicit(ctx, params)
		if err != nil || result == nil || result.Action != mcp.ElicitAccept {
			return result, forServer(err)
		}
		_, unfit := fields.Complete(result.Content)
		switch {
		case unfit == nil:
			return result, nil
		case attempt > maxFormAttempts:
			return nil, jsonrpc.Errorf(jsonrpc.CodeInternalError, "the client's answer is invalid: %s", unfit)
		}
		params.Message = fmt.Sprintf("%s\n\nPlease answer again (attempt %d of %d): %s", message, attempt,
			maxFormAttempts, cut(unfit.Error(), maxFormReason, plain))
	}
}

func (s *supervisor) askURL(ctx context.Context, request *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	c, err := asked(ctx, mcp.MethodElicit, urlInput)
	if err != nil {
		return nil, err
	}
	params := &mcp.ElicitParams{Mode: mcp.ElicitModeURL, Message: s.host.Attribute(s.name, request.Message),
		URL: request.URL}
	params.Meta = s.attributedMeta(request.Meta)
	result, err := c.ElicitURL(ctx, params)
	return result, forServer(err)
}

func (s *supervisor) askSample(ctx context.Context, request *mcp.CreateMessageParams) (*mcp.CreateMessageResult,
	error) {
	params, kinds := *request, samplingInput
	params.Meta, params.Task = s.attributedMeta(request.Meta), nil
	if !s.host.hidden() {
		params.IncludeContext = "" // for the client, "this server" would mean all servers of the Host
	}
	if params.UsesTools() {
		kinds |= samplingToolsInput
	}
	c, err := asked(ctx, mcp.MethodCreateMessage, kinds)
	if err != nil {
		return nil, err
	}
	result, err := c.Sample(ctx, &params)
	return result, forServer(err)
}

func (s *supervisor) askRoots(ctx context.Context, on *connection) ([]mcp.Root, error) {
	c, err := asked(ctx, mcp.MethodListRoots, rootsInput)
	if err != nil {
		on.mu.Lock()
		on.rootless = on.last == nil
		on.mu.Unlock()
		return nil, err
	}
	if !s.host.hidden() {
		ctx = context.WithValue(ctx, serverKey{}, s.name)
	}
	roots, err := c.Roots(ctx)
	return roots, forServer(err)
}

// passLog passes a log message to the caller.
func (s *supervisor) passLog(ctx context.Context, message mcp.LoggingMessageParams) {
	c := callerFrom(ctx)
	if c == nil || c.Log == nil {
		return
	}
	if message.Logger = strings.TrimSuffix(s.name+"."+message.Logger, "."); message.Data == nil {
		message.Data = json.RawMessage("null")
	}
	c.Log(ctx, message)
}

// Attribute adds the name of the server to its message for a user (2026-07-28, client/elicitation, Security
// Considerations):
//
//	The server "files" asks:
//
//	> Which directory?
//
// Each line of the message is quoted, so that a server cannot imitate an [Approval] or another server. Control
// characters and invisible characters are shown by code point.
//
// The message is unchanged if the Host has only one server, with NoPrefix, and no Approve, because its clients then see
// the server as if there were no Host. A [Caller] receives messages that already went through Attribute.
func (h *Host) Attribute(server, message string) string {
	if h.hidden() {
		return message
	}
	var text strings.Builder
	text.WriteString(`The server "` + plain(server) + `" asks:` + "\n")
	empty := true
	for _, line := range strings.FieldsFunc(message, isLineBreak) {
		if line = strings.TrimSpace(visible(line)); line != "" {
			text.WriteString("\n> " + line)
			empty = false
		}
	}
	if empty {
		text.WriteString("\n>")
	}
	return text.String()
}

func isLineBreak(r rune) bool {
	return r == '\n' || r == '\r' || r == '\v' || r == '\f' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

// visible does what plain does, for texts that people write: it keeps the invisible characters that join
// letters and emoji.
func visible(text string) string {
	return plaintext.Replace(text, func(r rune) string {
		switch r {
		case '\t':
			return " "
		case '\u200c', '\u200d':
			return string(r)
		}
		return plaintext.CodePoint(r)
	})
}

// hidden reports whether the clients of the Host see its only server as if there were no Host. A user then
// cannot mistake a request of the server for a request of the Host or of another server.
func (h *Host) hidden() bool {
	all := h.all()
	if h.Approve != nil || len(all) != 1 {
		return false
	}
	all[0].mu.Lock()
	defer all[0].mu.Unlock()
	return all[0].naming.prefix == ""
}

// attributedMeta returns the entries of _meta that are forwarded with a request of a server, and adds the
// server's name.
func (s *supervisor) attributedMeta(meta mcp.Meta) mcp.Meta {
	forwarded := meta.Forwardable()
	if s.host.hidden() {
		return forwarded
	}
	attributed := mcp.Meta{}
	maps.Copy(attributed, forwarded)
	attributed[MetaServer] = json.RawMessage(jsonrpc.AppendString(nil, s.name))
	return attributed
}
