package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
	"github.com/parley-mcp/parley/internal/dial/httpclient"
	"github.com/parley-mcp/parley/internal/outbound"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
	"github.com/parley-mcp/parley/transport"
)

// wirePeer is a server over HTTP that receives the messages of a recording of stdio. The wires of the library add
// headers and sessions.
type wirePeer struct {
	r       *replayer
	ctx     context.Context
	cancel  context.CancelFunc
	options httpclient.Options
	sending sync.WaitGroup
	modern  outbound.Wire // nil before the first message of 2026-07-28
	session outbound.Wire // nil before the first message of an older revision

	mu         sync.Mutex
	cancels    map[string]context.CancelFunc // of requests of 2026-07-28, by id
	initialize string                        // id of the last initialize request
	marks      map[string][]schema.HeaderParam
	listings   int    // tools/list requests of this type
	cursor     string // of the last listing
}

func newWirePeer(ctx context.Context, r *replayer, target string) peer {
	p := &wirePeer{r: r, cancels: make(map[string]context.CancelFunc), marks: make(map[string][]schema.HeaderParam)}
	p.ctx, p.cancel = context.WithCancel(ctx)
	p.options = httpclient.Options{
		URL: target, HTTP: r.options.HTTP, Header: r.options.Header, Logger: slog.New(slog.DiscardHandler),
		MaxMessage: traffic.MaxMessage, Trace: p.trace,
	}
	return p
}

// listingID is the beginning of the ids of requests that the recording does not have.
const listingID = `"parley-replay-`

// trace passes on a message, and learns from it what the next ones need.
func (p *wirePeer) trace(sent bool, raw []byte) {
	m := parse(append([]byte(nil), raw...))
	if strings.HasPrefix(string(m.ID), listingID) {
		if !sent {
			p.learn(m, true)
		}
		return
	}
	if sent {
		p.r.trace(p.r.options.Sent, m.raw)
		return
	}
	if m.invalid { // the page of an HTTP error
		return
	}
	p.learn(m, false)
	p.r.trace(p.r.options.Received, m.raw)
	p.pass(received{message: m})
}

func (p *wirePeer) pass(got received) {
	select {
	case p.r.received <- got:
	case <-p.ctx.Done():
	}
}

// learn records the revision of a session, and the parameters of tools that requests repeat in headers. listing reports
// whether the message is the answer to a request of marksOf.
func (p *wirePeer) learn(m *message, listing bool) {
	var result struct {
		Version string `json:"protocolVersion"`
		Cursor  string `json:"nextCursor"`
		Tools   []struct {
			Name  string         `json:"name"`
			Input jsontext.Value `json:"inputSchema"`
		} `json:"tools"`
	}
	if m.Result == nil || decode(m.Result, &result) != nil {
		return
	}
	p.mu.Lock()
	isInitialize := p.initialize != "" && p.initialize == string(m.ID)
	if listing {
		p.cursor = result.Cursor
	}
	for _, t := range result.Tools {
		p.marks[t.Name], _ = schema.Headers(t.Input) // a tool with an invalid mark cannot be called
	}
	p.mu.Unlock()
	if isInitialize {
		p.session.SetRevision(mcp.Revision(result.Version))
	}
}

// send implements peer. It does not send batches and invalid lines.
func (p *wirePeer) send(e *traffic.Entry) (bool, error) {
	raw := p.r.outgoing(e)
	m := parse(raw)
	if m.isModern() || m.Method == mcp.NotificationCancelled && p.session == nil {
		return p.sendModern(raw, m)
	}
	parsed, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	if err != nil {
		return false, nil
	}
	if p.session == nil || m.Method == mcp.MethodInitialize {
		if err := p.begin(m); err != nil {
			return false, err
		}
	}
	p.dispatch(p.ctx, p.session, m, &outbound.Outgoing{Message: raw, ID: requestID(&parsed), Method: m.Method})
	return true, nil
}

// requestID returns the id of a request, and none for other messages.
func requestID(m *jsonrpc.Message) jsonrpc.ID {
	if m.Kind != jsonrpc.Request {
		return jsonrpc.ID{}
	}
	return m.ID
}

// begin opens a session in the revision of an initialize request, after it has ended the one before.
func (p *wirePeer) begin(m *message) error {
	if p.session != nil {
		_ = p.session.Close()
	}
	p.mu.Lock()
	p.initialize = string(m.ID)
	p.mu.Unlock()
	if m.Params.Version != string(mcp.V20241105) {
		p.session = httpclient.NewClient(p.options, false, ignore{})
		return nil
	}
	pair, err := httpclient.DialPair(p.ctx, p.r.options.Timeout, p.options, ignore{})
	if err == nil {
		p.session = pair
	}
	return err
}

// sendModern sends a message of 2026-07-28. Over HTTP, the end of its response cancels a request.
func (p *wirePeer) sendModern(raw []byte, m *message) (bool, error) {
	if m.Method == mcp.NotificationCancelled {
		p.mu.Lock()
		cancel := p.cancels[string(m.Params.RequestID)]
		p.mu.Unlock()
		if cancel != nil {
			cancel()
		}
		return cancel != nil, nil
	}
	parsed, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
	if err != nil {
		return false, nil
	}
	if p.modern == nil {
		p.modern = httpclient.NewClient(p.options, true, ignore{})
	}
	out := &outbound.Outgoing{Message: raw, ID: requestID(&parsed), Method: m.Method, Name: m.Params.repeated()}
	if m.Method == mcp.MethodCallTool {
		arguments, _ := jsonrpc.Get(parsed.Raw, "arguments")
		if out.Mirror, err = rpc.MirrorParams(p.marksOf(m), arguments); err != nil {
			return false, err
		}
	}
	ctx, cancel := context.WithCancel(p.ctx)
	p.mu.Lock()
	p.cancels[string(m.ID)] = cancel
	p.mu.Unlock()
	p.dispatch(ctx, p.modern, m, out)
	return true, nil
}

// marksOf returns the parameters of a tool that a call repeats in headers. It lists the tools if the recording does
// not. It returns none if the server does not list the tool.
func (p *wirePeer) marksOf(m *message) []schema.HeaderParam {
	const maxPages = 100
	cursor, last := "", false
	for range maxPages {
		p.mu.Lock()
		marks, known := p.marks[m.Params.Name]
		p.listings++
		p.cursor = ""
		id := fmt.Sprintf(`%s%d"`, listingID, p.listings)
		p.mu.Unlock()
		if known || last {
			return marks
		}
		raw := []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"tools/list","params":{` + cursor + `"_meta":` +
			string(m.Params.Meta) + `}}`)
		parsed, err := jsonrpc.Parse(raw, jsonrpc.Limits{})
		if err != nil {
			return nil
		}
		ctx, cancel := context.WithTimeout(p.ctx, p.r.options.Timeout)
		err = p.modern.Send(ctx, &outbound.Outgoing{Message: raw, ID: parsed.ID, Method: mcp.MethodListTools})
		cancel()
		p.mu.Lock()
		next := p.cursor
		p.mu.Unlock()
		quoted, invalid := jsontext.AppendQuote(nil, next)
		if err != nil || invalid != nil {
			return nil // the call shows what is wrong
		}
		cursor, last = `"cursor":`+string(quoted)+",", next == ""
	}
	return nil
}

// dispatch sends a message. It does not wait for the response to a request, whose failure is the answer then.
func (p *wirePeer) dispatch(ctx context.Context, wire outbound.Wire, m *message, out *outbound.Outgoing) {
	if out.ID.IsZero() {
		ctx, cancel := context.WithTimeout(ctx, p.r.options.Timeout)
		defer cancel()
		_ = wire.Send(ctx, out) // no answer is expected
		return
	}
	p.sending.Go(func() {
		err := wire.Send(ctx, out)
		if err != nil && ctx.Err() == nil && !errors.As(err, new(*jsonrpc.Error)) {
			p.pass(received{failed: m.ID, failure: err.Error()})
		}
	})
}

// endStream implements peer. The end of the replay ends the session.
func (p *wirePeer) endStream(*traffic.Entry) {}

func (p *wirePeer) close() {
	p.cancel()
	for _, wire := range []outbound.Wire{p.modern, p.session} {
		if wire != nil {
			_ = wire.Close()
		}
	}
	p.sending.Wait()
}

// ignore is the receiver of wires whose messages are traced.
type ignore struct{}

func (ignore) Receive(*jsonrpc.Message)               {}
func (ignore) ReceiveInvalid(*jsonrpc.Message, error) {}
func (ignore) Lost(error)                             {}

// stdioPeer is a server that is a program. Each exchange has a process, which starts with its first message.
type stdioPeer struct {
	r       *replayer
	ctx     context.Context
	cancel  context.CancelFunc
	command transport.CommandOptions
	running map[int64]*transport.CommandConn
	reading sync.WaitGroup
}

func newStdioPeer(ctx context.Context, r *replayer, command transport.CommandOptions) peer {
	p := &stdioPeer{r: r, command: command, running: make(map[int64]*transport.CommandConn)}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// read passes on the messages of a process until it ends.
func (p *stdioPeer) read(exchange int64, conn *transport.CommandConn) {
	for {
		raw, err := conn.Read(p.ctx)
		got := received{exchange: exchange, end: err != nil}
		if err == nil {
			raw = append([]byte(nil), raw...)
			got.message = parse(raw)
			p.r.trace(p.r.options.Received, raw)
		}
		select {
		case p.r.received <- got:
		case <-p.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// send implements peer.
func (p *stdioPeer) send(e *traffic.Entry) (bool, error) {
	conn := p.running[e.Exchange]
	if conn == nil {
		var err error
		if conn, err = transport.StartCommand(p.command); err != nil {
			return false, err
		}
		p.running[e.Exchange] = conn
		p.reading.Go(func() { p.read(e.Exchange, conn) })
	}
	raw := p.r.outgoing(e)
	p.r.trace(p.r.options.Sent, raw)
	if err := conn.Write(p.ctx, raw); err != nil {
		if exit := conn.Err(); exit != nil && !errors.Is(exit, io.EOF) {
			err = exit
		}
		return false, err
	}
	return true, nil
}

// endStream implements peer. The end of the input of the server is the end of the replay.
func (p *stdioPeer) endStream(*traffic.Entry) {}

func (p *stdioPeer) close() {
	p.cancel()
	var closing sync.WaitGroup
	for _, conn := range p.running {
		closing.Go(func() { _ = conn.Close() }) // how the server exits is no difference
	}
	closing.Wait()
	p.reading.Wait()
}

// trace calls a function of the options.
func (r *replayer) trace(f func([]byte), message []byte) {
	if f != nil && len(message) > 0 {
		f(message)
	}
}
