// A server in Go without guests.
// build: go
// outcome: any
// never: no thread of the process is left
// never: for ever
// never: can never complete
package main

import "net"

func main() {
	door, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	door.Accept()
}
