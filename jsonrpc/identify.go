package jsonrpc

import (
	"iter"

	"github.com/parley-mcp/parley/internal/jsonscan"
)

// identify sets Kind and ID of a message that the scanner has rejected, so that the request
// that waits for it fails at once. A message that exceeds a limit may have any kind. A message
// with another fault is identified only if it is a response: a request that is not strict JSON
// has no id that two parsers agree on.
func (m *Message) identify(data []byte, lim *Limits, exceeds bool) {
	var e envelope
	for w := walk(data); w.next(); {
		member := e.member(w.name)
		if member == nil {
			continue
		}
		if *member != nil || w.from == w.to { // ambiguous or incomplete
			return
		}
		*member = data[w.from:w.to:w.to]
	}
	isResponse := e.method == nil && (e.result != nil || e.failure != nil)
	if Unquote(e.version) != "2.0" || !isResponse && (!exceeds || e.method == nil) {
		return
	}
	hasID := isID(e.id) && len(e.id) <= lim.MaxID && Check(e.id, Limits{}) == nil
	switch {
	case hasID && isResponse:
		m.Kind = Response
	case hasID:
		m.Kind = Request
	case e.id == nil && !isResponse:
		m.Kind = Notification
	}
	if hasID {
		m.ID = ID{jsonscan.View(e.id)}
	}
}

// Responses returns the ids of the responses in a batch that is invalid or not allowed, as far as
// they can be recognized, so that the requests that wait for them can fail. It returns none if
// batch is not a JSON array.
func Responses(batch []byte) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		if !IsBatch(batch) {
			return
		}
		var m Message
		var lim Limits
		lim.setDefaults()
		i := jsonscan.SkipSpace(batch, jsonscan.SkipSpace(batch, 0)+1)
		for i < len(batch) && batch[i] == '{' {
			end := jsonscan.SkipValue(batch, i)
			m = Message{}
			m.identify(batch[i:end], &lim, false)
			if m.Kind == Response && !yield(m.ID) {
				return
			}
			if i = jsonscan.SkipSpace(batch, end); i < len(batch) && batch[i] == ',' {
				i = jsonscan.SkipSpace(batch, i+1)
			}
		}
	}
}
