package mcp_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/internal/must"
	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// byName returns a map from each name to its key.
func byName[K comparable](names map[K]string) map[string]K {
	m := make(map[string]K)
	for key, all := range names {
		for name := range strings.FieldsSeq(all) {
			m[name] = key
		}
	}
	return m
}

// vocabulary maps the names of schema definitions to Go types. For a request or notification it is the type of the
// params, and for an error the type of the data.
var vocabulary = byName(map[reflect.Type]string{
	reflect.TypeFor[jsonrpc.Error](): "Error InternalError InvalidParamsError InvalidRequestError " +
		"MethodNotFoundError ParseError",
	reflect.TypeFor[jsonrpc.ID]():       "ProgressToken RequestId",
	reflect.TypeFor[mcp.Annotations]():  "Annotations",
	reflect.TypeFor[mcp.AudioContent](): "AudioContent",
	reflect.TypeFor[mcp.CallToolParams](): "CallToolRequest CallToolRequestParams " +
		"InputResponseRequestParams TaskAugmentedRequestParams",
	reflect.TypeFor[mcp.CallToolResult]():      "CallToolResult",
	reflect.TypeFor[mcp.CancelledParams]():     "CancelledNotification CancelledNotificationParams",
	reflect.TypeFor[mcp.ClientCapabilities]():  "ClientCapabilities",
	reflect.TypeFor[mcp.CompleteParams]():      "CompleteRequest CompleteRequestParams",
	reflect.TypeFor[mcp.CompleteReference]():   "PromptReference ResourceReference ResourceTemplateReference",
	reflect.TypeFor[mcp.CompleteResult]():      "CompleteResult",
	reflect.TypeFor[mcp.CreateMessageParams](): "CreateMessageRequest CreateMessageRequestParams",
	reflect.TypeFor[mcp.CreateMessageResult](): "CreateMessageResult",
	reflect.TypeFor[mcp.DetailedTask](): "CancelledTask CompletedTask DetailedTask FailedTask " +
		"InputRequiredTask WorkingTask",
	reflect.TypeFor[mcp.DiscoverResult]():            "DiscoverResult",
	reflect.TypeFor[mcp.ElicitationCompleteParams](): "ElicitationCompleteNotification",
	reflect.TypeFor[mcp.ElicitParams](): "ElicitRequest ElicitRequestFormParams ElicitRequestParams " +
		"ElicitRequestURLParams",
	reflect.TypeFor[mcp.ElicitResult]():     "ElicitResult",
	reflect.TypeFor[mcp.EmbeddedResource](): "EmbeddedResource",
	reflect.TypeFor[mcp.EmptyParams](): "DiscoverRequest InitializedNotification ListRootsRequest NotificationParams " +
		"PingRequest PromptListChangedNotification RequestParams ResourceListChangedNotification " +
		"RootsListChangedNotification ToolListChangedNotification",
	reflect.TypeFor[mcp.EmptyResult]():                 "EmptyResult Result UpdateTaskResult",
	reflect.TypeFor[mcp.GetPromptParams]():             "GetPromptRequest GetPromptRequestParams",
	reflect.TypeFor[mcp.GetPromptResult]():             "GetPromptResult",
	reflect.TypeFor[mcp.Icon]():                        "Icon",
	reflect.TypeFor[mcp.ImageContent]():                "ImageContent",
	reflect.TypeFor[mcp.Implementation]():              "Implementation",
	reflect.TypeFor[mcp.InitializeParams]():            "InitializeRequest InitializeRequestParams",
	reflect.TypeFor[mcp.InitializeResult]():            "InitializeResult",
	reflect.TypeFor[mcp.InputRequest]():                "InputRequest",
	reflect.TypeFor[mcp.InputRequests]():               "InputRequests",
	reflect.TypeFor[mcp.InputRequiredResult]():         "InputRequiredResult",
	reflect.TypeFor[mcp.InputResponses]():              "InputResponses",
	reflect.TypeFor[mcp.ListenParams]():                "SubscriptionsListenRequest SubscriptionsListenRequestParams",
	reflect.TypeFor[mcp.ListenResult]():                "SubscriptionsListenResult",
	reflect.TypeFor[mcp.ListPromptsResult]():           "ListPromptsResult",
	reflect.TypeFor[mcp.ListResourcesResult]():         "ListResourcesResult",
	reflect.TypeFor[mcp.ListResourceTemplatesResult](): "ListResourceTemplatesResult",
	reflect.TypeFor[mcp.ListRootsResult]():             "ListRootsResult",
	reflect.TypeFor[mcp.ListTasksResult]():             "ListTasksResult",
	reflect.TypeFor[mcp.ListToolsResult]():             "CacheableResult ListToolsResult PaginatedResult",
	reflect.TypeFor[mcp.LoggingLevel]():                "LoggingLevel",
	reflect.TypeFor[mcp.LoggingMessageParams]():        "LoggingMessageNotification LoggingMessageNotificationParams",
	reflect.TypeFor[mcp.Meta](): "MetaObject NotificationMetaObject ResultMetaObject " +
		"SubscriptionsListenResultMetaObject",
	reflect.TypeFor[mcp.MissingCapabilityData](): "MissingRequiredClientCapabilityError",
	reflect.TypeFor[mcp.ModelHint]():             "ModelHint",
	reflect.TypeFor[mcp.ModelPreferences]():      "ModelPreferences",
	reflect.TypeFor[mcp.PaginatedParams](): "ListPromptsRequest ListResourceTemplatesRequest ListResourcesRequest " +
		"ListTasksRequest ListToolsRequest PaginatedRequest PaginatedRequestParams",
	reflect.TypeFor[mcp.PrimitiveSchema](): "BooleanSchema EnumSchema LegacyTitledEnumSchema NumberSchema " +
		"StringSchema TitledMultiSelectEnumSchema TitledSingleSelectEnumSchema UntitledMultiSelectEnumSchema " +
		"UntitledSingleSelectEnumSchema",
	reflect.TypeFor[mcp.ProgressParams](): "ProgressNotification ProgressNotificationParams",
	reflect.TypeFor[mcp.Prompt]():         "Prompt",
	reflect.TypeFor[mcp.PromptArgument](): "PromptArgument",
	reflect.TypeFor[mcp.PromptMessage]():  "PromptMessage",
	reflect.TypeFor[mcp.ReadResourceParams](): "ReadResourceRequest ReadResourceRequestParams " +
		"ResourceRequestParams",
	reflect.TypeFor[mcp.ReadResourceResult](): "ReadResourceResult",
	reflect.TypeFor[mcp.RelatedTask]():        "RelatedTaskMetadata",
	reflect.TypeFor[mcp.RequestMeta]():        "RequestMetaObject",
	reflect.TypeFor[mcp.Resource]():           "Resource",
	reflect.TypeFor[mcp.ResourceContents](): "BlobResourceContents ResourceContents " +
		"TextResourceContents",
	reflect.TypeFor[mcp.ResourceLink]():     "ResourceLink",
	reflect.TypeFor[mcp.ResourceTemplate](): "ResourceTemplate",
	reflect.TypeFor[mcp.ResourceUpdatedParams](): "ResourceUpdatedNotification " +
		"ResourceUpdatedNotificationParams",
	reflect.TypeFor[mcp.Role]():               "Role",
	reflect.TypeFor[mcp.Root]():               "Root",
	reflect.TypeFor[mcp.SamplingMessage]():    "SamplingMessage",
	reflect.TypeFor[mcp.ServerCapabilities](): "ServerCapabilities",
	reflect.TypeFor[mcp.SetLevelParams]():     "SetLevelRequest SetLevelRequestParams",
	reflect.TypeFor[mcp.SubscribeParams](): "SubscribeRequest SubscribeRequestParams " +
		"UnsubscribeRequest UnsubscribeRequestParams",
	reflect.TypeFor[mcp.SubscriptionFilter](): "SubscriptionFilter TaskSubscriptionAcknowledgedNotifications " +
		"TaskSubscriptionNotifications",
	reflect.TypeFor[mcp.SubscriptionsAcknowledgedParams](): "SubscriptionsAcknowledgedNotification " +
		"SubscriptionsAcknowledgedNotificationParams",
	reflect.TypeFor[mcp.Supported]():                  "TasksExtensionCapability",
	reflect.TypeFor[mcp.TaskMetadata]():               "TaskMetadata",
	reflect.TypeFor[mcp.TaskParams]():                 "CancelTaskRequest GetTaskPayloadRequest GetTaskRequest",
	reflect.TypeFor[mcp.TaskStatus]():                 "TaskStatus",
	reflect.TypeFor[mcp.TextContent]():                "Annotated TextContent",
	reflect.TypeFor[mcp.Tool]():                       "BaseMetadata Icons Tool",
	reflect.TypeFor[mcp.ToolAnnotations]():            "ToolAnnotations",
	reflect.TypeFor[mcp.ToolChoice]():                 "ToolChoice",
	reflect.TypeFor[mcp.ToolExecution]():              "ToolExecution",
	reflect.TypeFor[mcp.ToolResultContent]():          "ToolResultContent",
	reflect.TypeFor[mcp.ToolUseContent]():             "ToolUseContent",
	reflect.TypeFor[mcp.UnsupportedVersionData]():     "UnsupportedProtocolVersionError",
	reflect.TypeFor[mcp.UpdateTaskParams]():           "UpdateTaskRequest",
	reflect.TypeFor[mcp.URLElicitationRequiredData](): "URLElicitationRequiredError",
})

// legacyTasks contains what 2025-11-25 defines under names that mean something else in the tasks extension.
var legacyTasks = byName(map[reflect.Type]string{
	reflect.TypeFor[mcp.LegacyCreateTaskResult](): "CreateTaskResult",
	reflect.TypeFor[mcp.LegacyGetTaskResult]():    "CancelTaskResult GetTaskResult",
	reflect.TypeFor[mcp.LegacyTask]():             "Task",
	reflect.TypeFor[mcp.LegacyTaskStatusParams](): "TaskStatusNotification TaskStatusNotificationParams",
})

var extensionTasks = byName(map[reflect.Type]string{
	reflect.TypeFor[mcp.CreateTaskResult](): "CreateTaskResult",
	reflect.TypeFor[mcp.EmptyResult]():      "CancelTaskResult",
	reflect.TypeFor[mcp.GetTaskResult]():    "GetTaskResult",
	reflect.TypeFor[mcp.Task]():             "Task",
	reflect.TypeFor[mcp.TaskStatusParams](): "TaskStatusNotification TaskStatusNotificationParams",
})

// without maps the names of definitions without a Go type to the reason.
var without = byName(map[string]string{
	"a string":           "Cursor ResultType",
	"a union of methods": "ClientNotification ClientRequest ServerNotification ServerRequest",
	"a union of results": "ClientResult ServerResult",
	"a union of results, raw in InputResponses": "InputResponse",
	"a union, represented by PrimitiveSchema": "PrimitiveSchemaDefinition SingleSelectEnumSchema " +
		"MultiSelectEnumSchema",
	"an envelope around a result": "CallToolResultResponse CompleteResultResponse DiscoverResultResponse " +
		"GetPromptResultResponse ListPromptsResultResponse ListResourceTemplatesResultResponse " +
		"ListResourcesResultResponse ListToolsResultResponse ReadResourceResultResponse " +
		"SubscriptionsListenResultResponse",
	"an error without data": "HeaderMismatchError",
	"json.RawMessage":       "JSONArray JSONObject JSONValue",
	"jsonrpc": "JSONRPCBatchRequest JSONRPCBatchResponse JSONRPCError JSONRPCErrorResponse JSONRPCMessage " +
		"JSONRPCNotification JSONRPCRequest JSONRPCResponse JSONRPCResultResponse Notification Request",
	"the interface Content":    "ContentBlock SamplingMessageContentBlock",
	"the result of any method": "GetTaskPayloadResult",
})

// memberValues lists values such that each key of the vocabulary can be set with one of them.
var memberValues = []string{
	`"x"`, `7`, `true`, `{}`, `["x"]`, `[{}]`, `{"x":{}}`, `{"x":"y"}`, `"eA=="`, `{"type":"text","text":"x"}`,
	`[{"type":"text","text":"x"}]`, `{"type":"ref/prompt","name":"x"}`, `{"x":{"type":"string"}}`,
	`"https://example.com"`, `{"values":["x"]}`, `[{"role":"user","content":{"type":"text","text":"x"}}]`,
}

// valueOf returns a value that sets p in an object without other keys.
func valueOf(p place) (string, bool) {
	without, err := decodeAs(p.root, p.json("unknown name", "0"))
	if err != nil {
		return "", false
	}
	for _, value := range memberValues {
		if with, err := decodeAs(p.root, p.json(p.name, value)); err == nil && !reflect.DeepEqual(with, without) {
			return value, true
		}
	}
	return "", false
}

// FuzzKeyIsolation checks for every key of every wire type that nothing else sets its field: another key, even one
// that differs only in case, normalization or an invisible character, is not mistaken for it.
func FuzzKeyIsolation(f *testing.F) {
	var all []place
	var values []string // for each place, a value that sets it
	known := make(map[string]bool)
	var without []place
	for _, p := range places() {
		known[p.name] = true
		if value, ok := valueOf(p); ok {
			f.Add(uint16(len(all)), "unknown name")
			all, values = append(all, p), append(values, value)
		} else {
			without = append(without, p)
		}
	}
	// Icons without a src are dropped, and messages must contain all their keys.
	if len(all) < 500 || len(without) > len(all)/10 {
		f.Fatalf("%d members can be set alone, and %d cannot: %v", len(all), len(without), without)
	}
	f.Fuzz(func(t *testing.T, at uint16, key string) {
		p, value := all[int(at)%len(all)], values[int(at)%len(all)]
		without := must.Get(decodeAs(p.root, p.json("unknown name", "0")))(t)
		keys := []string{
			key, strings.ToUpper(p.name), strings.ToUpper(p.name[:1]) + p.name[1:], strings.ToLower(p.name),
			strings.ReplaceAll(p.name, "s", "ſ"), strings.ReplaceAll(p.name, "k", "K"),
			p.name + "\x00", p.name + "\u200d", " " + p.name, strings.ReplaceAll(p.name, "e", "e\u0301"),
			strings.ReplaceAll(p.name, "a", "а"), p.name + key, key + p.name,
		}
		for _, key := range keys {
			if known[key] || !utf8.ValidString(key) {
				continue
			}
			// p.json writes the name between quotation marks.
			quoted := string(jsonrpc.AppendString(nil, key))
			raw := p.json(quoted[1:len(quoted)-1], value)
			with, err := decodeAs(p.root, raw)
			must.That(t, err != nil || reflect.DeepEqual(with, without), "%s is decoded as %s: %+v", raw, p, with)
		}
	})
}

func TestForwardedObjectsHaveNoMetaOfTheProtocol(t *testing.T) {
	for _, test := range []struct{ object, want string }{
		{`{"a":1}`, `{"a":1}`},
		{`{"_meta":{"com.example/x":1},"a":1}`, `{"_meta":{"com.example/x":1},"a":1}`},
		{`{"a":1,"_meta":{"progressToken":1}}`, `{"a":1}`},
		{`{"a":1,"_meta":{"com.example/x":1,"io.modelcontextprotocol/serverInfo":{},"b":2}}`,
			`{"_meta":{"com.example/x":1,"b":2},"a":1}`},
		{`{"_meta":{"io.modelcontextprotocol/serverInfo":{},"com.example/x":1}}`, `{"_meta":{"com.example/x":1}}`},
		{`{"_meta":{}}`, `{}`},
		{`{"_meta":null,"a":1}`, `{"a":1}`},
	} {
		object := json.RawMessage(test.object)
		if got := mcp.WithForwardableMeta(object); string(got) != test.want || string(object) != test.object {
			t.Errorf("%s: %s, want %s", test.object, got, test.want)
		}
	}
}
