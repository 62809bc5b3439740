// Command answer is a client that calls a tool, shows its progress, and lets the user answer the questions of the
// server at the terminal.
//
//	go run ./examples/answer book go run ./examples/booking
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/parley-mcp/parley/client"
	"github.com/parley-mcp/parley/mcp"
)

// user answers the questions of one server at a terminal.
type user struct {
	server string
	in     *bufio.Scanner
	out    io.Writer
}

// configure lets a client ask the user. The client declares to servers that it can fill in forms and open URLs.
func (u *user) configure(d *client.Dialer) {
	d.Elicit, d.ElicitURL = u.fill, u.open
}

// fill shows a form of the server, and reads a line for each field if the user agrees.
func (u *user) fill(_ context.Context, form *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	fields, err := mcp.ParseElicitSchema(form.RequestedSchema)
	if err != nil {
		return nil, err
	}
	if !u.agrees("%s asks: %q Answer?", u.server, form.Message) {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	content := map[string]any{}
	for _, field := range fields.Properties {
		switch answer := u.read("%s (%s)", field.Name, field.Schema.Type); {
		case answer == "": // the client adds the default of the field, if there is one
		case field.Schema.Type == mcp.TypeString:
			content[field.Name] = answer
		case field.Schema.Type == mcp.TypeArray:
			content[field.Name] = strings.Fields(answer)
		default: // a number or a boolean
			content[field.Name] = json.RawMessage(answer)
		}
	}
	return mcp.AcceptElicit(content) // the client checks it against the form
}

// open asks the user to open a page. Nothing may fetch it before the user agrees.
func (u *user) open(_ context.Context, page *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if !u.agrees("%s asks you to open %s because: %q Agree?", u.server, page.URL, page.Message) {
		return &mcp.ElicitResult{Action: mcp.ElicitDecline}, nil
	}
	fmt.Fprintln(u.out, "Open the page in your browser.")
	return &mcp.ElicitResult{Action: mcp.ElicitAccept}, nil
}

func (u *user) agrees(format string, args ...any) bool {
	return u.read(format+" [y/n]", args...) == "y"
}

// read asks for a line. It returns an empty one at the end of the input.
func (u *user) read(format string, args ...any) string {
	fmt.Fprintf(u.out, format+" ", args...)
	u.in.Scan()
	return strings.TrimSpace(u.in.Text())
}

func run(ctx context.Context, target client.Target, tool string) error {
	d := client.Dialer{Name: "answer", Version: "1.0.0"}
	(&user{server: target.String(), in: bufio.NewScanner(os.Stdin), out: os.Stdout}).configure(&d)
	c, err := d.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer c.Close()
	text, err := client.CallTool[string](ctx, c, tool, nil,
		client.WithProgress(func(done, total float64, message string) {
			fmt.Printf("%v of %v %s\n", done, total, message)
		}))
	fmt.Println(text)
	return err
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: answer TOOL COMMAND [ARGUMENT…]")
	}
	if err := run(context.Background(), client.Command(os.Args[2], os.Args[3:]...), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}
