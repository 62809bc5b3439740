package transport

import (
	"bytes"
	"testing"

	"github.com/parley-mcp/parley/internal/must"
)

func TestExitErrorHasTheMessageOfACrash(t *testing.T) {
	long := "goroutine 7 [select]:\nmain.wait(0xc000)\n\t/src/main.go:9 +0x1d\n\n"
	for name, test := range map[string]struct{ stderr, want string }{
		"Go": {"starting\npanic: no such table [recovered]\n\tpanic: no such table\n\ngoroutine 1 [running]:\nmain.main()\n" +
			"\t/src/main.go:4 +0x1d\nexit status 2\n", `stderr: "panic: no such table [recovered]"`},
		"many goroutines": {"fatal error: all goroutines are asleep - deadlock!\n\n" + string(bytes.Repeat([]byte(long), 500)),
			`stderr: "fatal error: all goroutines are asleep - deadlock!"`},
		"Node": {"/app/index.js:3\nthrow new TypeError('no token')\n^\n\nTypeError: no token\n    at Object.<anonymous> " +
			"(/app/index.js:3:7)\n    at node:internal/main:2:3 {\n  code: 'E1'\n}\n\nNode.js v20.1.0\n",
			`stderr: "TypeError: no token"`},
		"Rust": {"thread 'main' panicked at src/main.rs:2:5:\nno config\nnote: run with `RUST_BACKTRACE=1`\n",
			`stderr: "thread 'main' panicked at src/main.rs:2:5: no config"`},
		"Java": {"Exception in thread \"main\" java.lang.RuntimeException: a\n\tat A.main(A.java:3)\n" +
			"Caused by: java.io.IOException: disk\n\t... 1 more\n", `stderr: "Caused by: java.io.IOException: disk"`},
		"Python": {"Traceback (most recent call last):\n  File \"a.py\", line 1\nValueError: no key\n",
			`last line of stderr: "ValueError: no key"`},
		"an error of before": {"Error: retrying\nconnected\nbye\n", `last line of stderr: "bye"`},
		"one line":           {"API_KEY is not set", `last line of stderr: "API_KEY is not set"`},
	} {
		s := newStderrLines(CommandOptions{})
		s.drain(bytes.NewReader([]byte(test.stderr)))
		err := &ExitError{Code: 1, Stderr: s.tail.bytes(), fault: s.fault.message()}
		must.CheckEqual(t, err.Error(), "transport: server process exited with code 1; "+test.want, name)
	}
}
