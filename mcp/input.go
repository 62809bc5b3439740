package mcp

import "encoding/json"

// InputRequiredResult answers tools/call, prompts/get and resources/read with questions for the
// client, which then sends the request again with the answers. It has at least one of its fields.
// Since 2026-07-28 (basic/patterns/mrtr).
type InputRequiredResult struct {
	ResultBase // ResultType is [ResultTypeInputRequired]

	// InputRequests are the questions.
	InputRequests InputRequests `json:"inputRequests,omitzero"`
	// RequestState is sent back with the answers, as it is; it means something only to the server.
	// Nil is not sent back.
	RequestState *string `json:"requestState,omitzero"`
}

// InputRequests are questions by a key that the server chose.
type InputRequests map[string]InputRequest

// InputRequest is what a request from server to client was in older revisions: without an id, and
// listed in a result.
type InputRequest struct {
	// Method is [MethodElicit], [MethodCreateMessage] or [MethodListRoots].
	Method string `json:"method"`
	// Params are the method's own: [ElicitParams], [CreateMessageParams] or [EmptyParams], in JSON.
	Params json.RawMessage `json:"params,omitzero"`
}

// InputResponses are the answers to [InputRequests], each under the key of its question: the JSON of an
// [ElicitResult], a [CreateMessageResult] or a [ListRootsResult].
type InputResponses map[string]json.RawMessage

// InputParams are what a request that is sent again bears beside its own parameters. Since 2026-07-28.
type InputParams struct {
	InputResponses InputResponses `json:"inputResponses,omitzero"`
	// RequestState is that of the [InputRequiredResult], as it was; nil if it had none.
	RequestState *string `json:"requestState,omitzero"`
}
