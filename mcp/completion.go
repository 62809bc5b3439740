package mcp

// CompleteParams are the parameters of completion/complete.
type CompleteParams struct {
	ParamsBase

	// Ref is the prompt or resource template that has the argument.
	Ref CompleteReference `json:"ref"`
	// Argument is the argument to complete.
	Argument CompleteArgument `json:"argument"`
	// Context are the values of other arguments. Since 2025-06-18.
	Context *CompleteContext `json:"context,omitzero"`
}

// CompleteReference identifies a prompt by name, or a resource template by URI.
type CompleteReference struct {
	// Type is [RefPrompt] or [RefResource].
	Type string `json:"type"`
	// Name is the name of the prompt. Prompts only.
	Name string `json:"name,omitempty"`
	// Title is the title of the prompt, for display. Prompts only. Since 2025-06-18.
	Title string `json:"title,omitempty"`
	// URI is the URI or URI template of the resource template. Resource templates only.
	URI string `json:"uri,omitempty"`
}

// Values of [CompleteReference.Type].
const (
	RefPrompt   = "ref/prompt"
	RefResource = "ref/resource"
)

// CompleteArgument is an argument to complete.
type CompleteArgument struct {
	// Name is the name of the argument or template variable.
	Name string `json:"name"`
	// Value is the text that the user has typed so far.
	Value string `json:"value"`
}

// CompleteContext are values that a completion may depend on. Since 2025-06-18.
type CompleteContext struct {
	// Arguments are the other arguments that already have a value, by name.
	Arguments map[string]string `json:"arguments,omitzero"`
}

// CompleteResult is the result of completion/complete.
type CompleteResult struct {
	ResultBase

	// Completion are the proposed values.
	Completion Completion `json:"completion"`
}

// MaxCompletionValues is the maximum number of values in a [Completion].
const MaxCompletionValues = 100

// Completion is a list of proposed values for an argument.
type Completion struct {
	// Values are the proposed values, at most [MaxCompletionValues].
	Values []string `json:"values"`
	// Total is the number of matching values, which may exceed the length of Values. Nil means that
	// it is unknown.
	Total *int64 `json:"total,omitzero"`
	// HasMore reports that there are more matching values than Values contains.
	HasMore bool `json:"hasMore,omitzero"`
}

// MarshalJSON implements json.Marshaler.
func (c Completion) MarshalJSON() ([]byte, error) {
	type plain Completion
	return encode((*plain)(&c))
}
