package rpc_test

import (
	"strings"
	"testing"

	"github.com/parley-mcp/parley/internal/jsonscan"
	"github.com/parley-mcp/parley/internal/rpc"
	"github.com/parley-mcp/parley/mcp"
)

const (
	forwardedHead = `{"jsonrpc":"2.0","id":1,"result":`
	forwardedText = `"content":[{"type":"text","text":"caf\u00e9"}],"isError":false`
)

// longMembers are long enough to be sent without a copy.
var longMembers = forwardedText + `,"x":"` + strings.Repeat("x", 16<<10) + `"`

// received returns a Forwarding with a response, the response, and the memory that it was read into.
func received(t *testing.T, result string) (f *rpc.Forwarding, memory []byte) {
	t.Helper()
	f = &rpc.Forwarding{Context: t.Context()}
	response := forwardedHead + result + "}"
	reserved := f.Reserve(int64(len(response)))
	memory = append(reserved, response...)
	f.Received(memory)
	from := len(reserved) + len(forwardedHead)
	f.Result = &mcp.CallToolResult{ResultBase: mcp.ResultBase{Source: memory[from : from+len(result) : from+len(result)]}}
	return f, memory
}

func TestForwardedResultIsSentFromTheMemoryOfTheResponse(t *testing.T) {
	want := "head{" + longMembers + "}"
	for _, result := range []string{
		"{" + longMembers + "}", `{"resultType":"complete",` + longMembers + "}", "{" + longMembers + `,"_meta":{}}`,
		"{ \n" + longMembers + "\r\n}",
	} {
		f, memory := received(t, result)
		got := f.Append([]byte("head"), mcp.V20251125, nil)
		if strings.ReplaceAll(string(got), " ", "") != want {
			t.Errorf("%s is sent as %s, want %s", result, got, want)
		}
		if jsonscan.Offset(memory, got) < 0 {
			t.Errorf("%s is copied", result)
		}
	}
}

func TestForwardedResultIsCopiedIfItHasNoSpaceInItsMemory(t *testing.T) {
	long := strings.Repeat("h", 5000)
	for _, test := range []struct{ head, result, want string }{
		{"head", `{"a":1,"_meta":{},` + longMembers + `}`, `head{"a":1,` + longMembers + `}`}, // not one slice
		{long, `{` + longMembers + `}`, long + `{` + longMembers + `}`},
		{"head", `{"content":[]}`, `head{"content":[]}`}, // a copy costs less than the part of the buffer that is lost
	} {
		f, memory := received(t, test.result)
		if got := f.Append([]byte(test.head), mcp.V20251125, nil); string(got) != test.want || jsonscan.Offset(memory, got) >= 0 {
			t.Errorf("%s is sent as %s, want a copy %s", test.result, got, test.want)
		}
	}
}

// A request that is repeated has several responses. The results of earlier ones may still be in use.
func TestOnlyTheFirstResponseIsReadIntoABuffer(t *testing.T) {
	f, memory := received(t, "{}")
	if reserved := f.Reserve(10); reserved != nil {
		t.Fatalf("the second response gets %d bytes of a buffer", cap(reserved))
	}
	f.Result.Source = []byte("{" + forwardedText + "}") // of the second response
	want := string(memory)
	if got := f.Append(nil, mcp.V20251125, nil); string(got) != "{"+forwardedText+"}" {
		t.Errorf("the second result is sent as %s", got)
	}
	if string(memory) != want {
		t.Errorf("the first response is changed to %q", memory)
	}
}

func TestResponsesHaveMemoryOfTheirOwnUnlessTheyAreForwarded(t *testing.T) {
	if f := rpc.ForwardingOf(t.Context()); f.Reserve(1) != nil {
		t.Error("a response that is not forwarded is read into a buffer")
	}
}
