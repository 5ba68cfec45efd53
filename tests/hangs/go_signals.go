// A daemon in Go that waits for a signal.
// build: go
// outcome: any
// never: no thread of the process is left
// never: for ever
// never: can never complete
package main

import (
	"os"
	"os/signal"
)

func main() {
	come := make(chan os.Signal, 1)
	signal.Notify(come, os.Interrupt)
	<-come
}
