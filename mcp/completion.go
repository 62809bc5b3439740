package mcp

// CompleteParams are the parameters of completion/complete.
type CompleteParams struct {
	ParamsBase

	// Ref is the prompt or resource template that has the argument.
	Ref      CompleteReference `json:"ref"`
	Argument CompleteArgument  `json:"argument"`
	Context  *CompleteContext  `json:"context,omitzero"` // since 2025-06-18
}

// CompleteReference identifies a prompt by name or a resource template by URI.
type CompleteReference struct {
	// Type is [RefPrompt] or [RefResource].
	Type  string `json:"type"`
	Name  string `json:"name,omitempty"`  // of prompts
	Title string `json:"title,omitempty"` // of prompts; since 2025-06-18
	URI   string `json:"uri,omitempty"`   // of resource templates: the URI or the template
}

// Values of [CompleteReference.Type].
const (
	RefPrompt   = "ref/prompt"
	RefResource = "ref/resource"
)

// CompleteArgument is the argument to complete.
type CompleteArgument struct {
	Name  string `json:"name"`
	Value string `json:"value"` // what has been typed so far
}

// CompleteContext is what is known beside the argument to complete. Since 2025-06-18.
type CompleteContext struct {
	Arguments map[string]string `json:"arguments,omitzero"` // the other arguments that have a value
}

// CompleteResult answers completion/complete.
type CompleteResult struct {
	ResultBase

	Completion Completion `json:"completion"`
}

// MaxCompletionValues is how many values a [Completion] may have.
const MaxCompletionValues = 100

// Completion is a list of what an argument may be completed to.
type Completion struct {
	Values []string `json:"values"` // at most [MaxCompletionValues]
	// Total is how many there are, which may be more than are in Values; nil if that is not known.
	Total *int64 `json:"total,omitzero"`
	// HasMore: there are more than are in Values.
	HasMore bool `json:"hasMore,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (c Completion) MarshalJSON() ([]byte, error) {
	type plain Completion
	return encode((*plain)(&c))
}
