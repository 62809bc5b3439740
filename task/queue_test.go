package task_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// The job queue of the example is an HTTP server in another process: this test program, started
// with an environment variable.
const queueVariable = "PARLEY_TEST_QUEUE"

func TestMain(m *testing.M) {
	if os.Getenv(queueVariable) != "" {
		serveQueue()
		return
	}
	os.Exit(m.Run())
}

// job is a job of the queue, which is done when its question is answered.
type job struct {
	Question string `json:"question,omitempty"` // a question that has not been answered
	Result   string `json:"result,omitempty"`   // result of a job that is done
}

// serveQueue serves jobs until standard input ends: PUT adds a job, GET returns it, POST answers its
// question, DELETE removes it.
func serveQueue() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	var mu sync.Mutex
	jobs := make(map[string]job)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		j, known := jobs[r.URL.Path]
		var body map[string]string
		json.NewDecoder(r.Body).Decode(&body)
		switch r.Method {
		case http.MethodPut:
			if !known {
				jobs[r.URL.Path] = job{Question: "Print " + body["document"] + " in colour?"}
			}
		case http.MethodPost:
			jobs[r.URL.Path] = job{Result: "printed, colour: " + body["answer"]}
		case http.MethodDelete:
			delete(jobs, r.URL.Path)
		case http.MethodGet:
			json.NewEncoder(w).Encode(j)
		}
	})
	go http.Serve(listener, handler)
	fmt.Printf("http://%s\n", listener.Addr())
	bufio.NewReader(os.Stdin).ReadByte()
}

// startQueue starts the job queue and returns its URL.
func startQueue() (url string, stop func(), err error) {
	program, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	c := exec.Command(program)
	c.Env = append(os.Environ(), queueVariable+"=1")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		in.Close()
		c.Wait()
	}
	url, err = bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return "", nil, err
	}
	return strings.TrimSpace(url), stop, nil
}
