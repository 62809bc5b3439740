package revision

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/schema"
)

// Parts of a question of a server that an older client cannot read, or parts of the answer that an older server
// cannot read:
//
//	part                     since        for an older peer
//	audio                    2025-03-26   becomes text
//	several blocks in one    2025-11-25   each becomes a message of the same role; in an answer, the texts become one
//	message of sampling                   block, or the first block remains if there are none
//	choices with titles      2025-11-25   become enum and enumNames
//	multiple choice          2025-11-25   is left out of a form if it is optional; otherwise the form cannot be asked
//	includeContext           any          is removed since 2025-11-25, unless the client declares it
const sinceBlocks = mcp.V20251125

// errMultipleChoice is the error for a form that the client's revision cannot express.
const errMultipleChoice = MissingFeature("a form with a required multiple choice is not supported by the revision of " +
	"the protocol of this call")

// DowngradeQuestion converts the params of a request for input into a form that a client of revision r with the
// declared capabilities can read. The error is a [MissingFeature].
func DowngradeQuestion(r mcp.Revision, declared *mcp.ClientCapabilities, method string,
	params json.RawMessage) (json.RawMessage, error) {
	switch {
	case method == mcp.MethodCreateMessage && r < sinceBlocks:
		return downgradeSampling(r, params), nil
	case method == mcp.MethodCreateMessage:
		return withoutContext(declared, params), nil
	case method == mcp.MethodElicit && r < sinceBlocks:
		return downgradeForm(params)
	}
	return params, nil
}

// DowngradeAnswer converts the answer to a request for input into a form that a server of revision r can
// read.
func DowngradeAnswer(r mcp.Revision, method string, answer json.RawMessage) json.RawMessage {
	var result mcp.CreateMessageResult
	if method != mcp.MethodCreateMessage || r >= sinceBlocks || schema.Decode(answer, &result) != nil ||
		isOneBlock(r, result.Content) {
		return answer
	}
	var text strings.Builder // a model continues its text in the next block
	var other mcp.Content
	for _, block := range result.Content {
		block = downgradeContent(r, block)
		if t, ok := block.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		} else if other == nil {
			other = block
		}
	}
	if result.Content = []mcp.Content{other}; other == nil || text.Len() > 0 {
		result.Content = []mcp.Content{mcp.Text(text.String())}
	}
	return encodedOr(answer, &result)
}

// isOneBlock reports whether content is one block that a peer of revision r can read.
func isOneBlock(r mcp.Revision, content []mcp.Content) bool {
	return len(content) == 1 && downgradeContent(r, content[0]) == content[0]
}

func downgradeSampling(r mcp.Revision, params json.RawMessage) json.RawMessage {
	var p mcp.CreateMessageParams
	if schema.Decode(params, &p) != nil || !slices.ContainsFunc(p.Messages,
		func(m mcp.SamplingMessage) bool { return !isOneBlock(r, m.Content) }) {
		return params
	}
	messages := make([]mcp.SamplingMessage, 0, len(p.Messages))
	for _, m := range p.Messages {
		for _, block := range m.Content {
			messages = append(messages, mcp.SamplingMessage{Role: m.Role,
				Content: []mcp.Content{downgradeContent(r, block)}})
		}
	}
	p.Messages = messages
	return encodedOr(params, &p)
}

// withoutContext removes includeContext if the client has not declared it. The client may ignore this field, but
// servers should not send it (2025-11-25, client/sampling, Capabilities).
func withoutContext(declared *mcp.ClientCapabilities, params json.RawMessage) json.RawMessage {
	include, _ := jsonrpc.Get(params, "includeContext")
	if include == nil || jsonrpc.Unquote(include) == string(mcp.IncludeNone) ||
		declared.Sampling != nil && declared.Sampling.Context != nil {
		return params
	}
	return jsonrpc.Without(params, "includeContext")
}

func downgradeForm(params json.RawMessage) (json.RawMessage, error) {
	var p mcp.ElicitParams
	if schema.Decode(params, &p) != nil {
		return params, nil
	}
	form, err := mcp.ParseElicitSchema(p.RequestedSchema)
	if err != nil {
		return params, nil // the client will report the error
	}
	all := len(form.Properties)
	form.Properties = slices.DeleteFunc(form.Properties, func(p mcp.ElicitProperty) bool {
		return p.Schema.Type == mcp.TypeArray && !slices.Contains(form.Required, p.Name)
	})
	changed := len(form.Properties) < all
	for i := range form.Properties {
		s := &form.Properties[i].Schema
		if s.Type == mcp.TypeArray {
			return nil, errMultipleChoice
		}
		if s.OneOf == nil {
			continue
		}
		for _, option := range s.OneOf {
			s.Enum, s.EnumNames = append(s.Enum, option.Const), append(s.EnumNames, option.Title)
		}
		s.OneOf, changed = nil, true
	}
	if !changed {
		return params, nil
	}
	p.RequestedSchema = encodedOr(p.RequestedSchema, form)
	return encodedOr(params, &p), nil
}

// encodedOr returns the JSON of value. It returns the original if value cannot be encoded, which cannot happen to a
// value that was decoded.
func encodedOr(original json.RawMessage, value any) json.RawMessage {
	if raw, err := schema.Marshal(value); err == nil {
		return raw
	}
	return original
}
