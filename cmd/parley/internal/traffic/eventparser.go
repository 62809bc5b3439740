package traffic

import (
	"bytes"
	"mime"
	"net/http"
)

// isEventStream reports whether a response with a header is a stream of server-sent events.
func isEventStream(header http.Header) bool {
	media, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	return media == "text/event-stream"
}

// eventParser finds the events in the bytes of an event stream (HTML Living Standard, section 9.2.6).
type eventParser struct {
	emit func(part StreamPart, data []byte) // owns nothing of data

	started bool // a leading BOM has been skipped
	skip    bool // the last line ended with CR: ignore an LF that follows
	line    []byte
	part    StreamPart
	data    []byte
	hasData bool // a data field has been read
	any     bool // a field has been read
}

func (p *eventParser) write(b []byte) {
	for len(b) > 0 {
		if p.skip {
			p.skip = false
			if b[0] == '\n' {
				b = b[1:]
				continue
			}
		}
		end := bytes.IndexAny(b, "\r\n")
		if end < 0 {
			p.line = appendBounded(p.line, b)
			return
		}
		p.line = appendBounded(p.line, b[:end])
		p.skip = b[end] == '\r'
		b = b[end+1:]
		p.endLine()
	}
}

func (p *eventParser) endLine() {
	line := p.line
	p.line = p.line[:0]
	if !p.started {
		p.started = true
		line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
	}
	if len(line) == 0 {
		if p.any {
			p.emit(p.part, p.data)
		}
		p.part, p.data, p.hasData, p.any = StreamPart{}, p.data[:0], false, false
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		if p.hasData {
			p.data = appendBounded(p.data, []byte("\n"))
		}
		p.data, p.hasData = appendBounded(p.data, value), true
	case "event":
		p.part.Name = string(value)
	case "id":
		p.part.ID = string(value)
	case "retry":
		p.part.Retry = string(value)
	default:
		return // a comment, or unknown
	}
	p.any = true
}
