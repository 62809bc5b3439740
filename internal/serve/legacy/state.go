package legacy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/parley-mcp/parley/internal/changes"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// State is the stored part of a session: everything except the requests in flight.
type State struct {
	Revision           mcp.Revision
	Info, Capabilities []byte           // the client's description of itself, as JSON objects
	Ready              bool             // the client has sent notifications/initialized
	LogLevel           mcp.LoggingLevel // the level that the client has set; empty: the default
	Subscribed         []string         // URIs of resources to which the client has subscribed
	Streams            int              // standalone streams that were begun, if the server has replicas
	// the newest of them: the id of its replica, a space and its name; empty if it has expired
	Stream  string
	Address string // network address of an anonymous client; empty if it has none
}

// maxRecord limits the record of a session, in bytes of JSON: each request reads it. Only subscriptions can make it
// long, so Subscribe checks the limit.
const maxRecord = 32 << 10

var errRecordFull = jsonrpc.Errorf(jsonrpc.CodeInvalidParams, "the session has too many subscriptions: it is stored "+
	"in at most %d bytes; unsubscribe from other resources, or subscribe in another session", maxRecord)

// ErrNoSession is the error for an id that is unknown, has expired, or belongs to another principal.
var ErrNoSession = errors.New("session not found")

// errUnchanged makes update keep the state.
var errUnchanged = errors.New("state is unchanged")

// subscribe adds a URI. The error is errUnchanged if the state has it.
func (s *State) subscribe(uri string) error {
	if slices.Contains(s.Subscribed, uri) {
		return errUnchanged
	}
	s.Subscribed = append(s.Subscribed, uri)
	if err := changes.CheckSubscription(uri, len(s.Subscribed), 0); err != nil {
		return err
	}
	if len(s.Encode()) > maxRecord {
		return errRecordFull
	}
	return nil
}

// unsubscribe removes a URI. The error is errUnchanged if the state does not have it.
func (s *State) unsubscribe(uri string) error {
	at := slices.Index(s.Subscribed, uri)
	if at < 0 {
		return errUnchanged
	}
	s.Subscribed = slices.Delete(s.Subscribed, at, at+1)
	return nil
}

// Encode returns the state as JSON.
func (s *State) Encode() []byte {
	b := make([]byte, 0, 64+len(s.Info)+len(s.Capabilities))
	b = append(b, `{"revision":`...)
	b = jsonrpc.AppendString(b, string(s.Revision))
	b = append(append(b, `,"info":`...), s.Info...)
	b = append(append(b, `,"capabilities":`...), s.Capabilities...)
	if s.Ready {
		b = append(b, `,"ready":true`...)
	}
	if s.LogLevel != "" {
		b = jsonrpc.AppendString(append(b, `,"logLevel":`...), string(s.LogLevel))
	}
	if s.Address != "" {
		b = jsonrpc.AppendString(append(b, `,"address":`...), s.Address)
	}
	if s.Streams > 0 {
		b = strconv.AppendInt(append(b, `,"streams":`...), int64(s.Streams), 10)
	}
	if s.Stream != "" {
		b = jsonrpc.AppendString(append(b, `,"stream":`...), s.Stream)
	}
	if len(s.Subscribed) > 0 {
		b = append(b, `,"subscribed":[`...)
		for i, uri := range s.Subscribed {
			if i > 0 {
				b = append(b, ',')
			}
			b = jsonrpc.AppendString(b, uri)
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

// errBadState is the error for the record of a session that does not exist for this server.
var errBadState = fmt.Errorf("%w: its record is malformed, encrypted with keys that this server does not have, or "+
	"that of another program", ErrNoSession)

// DecodeState decodes the result of Encode. The state contains views of raw, because every request decodes it.
func DecodeState(raw []byte) (s State, err error) {
	for name, value := range jsonrpc.All(raw) {
		switch name {
		case "revision":
			s.Revision = mcp.Revision(jsonrpc.Unquote(value))
		case "info":
			s.Info = value
		case "capabilities":
			s.Capabilities = value
		case "ready":
			s.Ready = string(value) == "true"
		case "logLevel":
			s.LogLevel = mcp.LoggingLevel(jsonrpc.Unquote(value))
		case "address":
			s.Address = jsonrpc.Unquote(value)
		case "streams":
			s.Streams, err = strconv.Atoi(string(value))
		case "stream":
			s.Stream = jsonrpc.Unquote(value)
		case "subscribed":
			err = jsonv2.Unmarshal(value, &s.Subscribed)
		}
		if err != nil {
			return s, errBadState
		}
	}
	if !s.Revision.Known() || s.Info == nil || s.Capabilities == nil {
		return s, errBadState
	}
	return s, nil
}
