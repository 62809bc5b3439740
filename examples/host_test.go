package examples

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
	"github.com/parley-mcp/parley/transport"
)

func TestHost(t *testing.T) {
	out, err := exec.Command(binary("host"), binary("hello"), binary("weather"), binary("missing")).CombinedOutput()
	for _, want := range []string{"hello__greet\n", "weather__weather\n", "server \"missing\" is down: "} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s%v: want %s", out, err, want)
		}
	}
}

// A server that the policy allows is called without a question; another is called after the user has approved.
func TestAgent(t *testing.T) {
	for _, tt := range []struct{ program, input, want string }{
		{"weather", "", "invalid arguments"}, // the script does not know the tool
		{"hello", "y\n", "Hello, Ada!"},
		{"hello", "n\n", "is denied: it was not approved: the user declined"},
	} {
		cmd := exec.Command(binary("agent"), binary(tt.program))
		cmd.Stdin = strings.NewReader(tt.input)
		out, err := cmd.CombinedOutput()
		asked := strings.Contains(string(out), "Allow the tool")
		if err != nil || !strings.Contains(string(out), "Answer: ") || asked != (tt.input != "") ||
			!strings.Contains(string(out), tt.want) {
			t.Errorf("%s, %q: %s%v, want %s", tt.program, tt.input, out, err, tt.want)
		}
	}
}

// The user approves the calls that the policy does not allow. The audit log records each call.
func TestGateway(t *testing.T) {
	asked := ""
	d := &client.Dialer{Elicit: func(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
		asked = form.Message
		return mcp.AcceptElicit(map[string]string{"approve": "once"})
	}}
	var audit []string
	c := start(t, d, transport.CommandOptions{Path: binary("gateway"), Args: []string{binary("hello"), binary("weather")},
		Stderr: func(line string) { audit = append(audit, line) }})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, err := range c.Watch(ctx, client.WatchFilter{Tools: true}) { // tools are added once their server is ready
		if err != nil {
			t.Fatal(err)
		}
		text, err := client.CallTool[string](ctx, c, "hello__greet", map[string]string{"name": "Ada"})
		if err != nil {
			continue
		}
		if text != "Hello, Ada!" || asked != "" {
			t.Errorf("%q, asked %q", text, asked)
		}
		weather, err := client.CallTool[map[string]any](ctx, c, "weather__weather", map[string]string{"city": "Oslo"})
		if err != nil {
			continue
		}
		if weather["city"] != "Oslo" || !strings.Contains(asked, `Allow the tool "weather" of the server "weather"?`) {
			t.Errorf("%v, asked %q", weather, asked)
		}
		if err := c.Close(); err != nil { // the program has exited, so its output is complete
			t.Error(err)
		}
		if all := strings.Join(audit, "\n"); !strings.Contains(all, `"approval":"approved","outcome":"ok"`) {
			t.Errorf("audit log: %s", all)
		}
		return
	}
	t.Error("the tools were not added")
}
