package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// ValidateMessage returns an error if raw is not a valid message of rev, sent by a client or by a server. The method
// of a request or notification and the code of an error select the definition in the schema; for a result,
// requestMethod does, the method of the request. In 2025-03-26, raw may be a batch in which all results are for
// requestMethod.
//
// In 2026-07-28, the methods of the tasks extension are valid, too, and the resultType of a result also selects the
// definition.
//
// ValidateMessage is stricter than the schemas in three ways. Error codes must be known to the revision: in
// 2026-07-28, the retired -32002 and -32042 and the undefined codes from -32099 to -32020 are invalid. An
// input_required result must contain inputRequests or requestState. Before 2026-07-28, a result must not contain a
// resultType. It is more lenient in one way: before 2025-11-25 the schemas require an id in every error, but an error
// about an unreadable ID contains a null ID or none.
func ValidateMessage(rev mcp.Revision, raw []byte, requestMethod string) error {
	if jsontext.Value(raw).Kind() == '[' {
		return validateBatch(rev, raw, requestMethod)
	}
	var m message
	if err := jsonv2.Unmarshal(raw, &m); err != nil {
		return fmt.Errorf("%w: %s", err, raw)
	}
	var err error
	switch {
	case m.Method != nil && (m.Result != nil || m.Error != nil):
		err = errors.New("message must not have both a method and a result or error")
	case m.Method != nil && m.ID != nil:
		err = validateCall(rev, raw, m, Request)
	case m.Method != nil:
		err = validateCall(rev, raw, m, Notification)
	case m.Result != nil && m.Error != nil:
		err = errors.New("message must not have both a result and an error")
	case m.Result != nil:
		err = validateResult(rev, raw, m, requestMethod)
	case m.Error != nil:
		err = validateError(rev, m)
	default:
		err = errors.New("message must have a method, a result or an error")
	}
	if err != nil {
		return fmt.Errorf("message of %s: %w\n%s", rev, err, raw)
	}
	return nil
}

// message is the envelope. An absent field is nil; a null field is not.
type message struct {
	JSONRPC json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  *string         `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
}

func validateBatch(rev mcp.Revision, raw []byte, requestMethod string) error {
	if rev != mcp.V20250326 {
		return fmt.Errorf("%s does not support batches: %s", rev, raw)
	}
	var batch []json.RawMessage
	if err := jsonv2.Unmarshal(raw, &batch); err != nil {
		return err
	}
	if len(batch) == 0 {
		return errors.New("batch is empty")
	}
	for _, one := range batch {
		if jsontext.Value(one).Kind() == '[' {
			return fmt.Errorf("batch contains a batch: %s", raw)
		}
		if err := ValidateMessage(rev, one, requestMethod); err != nil {
			return err
		}
	}
	return nil
}

// validateCall validates a request or a notification.
func validateCall(rev mcp.Revision, raw []byte, m message, kind Kind) error {
	schema, definition, ok := lookup(rev, *m.Method, kind)
	if !ok {
		return fmt.Errorf("unknown %s %q", kind, *m.Method)
	}
	envelope := "JSONRPCRequest"
	if kind == Notification {
		envelope = "JSONRPCNotification"
	}
	if err := Validate(schema, envelope, raw); err != nil {
		return err
	}
	if err := Validate(schema, definition, raw); err != nil {
		return err
	}
	if schema == Tasks && kind == Request { // the schema of tasks does not define the metadata of requests
		return Validate(rev, "RequestParams", m.Params)
	}
	return nil
}

// lookup finds the definition of a method in the schema of rev or, for 2026-07-28, of the tasks extension.
func lookup(rev mcp.Revision, method string, kind Kind) (schema mcp.Revision, definition string, ok bool) {
	is := func(m Method) bool { return m.Name == method && m.Kind == kind }
	if i := slices.IndexFunc(methods(rev), is); i >= 0 {
		return rev, methods(rev)[i].Definition, true
	}
	if rev == mcp.V20260728 {
		return lookup(Tasks, method, kind)
	}
	return "", "", false
}

func methods(rev mcp.Revision) []Method {
	list, ok := methodLists[rev]
	if !ok {
		panic(fmt.Sprintf("unknown revision %q", rev))
	}
	return list()
}

var methodLists = oncePerSchema(Methods)

func validateResult(rev mcp.Revision, raw []byte, m message, requestMethod string) error {
	envelope := "JSONRPCResponse"
	if rev >= mcp.V20251125 {
		envelope = "JSONRPCResultResponse"
	}
	if err := Validate(rev, envelope, raw); err != nil {
		return err
	}
	schema, definition, ok := lookup(rev, requestMethod, Request)
	if !ok {
		return fmt.Errorf("requestMethod must be a request of %s, got %q", rev, requestMethod)
	}
	var result struct {
		ResultType *string         `json:"resultType"`
		Task       json.RawMessage `json:"task"`
	}
	if err := jsonv2.Unmarshal(m.Result, &result); err != nil {
		return err
	}
	name := strings.TrimSuffix(definition, "Request") + "Result"
	if name == "SubscribeResult" || name == "UnsubscribeResult" || name == "PingResult" || name == "SetLevelResult" {
		name = "EmptyResult"
	}
	if rev < mcp.V20260728 {
		if result.ResultType != nil {
			return errors.New("resultType must be absent before 2026-07-28")
		}
		if rev == mcp.V20251125 && taskAugmentable(requestMethod) && result.Task != nil {
			name = "CreateTaskResult"
		}
		return Validate(rev, name, m.Result)
	}
	switch *result.ResultType { // the envelope requires it
	case mcp.ResultTypeComplete:
		return Validate(schema, name, m.Result)
	case mcp.ResultTypeInputRequired:
		if requestMethod != mcp.MethodCallTool && requestMethod != mcp.MethodGetPrompt &&
			requestMethod != mcp.MethodReadResource {
			return fmt.Errorf("result of %s must not be input_required", requestMethod)
		}
		return validateInputRequired(m.Result)
	case mcp.ResultTypeTask:
		if requestMethod != mcp.MethodCallTool {
			return fmt.Errorf("result of %s must not be a task", requestMethod)
		}
		return Validate(Tasks, "CreateTaskResult", m.Result)
	default:
		return fmt.Errorf("unknown resultType %q", *result.ResultType)
	}
}

// taskAugmentable reports whether a request can run as a task in 2025-11-25.
func taskAugmentable(method string) bool {
	return method == mcp.MethodCallTool || method == mcp.MethodCreateMessage || method == mcp.MethodElicit
}

// validateInputRequired also checks that inputRequests or requestState is present: the text of the specification
// requires that, but the schema does not.
func validateInputRequired(raw []byte) error {
	var result map[string]json.RawMessage
	if err := jsonv2.Unmarshal(raw, &result); err != nil {
		return err
	}
	if result["inputRequests"] == nil && result["requestState"] == nil {
		return errors.New("input_required must have inputRequests or requestState")
	}
	return Validate(mcp.V20260728, "InputRequiredResult", raw)
}

// errorDefinitions maps error codes to their definitions.
var errorDefinitions = map[mcp.Revision]map[int64]string{
	mcp.V20251125: {
		mcp.CodeURLElicitationRequired: "URLElicitationRequiredError",
	},
	mcp.V20260728: {
		mcp.CodeHeaderMismatch:     "HeaderMismatchError",
		mcp.CodeMissingCapability:  "MissingRequiredClientCapabilityError",
		mcp.CodeUnsupportedVersion: "UnsupportedProtocolVersionError",
	},
}

func validateError(rev mcp.Revision, m message) error {
	envelope := "JSONRPCError"
	if rev >= mcp.V20251125 {
		envelope = "JSONRPCErrorResponse"
	} else if m.ID == nil || string(m.ID) == "null" {
		m.ID = json.RawMessage("0")
	}
	raw, err := json.Marshal(m.members())
	if err != nil {
		return err
	}
	if err := Validate(rev, envelope, raw); err != nil {
		return err
	}
	var e jsonrpc.Error
	if err := jsonv2.Unmarshal(m.Error, &e); err != nil {
		return err
	}
	definition, ok := errorDefinitions[rev][e.Code]
	if ok {
		return Validate(rev, definition, raw)
	}
	reserved := -32099 <= e.Code && e.Code <= -32020
	retired := e.Code == mcp.CodeResourceNotFound || e.Code == mcp.CodeURLElicitationRequired
	if rev == mcp.V20260728 && (reserved || retired) {
		return fmt.Errorf("code %d is reserved", e.Code)
	}
	return nil
}

// members returns the keys of an error response that are present, with their values.
func (m message) members() map[string]json.RawMessage {
	members := map[string]json.RawMessage{"jsonrpc": m.JSONRPC, "id": m.ID, "error": m.Error}
	for name, value := range members {
		if value == nil {
			delete(members, name)
		}
	}
	return members
}
