// Workers in Go send to a collector that has returned, beside a ticker.
// build: go
// outcome: unknown
// must: which goroutines wait for what cannot be seen from outside
// never: no thread of the process is left
// never: for ever
package main

import (
	"sync"
	"time"
)

var door sync.Mutex

func tick() {
	for range time.Tick(100 * time.Millisecond) {
		door.Lock()
		door.Unlock()
	}
}

func main() {
	results := make(chan int)
	var workers sync.WaitGroup
	go tick()
	for number := 0; number < 5; number++ {
		workers.Add(1)
		go func(number int) {
			defer workers.Done()
			results <- number
		}(number)
	}
	<-results
	<-results
	workers.Wait()
}
