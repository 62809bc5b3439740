package mcp

import (
	"errors"
	"fmt"
)

// UsesTools reports whether the request requires [SamplingCapability.Tools]: it has tools, or its
// messages contain tool uses or tool results.
func (p *CreateMessageParams) UsesTools() bool {
	if len(p.Tools) > 0 || p.ToolChoice != nil {
		return true
	}
	for i := range p.Messages {
		if p.Messages[i].usesTools() {
			return true
		}
	}
	return false
}

// CheckToolResults returns nil if every tool use in a conversation has a result. A message of the
// assistant with [ToolUseContent] must be followed by a message of the user that contains exactly one
// [ToolResultContent] for each tool use and nothing else (2025-11-25 and 2026-07-28, client/sampling,
// Message Content Constraints). A client returns jsonrpc.CodeInvalidParams for other conversations.
func CheckToolResults(messages []SamplingMessage) error {
	var open map[string]bool // the tool uses of the previous message; true if they have a result
	for i := range messages {
		m := &messages[i]
		if err := m.checkResults(open); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		var err error
		if open, err = m.toolUses(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("message %d: a message with the results of its tool uses must follow", len(messages)-1)
	}
	return nil
}

// checkResults checks the tool results of a message. open are the tool uses of the previous message.
func (m *SamplingMessage) checkResults(open map[string]bool) error {
	results := 0
	for _, c := range m.Content {
		result, ok := c.(*ToolResultContent)
		if !ok {
			continue
		}
		results++
		switch answered, known := open[result.ToolUseID]; {
		case m.Role != RoleUser:
			return fmt.Errorf("tool results must have the role user, got %q", m.Role)
		case !known:
			return fmt.Errorf("tool result %.64q must match a tool use in the previous message", result.ToolUseID)
		case answered:
			return fmt.Errorf("tool use %.64q must have only one result", result.ToolUseID)
		}
		open[result.ToolUseID] = true
	}
	switch {
	case results > 0 && results < len(m.Content):
		return errors.New("tool results must not be mixed with other content: use another message for it")
	case results < len(open):
		for id, answered := range open {
			if !answered {
				return fmt.Errorf("tool use %.64q of the previous message must have a result", id)
			}
		}
	}
	return nil
}

// toolUses returns the ids of the tool uses of a message. The values are false.
func (m *SamplingMessage) toolUses() (map[string]bool, error) {
	var uses map[string]bool
	for _, c := range m.Content {
		use, ok := c.(*ToolUseContent)
		if !ok {
			continue
		}
		if m.Role != RoleAssistant {
			return nil, fmt.Errorf("tool uses must have the role assistant, got %q", m.Role)
		}
		if uses == nil {
			uses = make(map[string]bool)
		}
		if _, duplicate := uses[use.ID]; duplicate {
			return nil, fmt.Errorf("the id of a tool use must be unique: %.64q occurs twice", use.ID)
		}
		uses[use.ID] = false
	}
	return uses, nil
}

func (m *SamplingMessage) usesTools() bool {
	for _, c := range m.Content {
		switch c.(type) {
		case *ToolUseContent, *ToolResultContent:
			return true
		}
	}
	return false
}
