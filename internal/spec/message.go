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

// ValidateMessage returns nil if raw is a JSON-RPC message that fits the schema of rev: a request or
// notification by its method, an error by its code, and a result by requestMethod, the method of the
// request that it answers. Either side may have sent it. In 2025-03-26 raw may be a batch, whose
// results all answer requestMethod.
//
// In 2026-07-28 the methods of the tasks extension are valid too, and a result is held against what its
// resultType says it is.
//
// It says more than the schemas on three points. Error codes are those that the revision knows: in
// 2026-07-28 neither the retired -32002 and -32042 nor an undefined one from -32099 to -32020. An
// input_required result has one of its members. Before 2026-07-28 a result has no resultType. And it
// says less on one: before 2025-11-25 the schemas want an id of every error; here null, as JSON-RPC
// has it, and absence, as 2025-11-25 has it, stand for an id that could not be read.
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
		err = errors.New("both a method and an answer")
	case m.Method != nil && m.ID != nil:
		err = validateCall(rev, raw, m, Request)
	case m.Method != nil:
		err = validateCall(rev, raw, m, Notification)
	case m.Result != nil && m.Error != nil:
		err = errors.New("both a result and an error")
	case m.Result != nil:
		err = validateResult(rev, raw, m, requestMethod)
	case m.Error != nil:
		err = validateError(rev, m)
	default:
		err = errors.New("neither a method, nor a result, nor an error")
	}
	if err != nil {
		return fmt.Errorf("message of %s: %w\n%s", rev, err, raw)
	}
	return nil
}

// message is the envelope. Members are nil when absent; those that are null are not.
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
		return fmt.Errorf("%s has no batches: %s", rev, raw)
	}
	var batch []json.RawMessage
	if err := jsonv2.Unmarshal(raw, &batch); err != nil {
		return err
	}
	if len(batch) == 0 {
		return errors.New("an empty batch")
	}
	for _, one := range batch {
		if jsontext.Value(one).Kind() == '[' {
			return fmt.Errorf("a batch within a batch: %s", raw)
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
		return fmt.Errorf("there is no %s %q", kind, *m.Method)
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
	if schema == Tasks && kind == Request { // its schema leaves the per-request metadata to the protocol's
		return Validate(rev, "RequestParams", m.Params)
	}
	return nil
}

// lookup finds the definition of a method in the schema of rev or, for 2026-07-28, of its extension.
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
		panic(fmt.Sprintf("there is no schema of %q", rev))
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
		return fmt.Errorf("a result needs the method of a request of the revision, not %q", requestMethod)
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
			return errors.New("results have no resultType before 2026-07-28")
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
		if requestMethod != mcp.MethodCallTool && requestMethod != mcp.MethodGetPrompt && requestMethod != mcp.MethodReadResource {
			return fmt.Errorf("%s is not answered with input_required", requestMethod)
		}
		return validateInputRequired(m.Result)
	case mcp.ResultTypeTask:
		if requestMethod != mcp.MethodCallTool {
			return fmt.Errorf("%s is not answered with a task", requestMethod)
		}
		return Validate(Tasks, "CreateTaskResult", m.Result)
	default:
		return fmt.Errorf("unknown resultType %q", *result.ResultType)
	}
}

// taskAugmentable reports whether requests of a method could be run as tasks in 2025-11-25.
func taskAugmentable(method string) bool {
	return method == mcp.MethodCallTool || method == mcp.MethodCreateMessage || method == mcp.MethodElicit
}

// validateInputRequired also wants one of the members, which the prose requires and the schema does not.
func validateInputRequired(raw []byte) error {
	var result map[string]json.RawMessage
	if err := jsonv2.Unmarshal(raw, &result); err != nil {
		return err
	}
	if result["inputRequests"] == nil && result["requestState"] == nil {
		return errors.New("input_required has neither inputRequests nor requestState")
	}
	return Validate(mcp.V20260728, "InputRequiredResult", raw)
}

// errorDefinitions are the definitions of errors that have one of their own.
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

// members returns the members that are not absent.
func (m message) members() map[string]json.RawMessage {
	members := map[string]json.RawMessage{"jsonrpc": m.JSONRPC, "id": m.ID, "error": m.Error}
	for name, value := range members {
		if value == nil {
			delete(members, name)
		}
	}
	return members
}
