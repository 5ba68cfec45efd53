// What Go has for goroutines that wait for each other. The runtime makes all its system calls of
// futexes in one function, and none of its waits is a barrier that can be told.
//
// waits KIND [rounds]
//
// channel    two goroutines send each other what they have received
// ring       three of them
// group      a sync.WaitGroup for each round
// mutex      a sync.Mutex that is always wanted
// cond       a sync.Cond, three goroutines in turn
// rwmutex    readers and a writer
// collect    goroutines that allocate, and the collector that stops them
// threads    two goroutines in turn, each bound to a thread of its own
// select     workers that are given pieces, with timers
package main

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

var rounds = 3000

//go:noinline
func work(by int) int {
	sum := 0
	for i := 0; i < by*1000; i++ {
		sum += i ^ sum
	}
	return sum
}

func inGoroutines(count int, act func(me int)) {
	var all sync.WaitGroup
	for me := 0; me < count; me++ {
		all.Add(1)
		go func(me int) {
			defer all.Done()
			act(me)
		}(me)
	}
	all.Wait()
}

func ring(count int, bound bool) {
	next := make([]chan int, count)
	for i := range next {
		next[i] = make(chan int, 1)
	}
	next[0] <- 0
	inGoroutines(count, func(me int) {
		if bound {
			runtime.LockOSThread()
		}
		for i := 0; i < rounds; i++ {
			value := <-next[me]
			work(50)
			next[(me+1)%count] <- value
		}
	})
}

func group() {
	for i := 0; i < rounds; i++ {
		inGoroutines(3, func(int) { work(50) })
	}
}

func mutex() {
	var held sync.Mutex
	inGoroutines(3, func(me int) {
		for i := 0; i < rounds; i++ {
			held.Lock()
			work(50)
			held.Unlock()
			work(5 * me)
		}
	})
}

func cond() {
	var held sync.Mutex
	changed := sync.NewCond(&held)
	turn := 0
	inGoroutines(3, func(me int) {
		for i := 0; i < rounds; i++ {
			held.Lock()
			for turn != me {
				changed.Wait()
			}
			work(50)
			turn = (turn + 1) % 3
			changed.Broadcast()
			held.Unlock()
		}
	})
}

func rwmutex() {
	var held sync.RWMutex
	inGoroutines(3, func(me int) {
		for i := 0; i < rounds; i++ {
			if me == 0 {
				held.Lock()
				work(50)
				held.Unlock()
			} else {
				held.RLock()
				work(30)
				held.RUnlock()
			}
		}
	})
}

var kept [8][]byte

func collect() {
	inGoroutines(3, func(me int) {
		for i := 0; i < rounds; i++ {
			kept[me] = make([]byte, 100000)
			work(10)
			if i%30 == 0 {
				runtime.GC()
			}
		}
	})
}

func selects() {
	pieces, results := make(chan int), make(chan int)
	for i := 0; i < 2; i++ {
		go func() {
			for piece := range pieces {
				results <- work(50) + piece
			}
		}()
	}
	for i := 0; i < rounds; i++ {
		pieces <- i
		select {
		case <-results:
		case <-time.After(time.Second):
		}
		if i%100 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	close(pieces)
}

func main() {
	if len(os.Args) > 2 {
		rounds, _ = strconv.Atoi(os.Args[2])
	}
	switch os.Args[1] {
	case "channel":
		ring(2, false)
	case "ring":
		ring(3, false)
	case "threads":
		ring(2, true)
	case "group":
		group()
	case "mutex":
		mutex()
	case "cond":
		cond()
	case "rwmutex":
		rwmutex()
	case "collect":
		collect()
	case "select":
		selects()
	default:
		os.Exit(2)
	}
}
