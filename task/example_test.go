package task_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/server"
	"github.com/parley-mcp/parley/task"
	"github.com/parley-mcp/parley/transport"
)

// printQueue is the driver of a job queue that has an HTTP API. A job has the ID of its task.
type printQueue struct{ url string }

func (q printQueue) Start(ctx context.Context, s task.Start) error {
	return q.do(ctx, http.MethodPut, s.ID, s.Arguments, nil)
}

func (q printQueue) Get(ctx context.Context, id string) (task.State, error) {
	var j job
	if err := q.do(ctx, http.MethodGet, id, nil, &j); err != nil {
		return task.State{}, err
	}
	switch {
	case j.Result != "":
		result := &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: j.Result}}}
		return task.State{Status: mcp.TaskCompleted, Result: result}, nil
	case j.Question != "":
		params, err := json.Marshal(mcp.ElicitParams{Message: j.Question,
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}}}`)})
		if err != nil {
			return task.State{}, err
		}
		open := mcp.InputRequests{"colour": {Method: mcp.MethodElicit, Params: params}}
		return task.State{Status: mcp.TaskInputRequired, InputRequests: open}, nil
	}
	return task.State{Message: "in the queue"}, nil
}

func (q printQueue) Update(ctx context.Context, id string, answers map[string]json.RawMessage) error {
	var answer struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(answers["colour"], &answer); err != nil {
		return err
	}
	return q.do(ctx, http.MethodPost, id, answer.Content, nil)
}

func (q printQueue) Cancel(ctx context.Context, id string) error {
	return q.do(ctx, http.MethodDelete, id, nil, nil)
}

func (q printQueue) do(ctx context.Context, method, id string, body []byte, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, q.url+"/"+id, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if into == nil {
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

// The tasks of this tool are jobs of a queue in another process. The queue asks the user a question.
func ExampleDriver() {
	url, stop, err := startQueue()
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	s := &server.Server{Name: "printer", Version: "1.0.0"}
	server.AddTool(s, mcp.Tool{Name: "print", Description: "Print a document"},
		func(context.Context, struct {
			Document string `json:"document"`
		}) (string, error) {
			return "", fmt.Errorf("print needs a client that supports tasks")
		},
		server.AsTask(server.TaskOptions{Driver: printQueue{url}, PollInterval: 100 * time.Millisecond}))

	near, far := transport.Pipe()
	go s.ServeConn(context.Background(), far)
	dialer := client.Dialer{
		Elicit: func(_ context.Context, params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
			fmt.Println(params.Message)
			return &mcp.ElicitResult{Action: mcp.ElicitAccept, Content: json.RawMessage(`{"answer":"yes"}`)}, nil
		},
	}
	c, err := dialer.Dial(context.Background(), client.Conn(near))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	text, err := client.CallTool[string](context.Background(), c, "print", map[string]string{"document": "plan.pdf"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(text)
	// Output:
	// Print plan.pdf in colour?
	// printed, colour: yes
}
