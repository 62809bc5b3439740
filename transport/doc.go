// Package transport reads and writes whole messages between two peers that hold a duplex connection.
//
// A [Conn] knows where a message ends and nothing of what it says. There are four:
//
//   - [Stdio] is the server's end of the stdio transport: this process's standard input and output.
//   - [Command] is the client's end: it starts a server as a child process and ends it, with all that
//     it started, when the Conn is closed.
//   - [Stream] is any byte stream: a Unix socket, a TCP connection.
//   - [Pipe] is two ends in memory.
//
// On a byte stream a message is one line of UTF-8 (all revisions, transports, stdio). Empty lines are
// ignored, a carriage return before the line feed is dropped, a last line that ends with the stream
// instead of a line feed is a message like any other. What is in a line is not looked at: a byte order
// mark, for example, is delivered, and is for the JSON parser to refuse.
package transport
