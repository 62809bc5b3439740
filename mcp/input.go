package mcp

import "encoding/json"

// InputRequiredResult is a result of tools/call, prompts/get and resources/read that asks the client
// for input. The client obtains the input and sends the request again with [InputParams]. At least
// one of the fields is present. Since 2026-07-28 (basic/patterns/mrtr).
type InputRequiredResult struct {
	ResultBase // ResultType is [ResultTypeInputRequired]

	// InputRequests are the inputs that the server needs.
	InputRequests InputRequests `json:"inputRequests,omitzero"`
	// RequestState is state that the client returns unchanged. If it is nil, the client omits it.
	RequestState *string `json:"requestState,omitzero"`
}

// InputRequests are requests for input. The server chooses the keys.
type InputRequests map[string]InputRequest

// InputRequest is a request for input. In earlier revisions the server sends the same method and
// parameters to the client in a request.
type InputRequest struct {
	// Method is [MethodElicit], [MethodCreateMessage] or [MethodListRoots].
	Method string `json:"method"`
	// Params are the parameters of the method, as JSON: [ElicitParams], [CreateMessageParams] or
	// [EmptyParams].
	Params json.RawMessage `json:"params,omitzero"`
}

// InputResponses are the results of [InputRequests], with the same keys. A value is the JSON of an
// [ElicitResult], a [CreateMessageResult] or a [ListRootsResult].
type InputResponses map[string]json.RawMessage

// InputParams are the additional parameters of a request that is sent again with input. Since
// 2026-07-28.
type InputParams struct {
	// InputResponses are the results of the input requests.
	InputResponses InputResponses `json:"inputResponses,omitzero"`
	// RequestState is [InputRequiredResult.RequestState], unchanged.
	RequestState *string `json:"requestState,omitzero"`
}
