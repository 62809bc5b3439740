package mcp_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/parley-mcp/parley/jsonrpc"
	"github.com/parley-mcp/parley/mcp"
)

// vocabulary maps the names of schema definitions to Go types. The Go type of a request or notification
// is that of its params.
var vocabulary = map[string]reflect.Type{
	"Annotated":                             reflect.TypeFor[mcp.TextContent](),
	"Annotations":                           reflect.TypeFor[mcp.Annotations](),
	"AudioContent":                          reflect.TypeFor[mcp.AudioContent](),
	"BaseMetadata":                          reflect.TypeFor[mcp.Tool](),
	"BlobResourceContents":                  reflect.TypeFor[mcp.ResourceContents](),
	"BooleanSchema":                         reflect.TypeFor[mcp.PrimitiveSchema](),
	"CacheableResult":                       reflect.TypeFor[mcp.ListToolsResult](),
	"CallToolRequest":                       reflect.TypeFor[mcp.CallToolParams](),
	"CallToolRequestParams":                 reflect.TypeFor[mcp.CallToolParams](),
	"CallToolResult":                        reflect.TypeFor[mcp.CallToolResult](),
	"CancelTaskRequest":                     reflect.TypeFor[mcp.TaskParams](),
	"CancelledNotification":                 reflect.TypeFor[mcp.CancelledParams](),
	"CancelledNotificationParams":           reflect.TypeFor[mcp.CancelledParams](),
	"CancelledTask":                         reflect.TypeFor[mcp.DetailedTask](),
	"ClientCapabilities":                    reflect.TypeFor[mcp.ClientCapabilities](),
	"CompleteRequest":                       reflect.TypeFor[mcp.CompleteParams](),
	"CompleteRequestParams":                 reflect.TypeFor[mcp.CompleteParams](),
	"CompleteResult":                        reflect.TypeFor[mcp.CompleteResult](),
	"CompletedTask":                         reflect.TypeFor[mcp.DetailedTask](),
	"CreateMessageRequest":                  reflect.TypeFor[mcp.CreateMessageParams](),
	"CreateMessageRequestParams":            reflect.TypeFor[mcp.CreateMessageParams](),
	"CreateMessageResult":                   reflect.TypeFor[mcp.CreateMessageResult](),
	"DetailedTask":                          reflect.TypeFor[mcp.DetailedTask](),
	"DiscoverRequest":                       reflect.TypeFor[mcp.EmptyParams](),
	"DiscoverResult":                        reflect.TypeFor[mcp.DiscoverResult](),
	"ElicitRequest":                         reflect.TypeFor[mcp.ElicitParams](),
	"ElicitRequestFormParams":               reflect.TypeFor[mcp.ElicitParams](),
	"ElicitRequestParams":                   reflect.TypeFor[mcp.ElicitParams](),
	"ElicitRequestURLParams":                reflect.TypeFor[mcp.ElicitParams](),
	"ElicitResult":                          reflect.TypeFor[mcp.ElicitResult](),
	"ElicitationCompleteNotification":       reflect.TypeFor[mcp.ElicitationCompleteParams](),
	"EmbeddedResource":                      reflect.TypeFor[mcp.EmbeddedResource](),
	"EmptyResult":                           reflect.TypeFor[mcp.EmptyResult](),
	"EnumSchema":                            reflect.TypeFor[mcp.PrimitiveSchema](),
	"Error":                                 reflect.TypeFor[jsonrpc.Error](),
	"FailedTask":                            reflect.TypeFor[mcp.DetailedTask](),
	"GetPromptRequest":                      reflect.TypeFor[mcp.GetPromptParams](),
	"GetPromptRequestParams":                reflect.TypeFor[mcp.GetPromptParams](),
	"GetPromptResult":                       reflect.TypeFor[mcp.GetPromptResult](),
	"GetTaskPayloadRequest":                 reflect.TypeFor[mcp.TaskParams](),
	"GetTaskRequest":                        reflect.TypeFor[mcp.TaskParams](),
	"Icon":                                  reflect.TypeFor[mcp.Icon](),
	"Icons":                                 reflect.TypeFor[mcp.Tool](),
	"ImageContent":                          reflect.TypeFor[mcp.ImageContent](),
	"Implementation":                        reflect.TypeFor[mcp.Implementation](),
	"InitializeRequest":                     reflect.TypeFor[mcp.InitializeParams](),
	"InitializeRequestParams":               reflect.TypeFor[mcp.InitializeParams](),
	"InitializeResult":                      reflect.TypeFor[mcp.InitializeResult](),
	"InitializedNotification":               reflect.TypeFor[mcp.EmptyParams](),
	"InputRequest":                          reflect.TypeFor[mcp.InputRequest](),
	"InputRequests":                         reflect.TypeFor[mcp.InputRequests](),
	"InputRequiredResult":                   reflect.TypeFor[mcp.InputRequiredResult](),
	"InputRequiredTask":                     reflect.TypeFor[mcp.DetailedTask](),
	"InputResponseRequestParams":            reflect.TypeFor[mcp.CallToolParams](),
	"InputResponses":                        reflect.TypeFor[mcp.InputResponses](),
	"InternalError":                         reflect.TypeFor[jsonrpc.Error](),
	"InvalidParamsError":                    reflect.TypeFor[jsonrpc.Error](),
	"InvalidRequestError":                   reflect.TypeFor[jsonrpc.Error](),
	"LegacyTitledEnumSchema":                reflect.TypeFor[mcp.PrimitiveSchema](),
	"ListPromptsRequest":                    reflect.TypeFor[mcp.PaginatedParams](),
	"ListPromptsResult":                     reflect.TypeFor[mcp.ListPromptsResult](),
	"ListResourceTemplatesRequest":          reflect.TypeFor[mcp.PaginatedParams](),
	"ListResourceTemplatesResult":           reflect.TypeFor[mcp.ListResourceTemplatesResult](),
	"ListResourcesRequest":                  reflect.TypeFor[mcp.PaginatedParams](),
	"ListResourcesResult":                   reflect.TypeFor[mcp.ListResourcesResult](),
	"ListRootsRequest":                      reflect.TypeFor[mcp.EmptyParams](),
	"ListRootsResult":                       reflect.TypeFor[mcp.ListRootsResult](),
	"ListTasksRequest":                      reflect.TypeFor[mcp.PaginatedParams](),
	"ListTasksResult":                       reflect.TypeFor[mcp.ListTasksResult](),
	"ListToolsRequest":                      reflect.TypeFor[mcp.PaginatedParams](),
	"ListToolsResult":                       reflect.TypeFor[mcp.ListToolsResult](),
	"LoggingLevel":                          reflect.TypeFor[mcp.LoggingLevel](),
	"LoggingMessageNotification":            reflect.TypeFor[mcp.LoggingMessageParams](),
	"LoggingMessageNotificationParams":      reflect.TypeFor[mcp.LoggingMessageParams](),
	"MetaObject":                            reflect.TypeFor[mcp.Meta](),
	"MethodNotFoundError":                   reflect.TypeFor[jsonrpc.Error](),
	"ModelHint":                             reflect.TypeFor[mcp.ModelHint](),
	"ModelPreferences":                      reflect.TypeFor[mcp.ModelPreferences](),
	"NotificationMetaObject":                reflect.TypeFor[mcp.Meta](),
	"NotificationParams":                    reflect.TypeFor[mcp.EmptyParams](),
	"NumberSchema":                          reflect.TypeFor[mcp.PrimitiveSchema](),
	"PaginatedRequest":                      reflect.TypeFor[mcp.PaginatedParams](),
	"PaginatedRequestParams":                reflect.TypeFor[mcp.PaginatedParams](),
	"PaginatedResult":                       reflect.TypeFor[mcp.ListToolsResult](),
	"ParseError":                            reflect.TypeFor[jsonrpc.Error](),
	"PingRequest":                           reflect.TypeFor[mcp.EmptyParams](),
	"ProgressNotification":                  reflect.TypeFor[mcp.ProgressParams](),
	"ProgressNotificationParams":            reflect.TypeFor[mcp.ProgressParams](),
	"ProgressToken":                         reflect.TypeFor[jsonrpc.ID](),
	"Prompt":                                reflect.TypeFor[mcp.Prompt](),
	"PromptArgument":                        reflect.TypeFor[mcp.PromptArgument](),
	"PromptListChangedNotification":         reflect.TypeFor[mcp.EmptyParams](),
	"PromptMessage":                         reflect.TypeFor[mcp.PromptMessage](),
	"PromptReference":                       reflect.TypeFor[mcp.CompleteReference](),
	"ReadResourceRequest":                   reflect.TypeFor[mcp.ReadResourceParams](),
	"ReadResourceRequestParams":             reflect.TypeFor[mcp.ReadResourceParams](),
	"ReadResourceResult":                    reflect.TypeFor[mcp.ReadResourceResult](),
	"RelatedTaskMetadata":                   reflect.TypeFor[mcp.RelatedTask](),
	"RequestId":                             reflect.TypeFor[jsonrpc.ID](),
	"RequestMetaObject":                     reflect.TypeFor[mcp.RequestMeta](),
	"RequestParams":                         reflect.TypeFor[mcp.EmptyParams](),
	"Resource":                              reflect.TypeFor[mcp.Resource](),
	"ResourceContents":                      reflect.TypeFor[mcp.ResourceContents](),
	"ResourceLink":                          reflect.TypeFor[mcp.ResourceLink](),
	"ResourceListChangedNotification":       reflect.TypeFor[mcp.EmptyParams](),
	"ResourceReference":                     reflect.TypeFor[mcp.CompleteReference](),
	"ResourceRequestParams":                 reflect.TypeFor[mcp.ReadResourceParams](),
	"ResourceTemplate":                      reflect.TypeFor[mcp.ResourceTemplate](),
	"ResourceTemplateReference":             reflect.TypeFor[mcp.CompleteReference](),
	"ResourceUpdatedNotification":           reflect.TypeFor[mcp.ResourceUpdatedParams](),
	"ResourceUpdatedNotificationParams":     reflect.TypeFor[mcp.ResourceUpdatedParams](),
	"Result":                                reflect.TypeFor[mcp.EmptyResult](),
	"ResultMetaObject":                      reflect.TypeFor[mcp.Meta](),
	"Role":                                  reflect.TypeFor[mcp.Role](),
	"Root":                                  reflect.TypeFor[mcp.Root](),
	"RootsListChangedNotification":          reflect.TypeFor[mcp.EmptyParams](),
	"SamplingMessage":                       reflect.TypeFor[mcp.SamplingMessage](),
	"ServerCapabilities":                    reflect.TypeFor[mcp.ServerCapabilities](),
	"SetLevelRequest":                       reflect.TypeFor[mcp.SetLevelParams](),
	"SetLevelRequestParams":                 reflect.TypeFor[mcp.SetLevelParams](),
	"StringSchema":                          reflect.TypeFor[mcp.PrimitiveSchema](),
	"SubscribeRequest":                      reflect.TypeFor[mcp.SubscribeParams](),
	"SubscribeRequestParams":                reflect.TypeFor[mcp.SubscribeParams](),
	"SubscriptionFilter":                    reflect.TypeFor[mcp.SubscriptionFilter](),
	"SubscriptionsAcknowledgedNotification": reflect.TypeFor[mcp.SubscriptionsAcknowledgedParams](),
	"SubscriptionsAcknowledgedNotificationParams": reflect.TypeFor[mcp.SubscriptionsAcknowledgedParams](),
	"SubscriptionsListenRequest":                  reflect.TypeFor[mcp.ListenParams](),
	"SubscriptionsListenRequestParams":            reflect.TypeFor[mcp.ListenParams](),
	"SubscriptionsListenResult":                   reflect.TypeFor[mcp.ListenResult](),
	"SubscriptionsListenResultMetaObject":         reflect.TypeFor[mcp.Meta](),
	"TaskAugmentedRequestParams":                  reflect.TypeFor[mcp.CallToolParams](),
	"TaskMetadata":                                reflect.TypeFor[mcp.TaskMetadata](),
	"TaskStatus":                                  reflect.TypeFor[mcp.TaskStatus](),
	"TaskSubscriptionAcknowledgedNotifications":   reflect.TypeFor[mcp.SubscriptionFilter](),
	"TaskSubscriptionNotifications":               reflect.TypeFor[mcp.SubscriptionFilter](),
	"TasksExtensionCapability":                    reflect.TypeFor[mcp.Supported](),
	"TextContent":                                 reflect.TypeFor[mcp.TextContent](),
	"TextResourceContents":                        reflect.TypeFor[mcp.ResourceContents](),
	"TitledMultiSelectEnumSchema":                 reflect.TypeFor[mcp.PrimitiveSchema](),
	"TitledSingleSelectEnumSchema":                reflect.TypeFor[mcp.PrimitiveSchema](),
	"Tool":                                        reflect.TypeFor[mcp.Tool](),
	"ToolAnnotations":                             reflect.TypeFor[mcp.ToolAnnotations](),
	"ToolChoice":                                  reflect.TypeFor[mcp.ToolChoice](),
	"ToolExecution":                               reflect.TypeFor[mcp.ToolExecution](),
	"ToolListChangedNotification":                 reflect.TypeFor[mcp.EmptyParams](),
	"ToolResultContent":                           reflect.TypeFor[mcp.ToolResultContent](),
	"ToolUseContent":                              reflect.TypeFor[mcp.ToolUseContent](),
	"UnsubscribeRequest":                          reflect.TypeFor[mcp.SubscribeParams](),
	"UnsubscribeRequestParams":                    reflect.TypeFor[mcp.SubscribeParams](),
	"UntitledMultiSelectEnumSchema":               reflect.TypeFor[mcp.PrimitiveSchema](),
	"UntitledSingleSelectEnumSchema":              reflect.TypeFor[mcp.PrimitiveSchema](),
	"UpdateTaskRequest":                           reflect.TypeFor[mcp.UpdateTaskParams](),
	"UpdateTaskResult":                            reflect.TypeFor[mcp.EmptyResult](),
	"WorkingTask":                                 reflect.TypeFor[mcp.DetailedTask](),

	// Errors that are defined as whole messages are carried by the type of their data.
	"MissingRequiredClientCapabilityError": reflect.TypeFor[mcp.MissingCapabilityData](),
	"URLElicitationRequiredError":          reflect.TypeFor[mcp.URLElicitationRequiredData](),
	"UnsupportedProtocolVersionError":      reflect.TypeFor[mcp.UnsupportedVersionData](),
}

// legacyTasks are what 2025-11-25 defines under names that the tasks extension has for something else.
var legacyTasks = map[string]reflect.Type{
	"CancelTaskResult":             reflect.TypeFor[mcp.LegacyGetTaskResult](),
	"CreateTaskResult":             reflect.TypeFor[mcp.LegacyCreateTaskResult](),
	"GetTaskResult":                reflect.TypeFor[mcp.LegacyGetTaskResult](),
	"Task":                         reflect.TypeFor[mcp.LegacyTask](),
	"TaskStatusNotification":       reflect.TypeFor[mcp.LegacyTaskStatusParams](),
	"TaskStatusNotificationParams": reflect.TypeFor[mcp.LegacyTaskStatusParams](),
}

var extensionTasks = map[string]reflect.Type{
	"CancelTaskResult":             reflect.TypeFor[mcp.EmptyResult](),
	"CreateTaskResult":             reflect.TypeFor[mcp.CreateTaskResult](),
	"GetTaskResult":                reflect.TypeFor[mcp.GetTaskResult](),
	"Task":                         reflect.TypeFor[mcp.Task](),
	"TaskStatusNotification":       reflect.TypeFor[mcp.TaskStatusParams](),
	"TaskStatusNotificationParams": reflect.TypeFor[mcp.TaskStatusParams](),
}

// without maps the names of definitions without a Go type to the reason.
var without = map[string]string{
	"JSONRPCBatchRequest":   "jsonrpc",
	"JSONRPCBatchResponse":  "jsonrpc",
	"JSONRPCError":          "jsonrpc",
	"JSONRPCErrorResponse":  "jsonrpc",
	"JSONRPCMessage":        "jsonrpc",
	"JSONRPCNotification":   "jsonrpc",
	"JSONRPCRequest":        "jsonrpc",
	"JSONRPCResponse":       "jsonrpc",
	"JSONRPCResultResponse": "jsonrpc",
	"Notification":          "jsonrpc",
	"Request":               "jsonrpc",
	"HeaderMismatchError":   "an error without data",

	"CallToolResultResponse":              "an envelope around a result",
	"CompleteResultResponse":              "an envelope around a result",
	"DiscoverResultResponse":              "an envelope around a result",
	"GetPromptResultResponse":             "an envelope around a result",
	"ListPromptsResultResponse":           "an envelope around a result",
	"ListResourceTemplatesResultResponse": "an envelope around a result",
	"ListResourcesResultResponse":         "an envelope around a result",
	"ListToolsResultResponse":             "an envelope around a result",
	"ReadResourceResultResponse":          "an envelope around a result",
	"SubscriptionsListenResultResponse":   "an envelope around a result",

	"ClientNotification":          "a union of methods",
	"ClientRequest":               "a union of methods",
	"ClientResult":                "a union of results",
	"ServerNotification":          "a union of methods",
	"ServerRequest":               "a union of methods",
	"ServerResult":                "a union of results",
	"InputResponse":               "a union of results, raw in InputResponses",
	"GetTaskPayloadResult":        "the result of any method",
	"ContentBlock":                "the interface Content",
	"SamplingMessageContentBlock": "the interface Content",
	"PrimitiveSchemaDefinition":   "a union, represented by PrimitiveSchema",
	"SingleSelectEnumSchema":      "a union, represented by PrimitiveSchema",
	"MultiSelectEnumSchema":       "a union, represented by PrimitiveSchema",

	"Cursor":     "a string",
	"JSONArray":  "json.RawMessage",
	"JSONObject": "json.RawMessage",
	"JSONValue":  "json.RawMessage",
	"ResultType": "a string",
}

// memberValues are values of members. One of them sets each member of the vocabulary.
var memberValues = []string{
	`"x"`, `7`, `true`, `{}`, `["x"]`, `[{}]`, `{"x":{}}`, `{"x":"y"}`, `"eA=="`, `{"type":"text","text":"x"}`, `[{"type":"text","text":"x"}]`, `{"type":"ref/prompt","name":"x"}`, `{"x":{"type":"string"}}`,
	`"https://example.com"`, `{"values":["x"]}`, `[{"role":"user","content":{"type":"text","text":"x"}}]`,
}

// valueOf returns a value that sets p in an object without other members.
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

// FuzzKeyIsolation checks for every member of every wire type that only its own name sets it: a member with another name,
// also one that differs in case, in normalization or in an invisible character, is not taken for it.
func FuzzKeyIsolation(f *testing.F) {
	var all []place
	var values []string // the value of each place that sets the member
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
	// Icons without a src are dropped, and messages must have all their members.
	if len(all) < 500 || len(without) > len(all)/10 {
		f.Fatalf("%d members can be set alone, and %d cannot: %v", len(all), len(without), without)
	}
	f.Fuzz(func(t *testing.T, at uint16, key string) {
		p, value := all[int(at)%len(all)], values[int(at)%len(all)]
		without, err := decodeAs(p.root, p.json("unknown name", "0"))
		if err != nil {
			t.Fatal(err)
		}
		keys := []string{
			key, strings.ToUpper(p.name), strings.ToUpper(p.name[:1]) + p.name[1:], strings.ToLower(p.name), strings.ReplaceAll(p.name, "s", "ſ"), strings.ReplaceAll(p.name, "k", "K"),
			p.name + "\x00", p.name + "\u200d", " " + p.name, strings.ReplaceAll(p.name, "e", "e\u0301"), strings.ReplaceAll(p.name, "a", "а"), p.name + key, key + p.name,
		}
		for _, key := range keys {
			if known[key] || !utf8.ValidString(key) {
				continue
			}
			// p.json writes the name between quotation marks.
			quoted := string(jsonrpc.AppendString(nil, key))
			raw := p.json(quoted[1:len(quoted)-1], value)
			if with, err := decodeAs(p.root, raw); err == nil && !reflect.DeepEqual(with, without) {
				t.Fatalf("%s is decoded as %s: %+v", raw, p, with)
			}
		}
	})
}
