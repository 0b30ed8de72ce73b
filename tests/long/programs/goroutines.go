// Goroutines that wait for a channel and sleep; Go makes its system calls itself.
package main

import (
	"sync"
	"time"
)

func main() {
	var all sync.WaitGroup
	jobs := make(chan int)
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			sum := 0
			for job := range jobs {
				for i := 0; i < 2000000; i++ {
					sum += i * job
				}
				time.Sleep(3 * time.Millisecond)
			}
		}()
	}
	for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
		jobs <- 1
		time.Sleep(5 * time.Millisecond)
	}
	close(jobs)
	all.Wait()
}
