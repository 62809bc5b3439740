// Package transport sends and receives messages over a duplex connection between two
// peers.
//
// A [Conn] finds the boundaries of messages and does not interpret them. There are four
// implementations:
//
//   - [Stdio] is the server's side of the stdio transport: the standard input and output
//     of this process.
//   - [StartCommand] is the client's side. It starts a server as a child process. Close ends the process and all
//     processes that it started.
//   - [Stream] works over any byte stream, such as a Unix socket or a TCP connection.
//   - [Pipe] connects two ends in memory.
//
// On a byte stream, a message is one line of UTF-8 (all revisions, transports, stdio). The reader ignores empty
// lines, removes a carriage return before the line feed, and accepts a last line without a line feed. It does
// not check the contents of a line; for example, it delivers a byte order mark, which the JSON parser rejects.
package transport

// Where the rules are:
//
//   - conn.go: what a connection promises, and the default sizes of messages. pipe.go: the connection in memory.
//   - stream.go: connections over a byte stream: reads that are interrupted, and how long Close waits. line.go: where a
//     message ends, what is too large or cut off, and how writes are batched.
//   - command.go: child processes: their environment, standard error, and the last output. process.go: how a process
//     and its group are ended, in which time. guard_unix.go: what ends them if this process dies. fault.go: which line
//     of standard error explains an exit. Names of variables that are inherited: internal/childenv.
//   - stdio.go: standard input and output of this process: what is redirected. peer_linux.go: whether the other side
//     still reads.
