package mock

import (
	"encoding/json"
	"time"
)

// file is the content of a YAML file; schema.json describes it.
type file struct {
	Name         string         `json:"name"`
	Version      string         `json:"version"`
	Title        string         `json:"title"`
	Instructions string         `json:"instructions"`
	Latency      time.Duration  `json:"latency"`
	Tools        []toolEntry    `json:"tools"`
	Resources    []docEntry     `json:"resources"`
	Templates    []docEntry     `json:"templates"`
	Prompts      []promptEntry  `json:"prompts"`
	Requests     []requestEntry `json:"requests"`
}

type toolEntry struct {
	Name         string          `json:"name"`
	Title        string          `json:"title"`
	Description  string          `json:"description"`
	InputSchema  json.RawMessage `json:"inputSchema"`
	OutputSchema json.RawMessage `json:"outputSchema"`
	Annotations  json.RawMessage `json:"annotations"`
	Task         string          `json:"task"`
	Responses    []responseEntry `json:"responses"`
}

// docEntry is a resource or a template.
type docEntry struct {
	URI         string              `json:"uri"`
	URITemplate string              `json:"uriTemplate"`
	Name        string              `json:"name"`
	Title       string              `json:"title"`
	Description string              `json:"description"`
	MimeType    string              `json:"mimeType"`
	Complete    map[string][]string `json:"complete"`
	Text        *string             `json:"text"`
	Blob        *string             `json:"blob"`
	Responses   []responseEntry     `json:"responses"`
}

type promptEntry struct {
	Name        string              `json:"name"`
	Title       string              `json:"title"`
	Description string              `json:"description"`
	Arguments   []argumentEntry     `json:"arguments"`
	Complete    map[string][]string `json:"complete"`
	Text        *string             `json:"text"`
	Responses   []responseEntry     `json:"responses"`
}

type argumentEntry struct {
	Name        string `json:"name"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
}

type requestEntry struct {
	Method string `json:"method"`
	Name   string `json:"name"`
	outcomeEntry
}

// outcomeEntry has the members that requests and responses have in common.
type outcomeEntry struct {
	Times      int             `json:"times"`
	Latency    *time.Duration  `json:"latency"`
	Result     json.RawMessage `json:"result"`
	Error      *errorEntry     `json:"error"`
	Fault      string          `json:"fault"`
	Status     int             `json:"status"`
	RetryAfter time.Duration   `json:"retryAfter"`
}

type errorEntry struct {
	Code    int64           `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data"`
}

type responseEntry struct {
	When              json.RawMessage `json:"when"`
	Steps             []stepEntry     `json:"steps"`
	Text              *string         `json:"text"`
	Content           json.RawMessage `json:"content"`
	StructuredContent json.RawMessage `json:"structuredContent"`
	IsError           bool            `json:"isError"`
	Blob              *string         `json:"blob"`
	Messages          json.RawMessage `json:"messages"`
	outcomeEntry
}

type stepEntry struct {
	Wait     *time.Duration  `json:"wait"`
	Progress *float64        `json:"progress"`
	Total    float64         `json:"total"`
	Message  string          `json:"message"`
	Log      json.RawMessage `json:"log"`
	Level    string          `json:"level"`
	Logger   string          `json:"logger"`
	Elicit   *string         `json:"elicit"`
	Schema   json.RawMessage `json:"schema"`
	Sample   *string         `json:"sample"`
	Roots    bool            `json:"roots"`
	Changed  string          `json:"changed"`
	Updated  string          `json:"updated"`
}
