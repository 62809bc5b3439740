package inspect

import (
	"bytes"
	"errors"
	"mime"
	"net/http"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/cmd/parley/internal/traffic"
)

// serveExport serves the log as a recording, or as a HTTP archive. Neither has credentials.
func (h *hub) serveExport(w http.ResponseWriter, r *http.Request) {
	var b bytes.Buffer
	err := h.writeRecording(&b)
	name, kind := "recording.jsonl", "application/x-ndjson"
	if err == nil && r.URL.Query().Get("format") == "har" {
		name, kind = "recording.har", "application/json"
		var header traffic.Header
		var entries []traffic.Entry
		if header, entries, err = traffic.ReadAll(bytes.NewReader(b.Bytes())); err == nil {
			b.Reset()
			err = traffic.WriteHAR(&b, header, entries)
		}
	}
	if errors.Is(err, traffic.ErrNoHTTP) {
		err = errors.New("the log has no HTTP traffic; export a recording instead")
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	_, _ = w.Write(b.Bytes())
}

// writeRecording writes the log as a recording.
func (h *hub) writeRecording(b *bytes.Buffer) error {
	entries, exchanges := h.log.all()
	target := ""
	if servers := h.allServers(); len(servers) == 1 {
		target = servers[0].Target.String()
		if at, ok := servers[0].Target.(*client.HTTPTarget); ok {
			target = withoutUser(at.URL)
		}
	}
	out, err := traffic.NewWriter(b, traffic.WriterOptions{Program: "parley " + h.hello.Version, Target: target, Now: h.now})
	if err != nil {
		return err
	}
	named := target == ""
	responded := make(map[int]bool) // exchanges whose response has an entry
	for i := range entries {
		if !entries[i].Sent {
			responded[exchanges[i]] = true
		}
	}
	numbers := make(map[int]int64) // of the exchanges in the recording
	begun := make(map[int]bool)    // exchanges whose response is in the recording
	for i := range entries {
		e := &entries[i]
		if e.Kind == kindProgram {
			continue
		}
		event := traffic.Event{Time: e.Time, From: traffic.Server, Wire: traffic.Stdio, Message: e.text, Truncated: len(e.text) < e.Size}
		if e.Sent {
			event.From = traffic.Client
		}
		if named {
			event.Peer = e.Server
		}
		x := e.exchange
		if x == nil {
			if err := out.Write(event); err != nil {
				return err
			}
			continue
		}
		key := exchanges[i]
		first := numbers[key] == 0
		if first {
			numbers[key] = int64(len(numbers) + 1)
		}
		event.Wire, event.Exchange = traffic.HTTP, numbers[key]
		response := traffic.Event{Time: e.Time, From: traffic.Server, Wire: traffic.HTTP, Peer: event.Peer, Exchange: event.Exchange}
		if x.Status != 0 {
			response.Response = &traffic.Response{Status: x.Status, Header: x.ResponseHeader}
		}
		media, _, _ := mime.ParseMediaType(x.ResponseHeader.Get("Content-Type"))
		switch {
		case e.Sent:
			if first {
				event.Request = &traffic.Request{Method: x.Method, URL: x.URL, Header: x.RequestHeader}
			}
			err = out.Write(event)
			if err == nil && !responded[key] && x.Status != 0 && !begun[key] { // a response without a body
				begun[key] = true
				response.End = true
				err = out.Write(response)
			}
		case media == "text/event-stream":
			if !begun[key] {
				err = out.Write(response)
			}
			begun[key] = true
			event.Stream = &traffic.StreamPart{}
			if e.Kind == kindHTTP && e.Method == "event endpoint" {
				event.Stream.Name = "endpoint"
			}
			if err == nil {
				err = out.Write(event)
			}
		case x.Status == 0:
			event.Error, event.Message, event.End = string(e.text), nil, true
			err = out.Write(event)
		default:
			if !begun[key] {
				event.Response = response.Response
			}
			begun[key] = true
			event.End = true
			err = out.Write(event)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
