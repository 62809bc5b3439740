// Command echo writes each line of standard input to standard output.
package main

import (
	"bufio"
	"os"
)

func main() {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		if _, err := os.Stdout.Write(line); err != nil {
			return
		}
	}
}
