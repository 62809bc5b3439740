package suite

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mcp/parley/mcp"
)

// errUnanswered is the error for the server whose question the test does not expect.
var errUnanswered = errors.New("the test has no answer to this question")

// questions are the questions of the server during a test, and the answers. They are safe for concurrent use.
type questions struct {
	mu         sync.Mutex
	answers    []answer
	used       []bool
	unanswered []string // messages
}

// answer returns the first answer that is not used and that fits.
func (q *questions) answer(params *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, a := range q.answers {
		if q.used[i] || !strings.Contains(params.Message, a.Question) {
			continue
		}
		q.used[i] = true
		switch {
		case a.Action != "" && a.Action != mcp.ElicitAccept:
			return &mcp.ElicitResult{Action: a.Action}, nil
		case params.Mode == mcp.ElicitModeURL:
			return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
		case a.Content == nil:
			return mcp.AcceptElicit(struct{}{})
		}
		return mcp.AcceptElicit(a.Content)
	}
	q.unanswered = append(q.unanswered, params.Message)
	return nil, errUnanswered
}

// check adds the questions without an answer and the answers without a question. It reports whether a question was not answered.
func (q *questions) check(failures *failures) (unanswered bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, message := range q.unanswered {
		failures.add("/answers", Failure{Check: "answers", Message: fmt.Sprintf("the server asks %s; add an answer", quote(message))})
	}
	for i, used := range q.used {
		if !used {
			failures.add(jsontext.Pointer("/answers").AppendToken(strconv.Itoa(i)), Failure{Check: "answers", Message: "the server has not asked for this answer"})
		}
	}
	return len(q.unanswered) > 0
}
