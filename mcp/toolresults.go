package mcp

import "fmt"

// UsesTools reports whether the request takes a client that can sample with tools: it offers tools, or
// its messages tell of their use. See [SamplingCapability.Tools].
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

// CheckToolResults returns an error unless every use of a tool in a conversation has its result: a message
// of the assistant's with [ToolUseContent] is followed by one of the user's that has a [ToolResultContent]
// for each of them, once, and nothing else (2025-11-25 and 2026-07-28, client/sampling, Message Content
// Constraints). Clients answer with jsonrpc.CodeInvalidParams otherwise.
func CheckToolResults(messages []SamplingMessage) error {
	var open map[string]bool // uses in the message before, and whether they have their result
	for i := range messages {
		m := &messages[i]
		if err := m.answer(open); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		var err error
		if open, err = m.toolUses(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	if len(open) > 0 {
		return fmt.Errorf("message %d: its uses of tools have no results: a message with them must follow", len(messages)-1)
	}
	return nil
}

// answer checks the message that follows one with open uses of tools, or none.
func (m *SamplingMessage) answer(open map[string]bool) error {
	results := 0
	for _, c := range m.Content {
		result, ok := c.(*ToolResultContent)
		if !ok {
			continue
		}
		results++
		switch answered, known := open[result.ToolUseID]; {
		case m.Role != RoleUser:
			return fmt.Errorf("results of tools are the user's to give, not the %s's", m.Role)
		case !known:
			return fmt.Errorf("the result for %.64q answers no use of a tool in the message before", result.ToolUseID)
		case answered:
			return fmt.Errorf("the use %.64q of a tool has two results", result.ToolUseID)
		}
		open[result.ToolUseID] = true
	}
	switch {
	case results > 0 && results < len(m.Content):
		return fmt.Errorf("results of tools are mixed with other content: send that in another message")
	case results < len(open):
		for id, answered := range open {
			if !answered {
				return fmt.Errorf("the use %.64q of a tool in the message before has no result here", id)
			}
		}
	}
	return nil
}

// toolUses returns the uses of tools in a message.
func (m *SamplingMessage) toolUses() (map[string]bool, error) {
	var uses map[string]bool
	for _, c := range m.Content {
		use, ok := c.(*ToolUseContent)
		if !ok {
			continue
		}
		if m.Role != RoleAssistant {
			return nil, fmt.Errorf("tools are the assistant's to use, not the %s's", m.Role)
		}
		if uses == nil {
			uses = make(map[string]bool)
		}
		if _, twice := uses[use.ID]; twice {
			return nil, fmt.Errorf("two uses of tools have the id %.64q", use.ID)
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
