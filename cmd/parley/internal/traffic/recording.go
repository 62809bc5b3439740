// Package traffic writes and reads recordings of MCP traffic. A recording is a file of JSON lines: a
// [Header], then one [Event] per line, in the order of their times. docs/program/appendix-recording.md describes the format.
package traffic

import (
	"encoding/json"
	"net/http"
	"time"
)

// Version is the version of the format that [NewWriter] writes. [NewReader] rejects higher versions.
const Version = 1

// Bounds of a recording.
const (
	// MaxMessage is the limit of one message, in bytes. A writer records the beginning of a longer one.
	MaxMessage = 16 << 20
	// maxLine is the limit of one line: a message of the largest size in base64, and the headers.
	maxLine = MaxMessage/3*4 + 4<<20
	// MaxFile is the limit of the messages that [ReadAll] keeps in memory, in bytes.
	MaxFile = 1 << 30
)

// Header is the first line of a recording.
type Header struct {
	Version  int       `json:"parleyRecording"`    // of the format
	Program  string    `json:"program,omitzero"`   // that has made the recording, with its version
	Time     time.Time `json:"time,omitzero"`      // of the beginning
	Target   string    `json:"target,omitzero"`    // URL or command of the server
	Redacted bool      `json:"redacted,omitempty"` // secrets were replaced
}

// Side is a side of the connection.
type Side string

// The sides of a connection.
const (
	Client Side = "client"
	Server Side = "server"
)

// Wire is the transport of a message.
type Wire string

// The transports.
const (
	Stdio Wire = "stdio" // also for other byte streams, and for messages whose transport is not known
	HTTP  Wire = "http"
)

// Event is one line of a recording after the first. It is a message, the end of a stream, or, over HTTP, a request
// or a response with its body. The body of a response that is an event stream follows as one Event for each
// event.
type Event struct {
	Time time.Time `json:"time"`
	From Side      `json:"from"` // the sender
	Wire Wire      `json:"wire"`
	// Peer is the name of the server in recordings of several servers.
	Peer string `json:"peer,omitzero"`
	// Exchange is the number of the HTTP request and its response, from 1. It is 0 for stdio.
	Exchange int64       `json:"exchange,omitzero"`
	Request  *Request    `json:"request,omitzero"`
	Response *Response   `json:"response,omitzero"`
	Stream   *StreamPart `json:"event,omitzero"`
	// Message is the message exactly: a line of stdio without its end, the body of a request or response, or
	// the data of an event. It is empty if there is none.
	Message []byte `json:"-"`
	// Truncated means that Message is only the beginning: the message was longer than MaxMessage, or was not sent
	// completely.
	Truncated bool `json:"truncated,omitempty"`
	// End means that the sender sends nothing more: on the exchange, or on stdio.
	End bool `json:"end,omitempty"`
	// Error is why a stream has ended, if it has not ended regularly.
	Error string `json:"error,omitzero"`
}

// StdioMessage returns the event of a message that the client has sent or received over a byte stream.
func StdioMessage(sent bool, message []byte) Event {
	e := Event{From: Server, Wire: Stdio, Message: message}
	if sent {
		e.From = Client
	}
	return e
}

// Request is the head of an HTTP request.
type Request struct {
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Header http.Header `json:"headers,omitzero"`
}

// Response is the head of an HTTP response.
type Response struct {
	Status int         `json:"status"`
	Header http.Header `json:"headers,omitzero"`
}

// StreamPart has the fields of a server-sent event except for its data.
type StreamPart struct {
	ID    string `json:"id,omitzero"`
	Name  string `json:"name,omitzero"` // empty for "message"
	Retry string `json:"retry,omitzero"`
}

// line is an Event as it is written. One of the last three fields has the message.
type line struct {
	Event
	JSON   json.RawMessage `json:"message,omitzero"`
	Text   string          `json:"text,omitzero"`
	Base64 []byte          `json:"base64,omitzero"`
}
